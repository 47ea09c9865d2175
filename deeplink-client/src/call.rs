//! A call that is about to be made: configure it, then await it. Nothing is sent until then.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::error::Invalid;
use deeplink_core::routes::{Credential, Route};
use deeplink_core::x402::{PAYMENT_V1, PAYMENT_V2, Receipt};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connection::Connection;
use crate::decode;
use crate::error::{Error, Result};
use crate::path;
use crate::payer::{self, SentPayment};
use crate::retry::Retry;
use crate::send::{self, Reply};
use crate::transport::BoxFuture;

/// The request, without what each attempt adds.
#[derive(Clone)]
pub(crate) struct Draft {
    /// The route's template: the only form of the path that traces show.
    pub(crate) template: &'static str,
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) access: Access,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// The body makes the request idempotent.
    pub(crate) keyed_by_body: bool,
    /// It gets a random `Idempotency-Key` as a POST does, because a repeat would be refused.
    pub(crate) is_keyed: bool,
}

/// Where a request goes.
#[derive(Clone)]
pub(crate) enum Target {
    /// Path and query below the base URL.
    Path(String),
    /// A URL that the caller named; it gets no credential.
    Url(url::Url),
    /// A URL that is itself the credential.
    Secret(url::Url),
}

/// Which credential a request needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Public,
    SecretKey,
    PublishableKey,
    /// A publishable or a secret key.
    AnyKey,
    Session,
    /// The client's own.
    Any,
}

/// Options set by the caller.
#[derive(Clone, Default)]
pub(crate) struct Options {
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
    pub(crate) idempotency_key: Option<HeaderValue>,
    /// The payment sent before.
    pub(crate) payment: Option<SentPayment>,
    /// Ignore the shared pause: the caller paces its own requests.
    pub(crate) unpaused: bool,
}

/// A call of one operation, to be awaited.
#[must_use = "nothing is sent before a call is awaited"]
pub struct Call<T> {
    connection: Connection,
    draft: Result<Draft>,
    /// The rule of the service that the input breaks, if any.
    invalid: Option<Error>,
    options: Options,
    decode: fn(&Reply) -> Result<T>,
}

/// A response with status, headers and raw body.
#[derive(Clone)]
#[non_exhaustive]
pub struct Full<T> {
    /// The decoded value.
    pub value: T,
    /// The HTTP status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The request's id.
    pub request_id: Option<String>,
    /// The body as received.
    pub raw: Bytes,
}

impl<T> Full<T> {
    /// The outcome of the payment, if the request was paid for.
    pub fn receipt(&self) -> Option<Receipt> {
        payer::receipt(&self.headers)
    }

    /// Whether the service repeated its response to an earlier request with the same key.
    pub fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }
}

/// The body is not shown: it may hold a secret that is shown only once.
impl<T: fmt::Debug> fmt::Debug for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Full")
            .field("value", &self.value)
            .field("status", &self.status)
            .field("headers", &self.headers)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

impl<T> Call<T> {
    pub(crate) fn new(connection: &Connection, draft: Result<Draft>, decode: fn(&Reply) -> Result<T>) -> Self {
        Self { connection: connection.clone(), draft, invalid: None, options: Options::default(), decode }
    }

    /// Fails with this unless [`Call::unchecked`].
    pub(crate) fn checked(mut self, result: Result<()>) -> Self {
        self.invalid = result.err();
        self
    }

    /// The same for the result of the service's own checks.
    pub(crate) fn valid<V>(self, input: std::result::Result<V, Invalid>) -> Self {
        self.checked(input.map(drop).map_err(Error::invalid))
    }

    /// The same call, with its response decoded differently.
    pub(crate) fn read_as<U>(self, decode: fn(&Reply) -> Result<U>) -> Call<U> {
        let Self { connection, draft, invalid, options, .. } = self;
        Call { connection, draft, invalid, options, decode }
    }

    pub(crate) fn edit(mut self, edit: impl FnOnce(&mut Draft) -> Result<()>) -> Self {
        self.draft = self.draft.and_then(|mut draft| edit(&mut draft).map(|()| draft));
        self
    }

    /// Time limit for the call, including all attempts and waits.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.options.timeout = Some(limit);
        self
    }

    /// How failed attempts are retried.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.options.retry = Some(retry);
        self
    }

    /// Sends this `Idempotency-Key` instead of a random one.
    pub fn idempotency_key(mut self, key: impl AsRef<str>) -> Self {
        match idempotency_key(key.as_ref()) {
            Ok(key) => self.options.idempotency_key = Some(key),
            Err(error) => self.draft = self.draft.and(Err(error)),
        }
        self
    }

    /// Pays with the payment of an earlier attempt at the same call, with its key; see
    /// [`Error::sent_payment`](crate::Error::sent_payment). It is not charged twice. No other payment is signed,
    /// whatever the service requires, so the client needs no payer. A client with a credential cannot pay: the call
    /// fails with [`Kind::WrongCredential`](crate::Kind::WrongCredential), and nothing is sent.
    pub fn pay_with(mut self, payment: &SentPayment) -> Self {
        self.options.payment = Some(payment.clone());
        self
    }

    /// Adds a header. Credentials are rejected here; use [`crate::Client::with_auth`].
    pub fn header(self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.edit(|draft| insert_header(&mut draft.headers, name.as_ref(), value.as_ref()))
    }

    /// Skips the local validation that would otherwise happen before anything is sent.
    pub fn unchecked(mut self) -> Self {
        self.invalid = None;
        self
    }

    /// The call, returning the response with status, headers and raw body.
    pub fn full(self) -> FullCall<T> {
        FullCall(self)
    }

    /// What would be sent: the error that the call would fail with before sending, or method, path and body.
    pub fn preview(&self) -> Result<Preview<'_>, &Error> {
        if let Some(error) = &self.invalid {
            return Err(error);
        }
        let draft = self.draft.as_ref()?;
        let target = match &draft.target {
            Target::Path(path) => path.as_str(),
            Target::Url(url) | Target::Secret(url) => url.as_str(),
        };
        let hidden = matches!(draft.target, Target::Secret(_));
        Ok(Preview { method: &draft.method, target, body: draft.body.as_deref(), hidden })
    }

    /// The undecoded response.
    pub(crate) async fn reply(self) -> Result<Reply> {
        self.perform().await.map(|(reply, _)| reply)
    }

    async fn perform(self) -> Result<(Reply, fn(&Reply) -> Result<T>)> {
        if let Some(error) = self.invalid {
            return Err(error);
        }
        let reply = send::perform(&self.connection, &self.draft?, &self.options).await?;
        Ok((reply, self.decode))
    }
}

/// What a call would send. Target and body are as they would be sent, secrets included.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview<'a> {
    /// The method.
    pub method: &'a Method,
    /// Path and query below the base URL, or the URL that the caller named.
    pub target: &'a str,
    /// The body, if there is one.
    pub body: Option<&'a [u8]>,
    /// The target is itself a credential.
    hidden: bool,
}

/// The body is not shown: it may hold a token or a code. Neither is the URL of a source.
impl fmt::Debug for Preview<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body.map(<[u8]>::len);
        f.debug_struct("Preview")
            .field("method", self.method)
            .field("target", &if self.hidden { "[hidden]" } else { self.target })
            .field("body_len", &body)
            .finish()
    }
}

impl<T: 'static> IntoFuture for Call<T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'static, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (reply, decode) = self.perform().await?;
            reply.read(decode)
        })
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let draft = self.draft.as_ref().ok();
        f.debug_struct("Call")
            .field("method", &draft.map(|draft| &draft.method))
            .field("route", &draft.map(|draft| draft.template))
            .finish_non_exhaustive()
    }
}

/// A [`Call`] that returns the whole response.
#[must_use = "nothing is sent before a call is awaited"]
#[derive(Debug)]
pub struct FullCall<T>(Call<T>);

impl<T: 'static> IntoFuture for FullCall<T> {
    type Output = Result<Full<T>>;
    type IntoFuture = BoxFuture<'static, Result<Full<T>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (reply, decode) = self.0.perform().await?;
            let value = reply.read(decode)?;
            Ok(Full {
                value,
                status: reply.status,
                headers: reply.headers,
                request_id: reply.request_id,
                raw: reply.body,
            })
        })
    }
}

/// A call of a route with a JSON response. `params` fill the path's `{…}` in order.
pub(crate) fn json<T: DeserializeOwned>(connection: &Connection, route: &'static Route, params: &[&str]) -> Call<T> {
    Call::new(connection, draft(route, params), decode::json)
}

pub(crate) fn draft(route: &'static Route, params: &[&str]) -> Result<Draft> {
    Ok(Draft {
        template: route.path,
        method: Method::from_bytes(route.method.as_bytes()).map_err(|_| Error::builder("the route has no method"))?,
        target: Target::Path(path::fill(route.path, params)?),
        access: match route.credential {
            Credential::Public | Credential::Browser | Credential::Processor => Access::Public,
            Credential::Session => Access::Session,
            Credential::SdkKey => Access::AnyKey,
            Credential::PublishableKey => Access::PublishableKey,
            _ => Access::SecretKey,
        },
        headers: HeaderMap::new(),
        body: None,
        keyed_by_body: false,
        is_keyed: false,
    })
}

impl<T> Call<T> {
    /// Sets a JSON body.
    pub(crate) fn body(self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body)
            .map_err(|why| Error::from_source(crate::Kind::Validation, "the body cannot be written as JSON", why));
        self.edit(|draft| {
            draft.body = Some(body?.into());
            draft.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Ok(())
        })
    }

    /// Sets a form as its body.
    pub(crate) fn form(self, fields: &[(&str, &str)]) -> Self {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.edit(|draft| {
            draft.body = Some(body.into());
            let form = HeaderValue::from_static("application/x-www-form-urlencoded");
            draft.headers.insert(http::header::CONTENT_TYPE, form);
            Ok(())
        })
    }

    /// Adds what `query` serializes to.
    pub(crate) fn query(self, query: &impl Serialize) -> Self {
        let pairs = path::pairs(query);
        self.edit(|draft| {
            if let Target::Path(path) = &mut draft.target {
                path::append_query(path, &pairs?);
            }
            Ok(())
        })
    }
}

pub(crate) fn idempotency_key(key: &str) -> Result<HeaderValue> {
    let wrong = || Error::validation("Idempotency-Key", "an idempotency key must be 1 to 255 visible ASCII characters");
    if key.is_empty() || key.len() > 255 || !key.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
        return Err(wrong());
    }
    HeaderValue::from_str(key).map_err(|_| wrong())
}

pub(crate) fn insert_header(headers: &mut HeaderMap, name: &str, value: &str) -> Result<()> {
    let name = HeaderName::try_from(name).map_err(|_| Error::validation("header", "not a valid header name"))?;
    if matches!(name.as_str(), "authorization" | "cookie" | "proxy-authorization") {
        return Err(Error::validation("header", "credentials must be set on the client, not as a header"));
    }
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| Error::validation("header", "the value contains characters that a header cannot contain"))?;
    value.set_sensitive(name == PAYMENT_V1 || name == PAYMENT_V2 || name == "x-api-key");
    headers.insert(name, value);
    Ok(())
}
