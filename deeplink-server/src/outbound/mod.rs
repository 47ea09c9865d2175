//! What the service calls: slow, broken and hostile answers end here as values.

mod dial;
pub(crate) mod dns;
pub(crate) mod facilitator;
pub(crate) mod http;
pub(crate) mod providers;
pub(crate) mod stripe;
