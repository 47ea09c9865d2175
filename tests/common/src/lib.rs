//! A server in this process with its own database, its callers, and the checks that hold for every answer.
//!
//! [`spawn`] gives a [`World`]. With `TEST_DATABASE_URL` it lives on PostgreSQL, otherwise in a SQLite file. When a
//! world ends, none of its secrets may be in the logs or in the database. [`dl`] runs the command line instead, against
//! a [`double`] of the service.

mod ask;
mod caller;
mod check;
mod database;
pub mod dl;
pub mod double;
mod leaks;
pub mod operations;
mod people;
mod template;
pub mod wire;
mod world;

pub use ask::{Ask, POOL_IDLE, Reply};
pub use caller::Caller;
pub use database::{Away, Database, Dump, Held};
pub use leaks::{Mark, log_everything, log_mark, logged_since};
pub use people::insist;
pub use world::{Role, World, code_in, spawn, spawn_nodes, spawn_nodes_with, spawn_with, token_in, told_countries};

pub use deeplink_doubles::wait::{at_once, eventually};
pub use deeplink_doubles::{dns, facilitator, provider, smtp, stripe};
