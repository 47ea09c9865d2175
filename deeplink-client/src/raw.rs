//! Any request, for tools that use the API directly.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde::Serialize;

use crate::call::{Access, Call, Draft, Preview, Target};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::path;
use crate::payer::SentPayment;
use crate::retry::Retry;
use crate::transport::BoxFuture;

/// A request that the caller defines, to be awaited. It has the same retries, limits and key as every other call.
#[must_use = "nothing is sent before a call is awaited"]
#[derive(Debug)]
pub struct RawCall(Call<()>);

/// An undecoded response of any status.
#[derive(Clone)]
#[non_exhaustive]
pub struct RawReply {
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// How many times the request was sent.
    pub attempts: u32,
    request_id: Option<String>,
    payment: Option<SentPayment>,
}

impl RawReply {
    /// The payment that the request carried; see [`Error::sent_payment`].
    pub fn sent_payment(&self) -> Option<&SentPayment> {
        self.payment.as_ref()
    }

    /// The request's id.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// The error that a typed call would return for this response, if its status is not a success.
    pub fn to_error(&self) -> Option<Error> {
        let wait = crate::retry::retry_after(&self.headers);
        (!self.status.is_success()).then(|| {
            Error::reply(self.status, &self.headers, self.body.clone(), wait)
                .with_request_id(self.request_id.as_deref().unwrap_or_default())
                .after(self.attempts, false, false)
                .with_payment(self.payment.as_ref())
        })
    }
}

/// The body is not shown: it may hold a secret that is shown only once.
impl fmt::Debug for RawReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawReply")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("attempts", &self.attempts)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

impl RawCall {
    pub(crate) fn new(connection: &Connection, method: Method, path: &str) -> Self {
        let draft = check_path(path).map(|target| Draft {
            template: "(raw)",
            method,
            target,
            access: Access::Any,
            headers: HeaderMap::new(),
            body: None,
            keyed_by_body: false,
            is_keyed: false,
        });
        Self(Call::new(connection, draft, |_| Ok(())))
    }

    /// Adds a query parameter.
    pub fn query(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let pair = (name.into(), value.into());
        Self(self.0.edit(|draft| {
            if let Target::Path(path) = &mut draft.target {
                path::append_query(path, &[pair]);
            }
            Ok(())
        }))
    }

    /// Adds a header. Credentials are rejected: set them on the client.
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        Self(self.0.header(name, value))
    }

    /// Sets the body, with its content type.
    pub fn body(self, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self(self.0.header("content-type", content_type).edit(|draft| {
            draft.body = Some(body);
            Ok(())
        }))
    }

    /// Sets a JSON body.
    pub fn json(self, body: &impl Serialize) -> Self {
        Self(self.0.body(body))
    }

    /// Sends no credential.
    pub fn without_auth(self) -> Self {
        Self(self.0.edit(|draft| {
            draft.access = Access::Public;
            Ok(())
        }))
    }

    /// Time limit for the call, including all attempts and waits.
    pub fn timeout(self, limit: Duration) -> Self {
        Self(self.0.timeout(limit))
    }

    /// How failed attempts are retried.
    pub fn retry(self, retry: Retry) -> Self {
        Self(self.0.retry(retry))
    }

    /// Sends this `Idempotency-Key` instead of a random one.
    pub fn idempotency_key(self, key: impl AsRef<str>) -> Self {
        Self(self.0.idempotency_key(key))
    }

    /// Pays with the payment of an earlier attempt at the same request; see [`Call::pay_with`].
    pub fn pay_with(self, payment: &SentPayment) -> Self {
        Self(self.0.pay_with(payment))
    }

    /// What would be sent.
    pub fn preview(&self) -> Result<Preview<'_>, &Error> {
        self.0.preview()
    }
}

impl IntoFuture for RawCall {
    type Output = Result<RawReply>;
    type IntoFuture = BoxFuture<'static, Result<RawReply>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let reply = self.0.reply().await?;
            Ok(RawReply {
                status: reply.status,
                headers: reply.headers,
                body: reply.body,
                attempts: reply.attempts,
                request_id: reply.request_id,
                payment: reply.payment,
            })
        })
    }
}

fn check_path(path: &str) -> Result<Target> {
    let wrong = |message: &str| Err(Error::validation("path", message));
    if !path.starts_with('/') || path.starts_with("//") || path.contains('#') {
        return wrong("the path must start with a single '/' and have no fragment; the host is that of the client");
    }
    let (segments, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let dots = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if segments.split('/').any(dots) {
        return wrong("the path must not contain '.' or '..' segments");
    }
    let mut target = String::with_capacity(path.len());
    encode(&mut target, segments);
    if let Some(query) = query {
        target.push('?');
        encode(&mut target, query);
    }
    Ok(Target::Path(target))
}

/// Encodes what a request line cannot carry and keeps everything else, escapes included, as the caller wrote it.
fn encode(out: &mut String, text: &str) {
    use std::fmt::Write;
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}') {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            {
                let _ = write!(out, "%{byte:02X}");
            };
        }
    }
}

/// `application/json`, for callers that set a body by hand.
pub const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cannot_leave_the_base() {
        for path in ["", "v1", "//evil.example", "https://evil.example/", "/v1/../x", "/v1/%2E%2e/x", "/a/.", "/x#y"] {
            assert!(check_path(path).is_err(), "{path}");
        }
        for (path, sent) in [("/v1/links?a=b c", "/v1/links?a=b%20c"), ("/r/a%2Fb", "/r/a%2Fb"), ("/x/ä", "/x/%C3%A4")]
        {
            let Ok(Target::Path(target)) = check_path(path) else { panic!("{path}") };
            assert_eq!(target, sent);
        }
    }
}
