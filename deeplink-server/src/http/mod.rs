//! The plumbing around handlers: connections, who calls, what may come in, and how it is refused.

pub(crate) mod auth;
pub(crate) mod client_ip;
pub(crate) mod cors;
pub(crate) mod csrf;
pub(crate) mod cursor;
pub(crate) mod etag;
pub(crate) mod extract;
pub(crate) mod host;
pub mod listen;
pub(crate) mod metrics;
pub(crate) mod once;
pub(crate) mod rate_limit;
pub(crate) mod request_id;
pub(crate) mod sdk_key;
pub(crate) mod session;
