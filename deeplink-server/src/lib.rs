//! The deeplink service: links, the visits that follow them, and the clicks that are counted.
//!
//! | Module | Holds |
//! |---|---|
//! | [`start`] | from a configuration to a running service |
//! | `operators` | the listener for metrics and health |
//! | `service`, `routes` | a request's way in; the route table |
//! | `api` | operations for programs, one noun a file |
//! | `pages` | what people see on the service's own host |
//! | `visit` | what a tap meets: redirect, page, JSON |
//! | `db` | one set of SQL texts for two databases, one door for writes |
//! | `clicks`, `uses` | the click log's way in; when keys were last used |
//! | `cache`, `ttl_cache` | what is kept in memory |
//! | `caller`, `rate_limit`, `shares`, `metrics` | who acts, how often they may, at whose cost, what is counted |
//! | `certificates` | TLS of our own: what is served by name |
//! | `stream` | events as they happen, for whoever reads along |
//! | `http` | connections, credentials, bodies, hosts |
//! | `outbound` | what the service calls |
//! | [`qr`] | links drawn as QR codes |
//! | [`threats`] | the operator's list of refused URLs and hosts |
//! | `work` | what runs behind the replies |
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
pub mod db;
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
mod work;
