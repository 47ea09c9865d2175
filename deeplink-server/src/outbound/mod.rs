//! What the service calls: slow, broken and hostile answers end here as values.

pub(crate) mod dns;
pub(crate) mod places;
