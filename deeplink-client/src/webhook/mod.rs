//! Receiving webhooks: verifying requests and parsing events.
//!
//! ```
//! use std::time::Duration;
//!
//! use deeplink_client::Timestamp;
//! use deeplink_client::webhook::{EventData, Verifier, WebhookSecret};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let now = Timestamp::from_millis(1_795_167_000_000);
//! # let event = deeplink_core::event::sample::sample(&deeplink_core::event::EventKind::Conversion, 1).unwrap();
//! # let body = event.raw.as_bytes();
//! # let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
//! # let headers = Verifier::new([WebhookSecret::new(secret)])?.sign(body, "evt_0123456789abcdef01234567", now)?;
//! let verifier = Verifier::new([WebhookSecret::new(secret)])?.require_timestamp(Duration::from_secs(300));
//! # let verifier = verifier.with_clock(move || now);
//! // The headers and the body as received: a body that was parsed and serialized again has different bytes.
//! if let EventData::Conversion(sale) = verifier.parse(&headers, body)?.data {
//!     println!("{} {}", sale.event_id.as_str(), sale.conversion_type);
//! }
//! # Ok(()) }
//! ```
//!
//! A request carries two signatures. `X-Service-Signature` covers the body alone, so anyone who has seen a request can
//! replay it at any time. `webhook-signature` covers the event's id and the attempt's time too:
//! [`Verifier::require_timestamp`] requires it and rejects old requests, and [`Deduplicator`] rejects repeated events.
//! The service itself may deliver an event more than once, so receivers deduplicate by `webhook-id` (or the `event_id`
//! of a conversion) in any case.
//!
//! With the feature `axum`, [`SignedEvent`] is an extractor that checks the signature before a handler runs. It checks
//! the time only if its verifier does ([`Verifier::require_timestamp`]), and it remembers nothing: deduplicate in the
//! handler, with [`Deduplicator`] or where the events are stored.

mod deduplicator;
#[cfg(feature = "axum")]
mod extract;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::signature::{SERVICE_SIGNATURE, Signer, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use deeplink_core::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, header};

pub use deeplink_core::event::{
    AttributeData, ClickData, ConversionData, Event, EventData, EventKind, IdentifyData, NotAnEvent,
};
pub use deeplink_core::signature::{NotASecret, WebhookSecret};

pub use deduplicator::{Claim, Deduplicator, Duplicate};
#[cfg(feature = "axum")]
pub use extract::{Refused, SignedEvent};

use crate::clock;

/// Maximum body that receivers of this crate read, in bytes. The service's own are far smaller.
pub const MAX_BODY: usize = 1 << 20;
/// Longest id of an event, in characters.
const MAX_ID: usize = 256;

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Why a request was rejected. It deliberately gives no details: the sender may be anyone.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no signature, or not the required one.
    Missing,
    /// The signature, its id or its timestamp is malformed.
    Malformed,
    /// No secret produces this signature for this body.
    Mismatch,
    /// The signature is valid, but its time is too far from now, in either direction.
    TooOld,
    /// The signature is valid, but the body is not an event.
    Parse(NotAnEvent),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the signature is missing",
            Self::Malformed => "the signature is malformed",
            Self::Mismatch => "the signature does not match",
            Self::TooOld => "the signature is too old",
            Self::Parse(why) => return why.fmt(f),
        })
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Of two signatures that both failed, the error of the one that passed more checks.
    fn or(self, other: Self) -> Self {
        let how_far = |error: &Self| match error {
            Self::Missing => 0,
            Self::Malformed => 1,
            Self::Mismatch => 2,
            Self::TooOld => 3,
            Self::Parse(_) => 4,
        };
        if how_far(&other) > how_far(&self) { other } else { self }
    }
}

/// What a valid signature covers besides the body. Both are present if `webhook-signature` is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified<'a> {
    /// The event's id, the same in every attempt: what to deduplicate by.
    pub id: Option<&'a str>,
    /// When the attempt was signed.
    pub timestamp: Option<Timestamp>,
}

/// Verifies that requests come from the service. Cheap to clone.
#[derive(Clone)]
pub struct Verifier {
    signers: Arc<[Signer]>,
    tolerance: Option<Duration>,
    clock: Clock,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("tolerance", &self.tolerance).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Accepts signatures of any of these secrets: after a rotation, the new and the previous one. An empty list or a
    /// malformed secret is an error.
    ///
    /// One valid signature of the two is enough, whatever its time; see [`Verifier::require_timestamp`].
    pub fn new(secrets: impl IntoIterator<Item = WebhookSecret>) -> Result<Self, NotASecret> {
        let signers: Vec<_> = secrets.into_iter().map(|secret| Signer::new(&secret)).collect::<Result<_, _>>()?;
        if signers.is_empty() {
            return Err(NotASecret);
        }
        Ok(Self { signers: signers.into(), tolerance: None, clock: Arc::new(clock::now) })
    }

    /// Requires `webhook-signature`, with a time at most this far from now, in either direction. Five minutes allow for
    /// clocks that differ. Without this, anyone who has seen a request can replay it at any time.
    #[must_use]
    pub fn require_timestamp(mut self, tolerance: Duration) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Uses this clock instead of the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Whether the service signed exactly these bytes. Signatures are compared in constant time.
    pub fn verify<'a>(&self, headers: &'a HeaderMap, body: &[u8]) -> Result<Verified<'a>, Error> {
        let standard = self.standard(headers, body);
        let Some(tolerance) = self.tolerance else {
            return standard.or_else(|why| match self.service(headers, body) {
                Ok(()) => Ok(Verified { id: None, timestamp: None }),
                Err(other) => Err(other.or(why)),
            });
        };
        let verified = standard?;
        let signed_at = verified.timestamp.map_or(i64::MIN, Timestamp::as_millis);
        let away = (self.clock)().as_millis().abs_diff(signed_at);
        if u128::from(away) > tolerance.as_millis() { Err(Error::TooOld) } else { Ok(verified) }
    }

    /// Like [`Verifier::verify`], but stricter: an invalid `webhook-signature` is rejected, even next to a valid
    /// `X-Service-Signature`. The service makes both with the same secret, so the id or the time was changed. (The
    /// opposite case is a rotation seen by a receiver that has only the old secret.)
    pub fn verify_both<'a>(&self, headers: &'a HeaderMap, body: &[u8]) -> Result<Verified<'a>, Error> {
        let verified = self.verify(headers, body)?;
        match self.standard(headers, body) {
            Err(why @ (Error::Malformed | Error::Mismatch)) => Err(why),
            _ => Ok(verified),
        }
    }

    /// The event that the service signed; see [`Verifier::verify`]. Nothing is parsed before its signature is verified.
    pub fn parse(&self, headers: &HeaderMap, body: &[u8]) -> Result<Event, Error> {
        self.verify(headers, body)?;
        Event::parse(body).map_err(Error::Parse)
    }

    /// The headers that the service sends with a body: for receivers' own tests, and for tools. The first secret makes
    /// `X-Service-Signature`, and all of them are in `webhook-signature`, as after a rotation.
    ///
    /// An id that a header cannot hold, or that contains a dot, is [`Error::Malformed`].
    pub fn sign(&self, body: &[u8], id: &str, timestamp: Timestamp) -> Result<HeaderMap, Error> {
        if !is_id(id) {
            return Err(Error::Malformed);
        }
        let seconds = timestamp.as_millis().div_euclid(1_000);
        let standard: Vec<_> = self.signers.iter().map(|signer| signer.standard(id, seconds, body)).collect();
        let service = self.signers.first().map(|signer| signer.service(body)).unwrap_or_default();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in [
            (SERVICE_SIGNATURE, service),
            (WEBHOOK_ID, id.to_owned()),
            (WEBHOOK_TIMESTAMP, seconds.to_string()),
            (WEBHOOK_SIGNATURE, standard.join(" ")),
        ] {
            let value = HeaderValue::try_from(value).map_err(|_| Error::Malformed)?;
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }

    /// `X-Service-Signature`.
    fn service(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), Error> {
        let signature = only(headers, SERVICE_SIGNATURE)?;
        if signature.len() != 64 || !signature.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(Error::Malformed);
        }
        let is_good = self.signers.iter().any(|signer| signer.is_service(signature, body));
        is_good.then_some(()).ok_or(Error::Mismatch)
    }

    /// `webhook-signature`, with the id and the time that it covers.
    fn standard<'a>(&self, headers: &'a HeaderMap, body: &[u8]) -> Result<Verified<'a>, Error> {
        let id = only(headers, WEBHOOK_ID)?;
        let timestamp = only(headers, WEBHOOK_TIMESTAMP)?;
        let signatures = only(headers, WEBHOOK_SIGNATURE)?;
        let is_number = !timestamp.is_empty() && timestamp.bytes().all(|b| b.is_ascii_digit());
        let seconds: i64 = timestamp.parse().ok().filter(|_| is_number).ok_or(Error::Malformed)?;
        // 32 bytes in base64.
        let has_form = |one: &str| one.strip_prefix("v1,").is_some_and(|one| one.len() == 44);
        if !is_id(id) || !signatures.split(' ').any(has_form) {
            return Err(Error::Malformed);
        }
        if !self.signers.iter().any(|signer| signer.is_standard(signatures, id, timestamp, body)) {
            return Err(Error::Mismatch);
        }
        Ok(Verified { id: Some(id), timestamp: Some(Timestamp::from_millis(seconds.saturating_mul(1_000))) })
    }
}

/// Whether an id can come before a dot in the signed text. If it contained a dot, part of the body could be taken for
/// the time.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(|b| b.is_ascii_graphic() && b != b'.')
}

/// The text of a header that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, Error> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(Error::Missing)?;
    if values.next().is_some() {
        return Err(Error::Malformed);
    }
    value.to_str().map_err(|_| Error::Malformed)
}
