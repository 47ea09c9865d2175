//! A raw request, and its answer.

use bytes::Bytes;
use deeplink_client::transport::{BodyStream, BoxFuture, Failure, Transport, TransportError};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

use super::check;
use super::leaks::Secrets;

/// Less than the 75 s after which the service closes an idle connection: it cannot answer a request sent at that moment.
pub const POOL_IDLE: Duration = Duration::from_mins(1);

/// Sends over HTTP, and checks every answer that comes back.
#[derive(Clone)]
pub(crate) struct Watched {
    http: reqwest::Client,
    secrets: Arc<Secrets>,
}

impl Watched {
    pub(crate) fn new(secrets: Arc<Secrets>) -> Self {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .pool_idle_timeout(POOL_IDLE)
            .tls_certs_only([])
            .build()
            .expect("an HTTP client");
        Self { http, secrets }
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<http::Response<Bytes>, reqwest::Error> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        // Where a proxy may have named another host, the route is not known from here.
        let host = request
            .headers()
            .get("x-forwarded-host")
            .or(request.headers().get(header::HOST))
            .map(|host| host.to_str().unwrap_or_default().to_owned());
        self.note_sent(request.headers());
        let request = reqwest::Request::try_from(request)?;
        let mut reply = self.http.execute(request).await?;
        let (status, headers) = (reply.status(), reply.headers().clone());
        // A stream does not end, so only its first bytes are read.
        let body = match headers.get(header::CONTENT_TYPE) {
            Some(kind) if kind == "text/event-stream" => reply.chunk().await?.unwrap_or_default(),
            _ => reply.bytes().await?,
        };
        self.check(&method, &uri, host.as_deref(), status, &headers, &body);
        let mut response = http::Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    fn note_sent(&self, headers: &HeaderMap) {
        let payments = ["x-payment", "payment-signature"].map(HeaderName::from_static);
        for name in [header::AUTHORIZATION].into_iter().chain(payments) {
            for value in headers.get_all(&name).iter().filter_map(|value| value.to_str().ok()) {
                value.split([' ', '=', ';']).for_each(|part| self.secrets.note(part));
            }
        }
        // Only the value of a cookie is secret, not its name.
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        for (_, value) in cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('=')) {
            self.secrets.note(value);
        }
    }

    fn check(
        &self,
        method: &Method,
        uri: &Uri,
        host: Option<&str>,
        status: StatusCode,
        headers: &HeaderMap,
        body: &Bytes,
    ) {
        check::check(method, uri, host, status, headers, body);
        for cookie in headers.get_all(header::SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
            let pair = cookie.split(';').next().unwrap_or_default();
            pair.split_once('=').into_iter().for_each(|(_, value)| self.secrets.note(value));
        }
        // The page behind a mailed link repeats the token of its request in its form.
        let shows_its_own = *method == Method::GET
            && status == StatusCode::OK
            && matches!(uri.path(), "/v1/auth/callback" | "/v1/auth/verify" | "/account/confirm");
        // So does the page of a one-time link, also when it refuses an address.
        let shows_its_own = shows_its_own || uri.path() == "/signin/once" && !status.is_redirection();
        // The URL of a source is shown to those who may have it, any number of times.
        if uri.path().starts_with("/v1/sources") || uri.path().starts_with("/account/sources") {
            source_tokens(&String::from_utf8_lossy(body)).for_each(|token| self.secrets.note(&token));
            return;
        }
        let made = serde_json::from_slice::<Value>(body).ok().filter(|_| issues(method, uri.path()));
        let secret =
            |made: &Value| ["api_key", "key", "secret"].iter().find_map(|name| Some(made[name].as_str()?.to_owned()));
        match made.as_ref().and_then(secret).filter(|_| status.is_success()) {
            Some(secret) => self.secrets.note(&secret),
            // X19: a secret appears only in the answer that issues it.
            None if shows_its_own => {}
            None => assert_eq!(self.secrets.found_in(body), None, "{method} {uri} shows a secret"),
        }
    }
}

/// Whether an operation issues a secret.
fn issues(method: &Method, path: &str) -> bool {
    const OPERATIONS: [&str; 7] = [
        "/v1/auth/signup",
        "/v1/auth/secret-keys/issue",
        "/v1/auth/secret-keys/confirm",
        "/v1/auth/publishable-keys",
        "/credentials",
        "/v1/webhooks",
        "/rotate-secret",
    ];
    *method == Method::POST && OPERATIONS.iter().any(|operation| path.ends_with(operation))
}

/// The tokens of the URLs in a text.
fn source_tokens(text: &str) -> impl Iterator<Item = String> {
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
    text.split("/in/").skip(1).map(digits).filter(|token| token.len() == 64)
}

impl Transport for Watched {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<http::Response<BodyStream>, TransportError>> {
        Box::pin(async move {
            let response = self.exchange(request).await.map_err(|error| TransportError::new(Failure::Broken, error))?;
            let (parts, body) = response.into_parts();
            let body: BodyStream = stream::once(async move { Ok(body) }).boxed();
            Ok(http::Response::from_parts(parts, body))
        })
    }
}

/// A request that is about to be sent.
#[must_use = "nothing is sent before .send()"]
#[derive(Clone)]
pub struct Ask {
    watched: Watched,
    request: Request<Bytes>,
}

impl Ask {
    pub(crate) fn new(watched: &Watched, method: Method, url: &str) -> Self {
        let uri: Uri = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        Self { watched: watched.clone(), request }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name: HeaderName = name.parse().expect("a header name");
        self.request.headers_mut().append(name, HeaderValue::from_bytes(value.as_ref()).expect("a header value"));
        self
    }

    /// Sets the credential.
    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", format!("Bearer {key}"))
    }

    /// Sets the session.
    pub fn session(self, token: &str) -> Self {
        self.header("cookie", format!("session_token={token}"))
    }

    /// Sends these bytes as JSON, valid or not.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        self.body_as("application/json", body)
    }

    /// Sends these bytes as this media type.
    pub fn body_as(mut self, media_type: &str, body: impl Into<Bytes>) -> Self {
        let value = HeaderValue::from_str(media_type).expect("a media type");
        self.request.headers_mut().insert(header::CONTENT_TYPE, value);
        *self.request.body_mut() = body.into();
        self
    }

    /// Sends a JSON value.
    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }

    /// Sends the fields of a form.
    pub fn form(self, fields: &[(&str, &str)]) -> Self {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.body_as("application/x-www-form-urlencoded", body)
    }

    /// Sends it; the answer has passed the checks of `check`.
    pub async fn send(self) -> Reply {
        let what = format!("{} {}", self.request.method(), self.request.uri());
        let response = self.watched.exchange(self.request).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let (parts, body) = response.into_parts();
        Reply { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

impl Reply {
    /// The body as JSON; `Null` when it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header; empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("an ASCII header"))
    }

    /// The token of the session that the answer starts, if it starts one.
    pub fn session(&self) -> Option<String> {
        let mut cookies = self.headers.get_all(header::SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        let token = cookies.find_map(|cookie| cookie.strip_prefix("session_token="))?;
        token.split(';').next().filter(|token| !token.is_empty()).map(str::to_owned)
    }

    /// A member of the body that is a string.
    pub fn member(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_else(|| panic!("no {name} in {}", self.text())).to_owned()
    }

    /// What happened in one line: `201`, `404 not_found`, `400 invalid_url web_url`.
    pub fn outcome(&self) -> String {
        let json = self.json();
        let words = [&json["code"], &json["field"]].map(|word| word.as_str().unwrap_or_default().to_owned());
        format!("{} {} {}", self.status, words[0], words[1]).trim_end().to_owned()
    }

    /// The answer as [`Self::without_request_id`] has it, without the IDs asked for, which an error message repeats.
    pub fn without_ids<'i>(&self, ids: impl IntoIterator<Item = &'i str>) -> String {
        let text = self.without_request_id();
        let length = format!("\"content-length: {}\"", self.header("content-length"));
        ids.into_iter().fold(text.replace(&length, "\"content-length\""), |text, id| text.replace(id, "ID"))
    }

    /// The answer without the parts that differ from request to request.
    pub fn without_request_id(&self) -> String {
        let mut json = self.json();
        if let Some(record) = json.as_object_mut() {
            record.remove("request_id");
        }
        let mut headers: Vec<_> = self
            .headers
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "x-request-id" | "date"))
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        headers.sort();
        format!("{} {headers:?} {json}", self.status)
    }
}
