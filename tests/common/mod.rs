//! A server in this process with a database of its own, people who call it, and what must hold for every answer.
//!
//! [`spawn`] gives a [`World`]. With `TEST_DATABASE_URL` it lives on PostgreSQL, otherwise in a SQLite file. When a world
//! ends, nothing secret that it knew may stand in the logs or in the database.

mod ask;
mod check;
mod database;
pub(crate) mod dns;
mod leaks;
pub(crate) mod operations;
pub(crate) mod people;
pub(crate) mod provider;
mod race;
pub(crate) mod smtp;
mod template;
pub(crate) mod wire;
mod world;

pub(crate) use ask::{Ask, Reply};
pub(crate) use leaks::{log_mark, logged_since};
pub(crate) use race::{at_once, eventually, insist};
pub(crate) use world::{Caller, Role, World, code_in, spawn, spawn_nodes, spawn_nodes_with, spawn_with, token_in};
