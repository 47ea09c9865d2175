//! The plumbing around handlers: connections, authentication, request limits and refusals.

pub(crate) mod anonymous;
pub(crate) mod auth;
pub(crate) mod client_ip;
pub(crate) mod cors;
pub(crate) mod csrf;
pub(crate) mod cursor;
pub(crate) mod documented;
pub(crate) mod etag;
pub(crate) mod extract;
pub(crate) mod fixed;
pub(crate) mod host;
pub mod listen;
pub(crate) mod misses;
pub(crate) mod missing;
pub(crate) mod multipart;
pub(crate) mod once;
pub(crate) mod pages;
pub(crate) mod redirect;
pub(crate) mod request_id;
pub(crate) mod sdk_key;
pub(crate) mod session;
pub(crate) mod x402;

use http::header::{CACHE_CONTROL, HeaderName, HeaderValue};

/// The header of an answer that must not be stored.
pub(crate) const NO_STORE: (HeaderName, HeaderValue) = (CACHE_CONTROL, HeaderValue::from_static("no-store"));
