//! A receiver on this machine: it takes requests, tells signed ones from others, hands those on to a program, and says what
//! became of each. For trying webhooks out, not for production: it keeps nothing.
//!
//! [`Receiver`] listens for deliveries, [`Relay`] hands on events of the stream, and [`Post`] sends one request; all of them
//! send to loopback or over https only, follow no redirect, and hand on the very bytes that were signed.

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
pub use relay::{Handed, Relay};
pub use serve::{Receiver, Serving};

use crate::webhook;

/// Requests in hand at one time; further ones are answered 503.
pub const MOST_IN_HAND: usize = 64;
/// Longest from a request's head to its answer, and so the most that the program behind may take: the service itself waits ten
/// seconds.
pub const FORWARD_LIMIT: Duration = Duration::from_secs(9);
/// Events that wait for the program behind while the stream is read on; newer ones are dropped, and counted.
pub const MOST_WAITING: usize = 10_000;

/// A request, and what became of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Receipt {
    /// When it came.
    pub at: Timestamp,
    /// The headers that its signatures are in, as they came, `x-service-test` and `content-type`.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
    /// The event, or why the request is not believed. A `webhook-signature` that is there has to be good, see
    /// [`Verifier::verify_both`](webhook::Verifier::verify_both).
    pub event: Result<Event, webhook::Error>,
    /// Why it was refused before it was read, such as for its method or its length; its signature then counts as missing, and
    /// the body is empty.
    pub refused: Option<&'static str>,
    /// The event's id: of a request that is believed, the signed one; otherwise what somebody wrote there.
    pub id: Option<String>,
    /// The same event came before.
    pub is_repeated: bool,
    /// What the program behind answered, where it was asked.
    pub forwarded: Option<Result<Answer, Fault>>,
    /// The status that the sender got; for events of the stream, the program's.
    pub answered: Option<u16>,
    /// From the whole request to its answer.
    pub took: Duration,
}

impl Receipt {
    /// Whether it says that it was made up to try the webhook. That is not signed.
    pub fn is_test(&self) -> bool {
        self.headers.get(deeplink_core::signature::SERVICE_TEST).is_some_and(|value| value == "true")
    }

    /// Whether it is believed, and says what an event says.
    pub fn is_valid(&self) -> bool {
        self.event.is_ok()
    }

    /// Whether it is signed as it should be, even if it says nothing that an event says.
    pub fn is_signed(&self) -> bool {
        matches!(self.event, Ok(_) | Err(webhook::Error::Parse(_)))
    }
}
