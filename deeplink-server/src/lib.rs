//! The deeplink service: links, the visits that follow them, and the clicks that are counted.
//!
//! | Module | Holds |
//! |---|---|
//! | [`start`] | from a configuration to a running service |
//! | `service`, `routes` | a request's way in; the route table |
//! | `api` | operations for programs, one noun a file |
//! | `pages` | what people see on the service's own host |
//! | `visit` | what a tap meets: redirect, page, JSON |
//! | `db` | one set of SQL texts for two databases, one door for writes |
//! | `clicks`, `uses` | the click log's way in; when keys were last used |
//! | `cache`, `brief` | what is kept in memory |
//! | `certificates` | TLS of our own: what is served by name, how it is ordered |
//! | `stream` | events as they happen, for whoever reads along |
//! | `http` | connections, credentials, bodies, limits |
//! | `outbound` | what the service calls |
//! | [`qr`] | links drawn as QR codes |
//! | [`threats`] | the operator's list of refused URLs and hosts |
//! | `work` | what runs behind the replies |
//! | `admin` | operator commands |
//! | [`config`], [`clock`], [`vault`] | settings, time, sealed secrets |

pub mod admin;
mod api;
mod brief;
mod cache;
mod certificates;
mod clicks;
pub mod clock;
pub mod config;
pub mod db;
mod error;
mod happened;
pub mod http;
pub mod openapi;
mod outbound;
mod pages;
pub mod qr;
mod routes;
mod service;
pub mod start;
mod state;
mod stream;
pub mod threats;
mod uses;
pub mod vault;
mod visit;
mod work;
