//! Calls to other services: slow, broken and hostile answers become values here.

mod dial;
pub(crate) mod dns;
pub(crate) mod facilitator;
pub(crate) mod http;
pub(crate) mod providers;
pub(crate) mod stripe;
