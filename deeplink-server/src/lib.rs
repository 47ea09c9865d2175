//! The deeplink service: links, visits to them, and the clicks that are counted.
//!
//! | Module | Holds |
//! |---|---|
//! | [`start`] | from a configuration to a running service |
//! | `operators` | the listener for metrics and health |
//! | `service`, `routes` | a request's way in; the route table |
//! | `docs` | the guides and the API reference, as pages |
//! | `api` | operations for programs, one noun a file |
//! | `pages` | what people see on the service's own host |
//! | `visit` | the response to a visit: redirect, page, JSON |
//! | `db` | one set of SQL texts for two databases, one path for writes |
//! | `clicks`, `uses` | writing the click log; when keys were last used |
//! | `cache`, `ttl_cache` | in-memory caches |
//! | `caller`, `rate_limit`, `shares`, `metrics` | who calls, how often, with which share of resources; metrics |
//! | `certificates` | built-in TLS: the certificate served for each name |
//! | `stream` | events as they happen, for stream readers |
//! | `http` | connections, credentials, bodies, hosts |
//! | `outbound` | calls to other services |
//! | [`qr`] | links drawn as QR codes |
//! | [`threats`] | the operator's list of refused URLs and hosts |
//! | `work` | background work |
//! | `admin` | operator commands |
//! | [`config`], [`clock`], [`vault`] | settings, time, sealed secrets |
//! | `private` | files that only their owner can read |

pub mod admin;
mod api;
mod cache;
mod caller;
mod certificates;
mod clicks;
pub mod clock;
pub mod config;
pub mod country;
pub mod db;
mod docs;
mod error;
pub mod http;
mod metrics;
mod notifier;
pub mod openapi;
mod operators;
mod outbound;
mod pages;
mod private;
pub mod qr;
mod rate_limit;
mod routes;
mod service;
mod shares;
pub mod start;
mod state;
mod stream;
pub mod threats;
mod ttl_cache;
mod uses;
pub mod vault;
mod visit;
mod watched_file;
mod work;
