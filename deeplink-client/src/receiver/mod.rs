//! A local receiver: it accepts requests, verifies their signatures, forwards valid ones to a server, and reports each.
//! For testing webhooks, not for production: it stores nothing.
//!
//! [`Receiver`] listens for deliveries, [`Relay`] forwards events of the stream, and [`Post`] sends one request; all of
//! them send to loopback or over https only, follow no redirect, and forward exactly the bytes that were signed.

mod post;
mod recent;
mod relay;
mod serve;

use std::time::Duration;

use bytes::Bytes;
use deeplink_core::event::Event;
use deeplink_core::time::Timestamp;
use http::HeaderMap;

pub use post::{Answer, BadTarget, Fault, Post, Target};
pub use relay::{Enqueued, Relay};
pub use serve::{Receiver, Serving};

use crate::webhook;

/// Maximum concurrent requests; further ones get a 503 response.
pub const MAX_IN_FLIGHT: usize = 64;
/// Maximum time from a request's head to its response, and so for the server behind it: the service itself waits ten
/// seconds.
pub const FORWARD_LIMIT: Duration = Duration::from_secs(9);
/// Maximum events queued for the server; newer ones are dropped, and counted.
pub const MAX_QUEUED: usize = 10_000;

/// A request and its result.
#[derive(Debug)]
#[non_exhaustive]
pub struct Receipt {
    /// When it arrived.
    pub at: Timestamp,
    /// The headers of its signatures as received, `x-service-test` and `content-type`.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
    /// The event, or why the request was rejected. A `webhook-signature`, if present, must be valid; see
    /// [`Verifier::verify_both`](webhook::Verifier::verify_both).
    pub event: Result<Event, webhook::Error>,
    /// Why it was rejected before it was read, such as for its method or its length; its signature then counts as missing, and
    /// the body is empty.
    pub refused: Option<&'static str>,
    /// The event's id: the signed one if the request is valid; otherwise the one that the header claims.
    pub id: Option<String>,
    /// The same event arrived before.
    pub is_repeated: bool,
    /// The server's response, if the event was forwarded.
    pub forwarded: Option<Result<Answer, Fault>>,
    /// The status returned to the sender; for events of the stream, the server's.
    pub answered: Option<u16>,
    /// Time from the complete request to its response.
    pub took: Duration,
}

impl Receipt {
    /// Whether it is marked as a test. That header is not signed.
    pub fn is_test(&self) -> bool {
        self.headers.get(deeplink_core::signature::SERVICE_TEST).is_some_and(|value| value == "true")
    }

    /// Whether it is correctly signed and contains an event.
    pub fn is_valid(&self) -> bool {
        self.event.is_ok()
    }

    /// Whether it is correctly signed, even if it contains no event.
    pub fn is_signed(&self) -> bool {
        matches!(self.event, Ok(_) | Err(webhook::Error::Parse(_)))
    }
}
