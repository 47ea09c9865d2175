//! Pages of the service's own host, for people: made on the server, without a script.

pub(crate) mod auth;
pub(crate) mod headers;
