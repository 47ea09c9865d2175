//! Errors: one opaque type with accessors.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::bulk::RowError;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::x402::{Challenge, Receipt};
use http::{HeaderMap, StatusCode};

use crate::auth::AuthKind;
use crate::payer::{self, SentPayment};
use crate::transport::{Failure, TransportError};

/// Maximum bytes of a body that an error shows.
pub(crate) const SHOWN_BODY: usize = 512;

/// Why a call failed. The size of one pointer.
pub struct Error(Box<Inner>);

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

struct Inner {
    kind: Kind,
    message: String,
    status: Option<StatusCode>,
    record: Option<ErrorBody>,
    field: Option<String>,
    code: Option<ErrorCode>,
    rows: Vec<RowError>,
    request_id: Option<String>,
    retry_after: Option<Duration>,
    attempts: u32,
    retryable: bool,
    ambiguous: bool,
    body: Option<Bytes>,
    challenge: Option<String>,
    asked: Option<Challenge>,
    receipt: Option<Receipt>,
    sent_payment: Option<SentPayment>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The input breaks a rule; nothing was sent.
    Validation,
    /// The operation does not accept the client's credential; nothing was sent.
    WrongCredential {
        /// What the operation accepts.
        needs: AuthKind,
        /// What the client has.
        have: AuthKind,
    },
    /// The client's settings are invalid.
    Builder,
    /// 401: no credential, or an invalid one.
    Auth,
    /// 403: the credential does not allow this operation.
    Forbidden,
    /// 404: it does not exist, or belongs to another account.
    NotFound,
    /// 409: it conflicts with existing data.
    Conflict,
    /// 400, 413, 415: the service rejected the input.
    BadRequest,
    /// 402: the plan limit has been reached, or payment is required.
    PaymentRequired,
    /// 429: too many requests.
    RateLimited,
    /// 503: the service is temporarily unavailable.
    Unavailable,
    /// Another 5xx.
    Server,
    /// Any other status.
    Api,
    /// No connection; nothing was sent.
    Connect,
    /// The time limit was exceeded.
    Timeout,
    /// The connection broke.
    Transport,
    /// The response could not be decoded.
    Decode,
}

/// The details of a 402 besides its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PaymentRequired<'a> {
    /// The limit that was reached, such as `links`.
    pub resource: Option<&'a str>,
    /// The limit of the plan.
    pub limit: Option<i64>,
    /// Current usage.
    pub current: Option<i64>,
    /// The payment challenge of the header, as sent; one in the body is in [`Error::body`].
    pub challenge: Option<&'a str>,
    /// The payment that the service requires, from the header or the body.
    pub asked: Option<&'a Challenge>,
}

impl Error {
    fn bare(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            status: None,
            record: None,
            field: None,
            code: None,
            rows: Vec::new(),
            request_id: None,
            retry_after: None,
            attempts: 0,
            retryable: false,
            ambiguous: false,
            body: None,
            challenge: None,
            asked: None,
            receipt: None,
            sent_payment: None,
            source: None,
        }))
    }

    pub(crate) fn builder(message: impl Into<String>) -> Self {
        Self::bare(Kind::Builder, message)
    }

    pub(crate) fn validation(field: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::bare(Kind::Validation, message);
        error.0.field = Some(field.to_owned());
        error
    }

    pub(crate) fn invalid(invalid: Invalid) -> Self {
        let mut error = Self::bare(Kind::Validation, invalid.message);
        error.0.field = invalid.field.map(std::borrow::Cow::into_owned);
        error.0.code = Some(invalid.code);
        error
    }

    pub(crate) fn invalid_rows(rows: Vec<RowError>) -> Self {
        let what = match rows.len() {
            1 => "1 row of the batch is invalid".to_owned(),
            count => format!("{count} rows of the batch are invalid"),
        };
        let mut error = Self::bare(Kind::Validation, what);
        error.0.code = Some(ErrorCode::InvalidBatch);
        error.0.rows = rows;
        error
    }

    pub(crate) fn wrong_credential(needs: AuthKind, have: AuthKind) -> Self {
        Self::bare(
            Kind::WrongCredential { needs, have },
            format!("this operation requires {needs}, but the client has {have}"),
        )
    }

    pub(crate) fn from_source(
        kind: Kind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let mut error = Self::bare(kind, message);
        error.0.source = Some(source.into());
        error
    }

    pub(crate) fn transport(failure: TransportError) -> Self {
        let kind = match failure.failure() {
            Failure::Connect => Kind::Connect,
            Failure::Timeout => Kind::Timeout,
            Failure::Broken => Kind::Transport,
        };
        Self::from_source(kind, failure.to_string(), failure.into_source())
    }

    /// An unsuccessful response.
    pub(crate) fn reply(status: StatusCode, headers: &HeaderMap, body: Bytes, retry_after: Option<Duration>) -> Self {
        let kind = match status.as_u16() {
            401 => Kind::Auth,
            403 => Kind::Forbidden,
            404 => Kind::NotFound,
            409 => Kind::Conflict,
            400 | 413 | 415 => Kind::BadRequest,
            402 => Kind::PaymentRequired,
            429 => Kind::RateLimited,
            503 => Kind::Unavailable,
            500..=599 => Kind::Server,
            _ => Kind::Api,
        };
        let record = serde_json::from_slice::<ErrorBody>(&body).ok();
        let message = record.as_ref().map_or_else(
            || format!("the service returned {}", status.canonical_reason().unwrap_or("an error")),
            |record| record.error.clone(),
        );
        let mut error = Self::bare(kind, message);
        let inner = &mut *error.0;
        inner.status = Some(status);
        inner.retry_after = retry_after;
        inner.challenge = header(headers, "payment-required").or_else(|| header(headers, "www-authenticate"));
        inner.request_id = header(headers, "x-request-id");
        if kind == Kind::PaymentRequired {
            let body = record.as_ref().map_or(&[][..], |record| &record.accepts);
            inner.asked = payer::challenge(headers, body);
        }
        inner.receipt = payer::receipt(headers);
        if let Some(record) = record {
            inner.code = Some(record.code.clone());
            inner.field.clone_from(&record.field);
            inner.rows.clone_from(&record.errors);
            inner.rows.sort_by_key(|row| row.index);
            inner.request_id = record.request_id.clone().or(inner.request_id.take());
            inner.record = Some(record);
            inner.body = Some(body);
        } else {
            // A proxy's page: its beginning identifies it.
            inner.body = Some(Bytes::copy_from_slice(&body[..body.len().min(SHOWN_BODY)]));
        }
        error
    }

    pub(crate) fn with_status(mut self, status: StatusCode, request_id: Option<String>) -> Self {
        self.0.status = Some(status);
        self.0.request_id = request_id;
        self
    }

    pub(crate) fn say(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    pub(crate) fn with_payment(mut self, payment: Option<&SentPayment>) -> Self {
        self.0.sent_payment = payment.cloned();
        self
    }

    pub(crate) fn with_receipt(mut self, headers: &HeaderMap) -> Self {
        self.0.receipt = payer::receipt(headers);
        self
    }

    /// Adds the payment that the service asked for.
    pub(crate) fn with_asked(mut self, challenge: &Challenge) -> Self {
        self.0.asked = Some(challenge.clone());
        self
    }

    pub(crate) fn with_body(mut self, body: &[u8]) -> Self {
        self.0.body = Some(Bytes::copy_from_slice(&body[..body.len().min(SHOWN_BODY)]));
        self
    }

    pub(crate) fn with_request_id(mut self, id: &str) -> Self {
        self.0.request_id.get_or_insert_with(|| id.to_owned());
        self
    }

    pub(crate) fn after(mut self, attempts: u32, retryable: bool, ambiguous: bool) -> Self {
        self.0.attempts = attempts;
        self.0.retryable = retryable;
        self.0.ambiguous = ambiguous;
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The HTTP status, if there was a response.
    pub fn status(&self) -> Option<StatusCode> {
        self.0.status
    }

    /// The service's error code, or the one it would have returned.
    pub fn code(&self) -> Option<&ErrorCode> {
        self.0.code.as_ref()
    }

    /// What happened, as a message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The invalid field, if there is one.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// The request's id, to find it in the service's logs.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// How long the service asks clients to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Number of attempts to send the request.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// Whether a write may have taken effect even though the call failed.
    pub fn is_ambiguous(&self) -> bool {
        self.0.ambiguous
    }

    /// With `invalid_batch`: every row that failed, by index.
    pub fn batch_errors(&self) -> &[RowError] {
        &self.0.rows
    }

    /// The outcome of the payment that the request carried, if the service reports it. A request that failed may have
    /// been paid for: [`Error::sent_payment`] then pays for a repeat.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.0.receipt.as_ref()
    }

    /// The payment that the request carried, if any. Make the same call with [`Call::pay_with`](crate::Call::pay_with):
    /// a call without it would be paid for again.
    ///
    /// Sign another payment only after the code `payment_required`. With a [`receipt`](Error::receipt) whose `success` is
    /// false, the service tried to settle this one and will not try again; without a receipt, it has not tried, and may
    /// still accept the same one. After any other failure, the payment may or may not have been charged. With a receipt
    /// whose `success` is true, it was charged, whatever the code, and pays for a repeat of the call.
    pub fn sent_payment(&self) -> Option<&SentPayment> {
        self.0.sent_payment.as_ref()
    }

    /// The body of the response: complete if it was the service's error object, else its first 512 bytes.
    pub fn body(&self) -> Option<&[u8]> {
        self.0.body.as_deref()
    }

    /// With [`Kind::PaymentRequired`]: the limit that was reached, or the payment that the service requires. Only a
    /// client with a [`payer`](crate::ClientBuilder::payer) pays.
    pub fn payment(&self) -> Option<PaymentRequired<'_>> {
        let record = self.0.record.as_ref();
        (self.0.kind == Kind::PaymentRequired).then(|| PaymentRequired {
            resource: record.and_then(|record| record.resource.as_deref()),
            limit: record.and_then(|record| record.limit),
            current: record.and_then(|record| record.current),
            challenge: self.0.challenge.as_deref(),
            asked: self.0.asked.as_ref(),
        })
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut separator = " (";
        let mut part = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            f.write_str(std::mem::replace(&mut separator, ", "))?;
            f.write_fmt(text)
        };
        if let Some(code) = &self.0.code {
            part(f, format_args!("{code}"))?;
        }
        if let Some(status) = self.0.status {
            part(f, format_args!("HTTP {}", status.as_u16()))?;
        }
        if let Some(id) = &self.0.request_id {
            part(f, format_args!("request {id}"))?;
        }
        if separator == ", " { f.write_str(")") } else { Ok(()) }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        // A success that could not be decoded may contain a secret that is shown only once.
        let body = inner.body.as_deref().filter(|_| !inner.status.is_some_and(|status| status.is_success()));
        let body = body.map(|body| String::from_utf8_lossy(&body[..body.len().min(SHOWN_BODY)]).into_owned());
        f.debug_struct("Error")
            .field("kind", &inner.kind)
            .field("message", &inner.message)
            .field("status", &inner.status)
            .field("code", &inner.code)
            .field("field", &inner.field)
            .field("request_id", &inner.request_id)
            .field("retry_after", &inner.retry_after)
            .field("attempts", &inner.attempts)
            .field("ambiguous", &inner.ambiguous)
            .field("body", &body)
            .field("source", &inner.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
