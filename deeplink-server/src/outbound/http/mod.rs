//! Calls URLs that others chose, without letting them abuse the client: only the public internet is reached, whatever
//! names, redirects, proxies and answers say, and the time and size of answers are limited.
//!
//! The rules are the same for every call: http or https at ports 80, 443 and from 1024 on; every address of the host is
//! public, and one of the addresses that were checked is dialled; the certificate is verified for the name; no proxy,
//! no cookie, no redirect, no content encoding; a response head has 16 KiB at most. A [`Http::call`] makes a new
//! connection; a [`Http::post`] may use one that was kept.

mod pool;
mod post;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::url::{self as rules, Refused};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep_until, timeout_at};
use url::{Host, Position, Url};

pub(crate) use self::post::Post;
use super::dial::{Dialler, Stream};
use super::dns::{Dns, Unanswered};
use crate::config::{Config, Networks};

/// Largest response head, in bytes.
const HEAD: usize = 16 << 10;
/// Failures take a multiple of this, so that their time reveals little about the network.
const STEP: Duration = Duration::from_millis(100);

/// Why a call failed: for the operator's log, never for the one who requested the call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The URL itself may not be called.
    #[error("the URL {0}")]
    Url(Refused),
    /// The host's addresses could not be determined.
    #[error(transparent)]
    Dns(#[from] Unanswered),
    /// The host has no address.
    #[error("the host has no IP address")]
    NoAddress,
    /// An address of the host is not public.
    #[error("the host has the IP address {0}, which is not public")]
    NotPublic(IpAddr),
    /// The port may not be called.
    #[error("port {0} is not 80, 443 or at least 1024")]
    Port(u16),
    /// No connection could be made.
    #[error("connection failed: {0}")]
    Connect(std::io::Error),
    /// There was no connection in time.
    #[error("no connection within 3 seconds")]
    NotConnected,
    /// The other side has no valid certificate, or does not speak TLS.
    #[error("TLS connection failed: {0}")]
    Tls(std::io::Error),
    /// TLS does not work here.
    #[error("TLS cannot be used: {0}")]
    NoTls(String),
    /// The request cannot be written.
    #[error("the request cannot be written: {0}")]
    Request(http::Error),
    /// The answer is incomplete or invalid.
    #[error("invalid response: {0}")]
    Answer(hyper::Error),
    /// The answer's status is not an accepted one.
    #[error("the response status is {0}")]
    Status(StatusCode),
    /// The answer's body is encoded.
    #[error("the response has a content encoding")]
    Encoded,
    /// The answer's body is too large.
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    /// The time was over.
    #[error("no complete response within {0:?}")]
    Late(Duration),
}

impl CallError {
    /// Whether the other side may have read the request.
    pub(crate) fn was_sent(&self) -> bool {
        match self {
            Self::Url(_)
            | Self::Dns(_)
            | Self::NoAddress
            | Self::NotPublic(_)
            | Self::Port(_)
            | Self::Connect(_)
            | Self::NotConnected
            | Self::Tls(_)
            | Self::NoTls(_)
            | Self::Request(_) => false,
            Self::Answer(_) | Self::Status(_) | Self::Encoded | Self::TooLarge(_) | Self::Late(_) => true,
        }
    }

    /// For the log: text from the other side, such as the names in its certificate, is shortened and stripped of
    /// control characters.
    pub(crate) fn in_short(&self) -> String {
        self.to_string().chars().map(|char| if char.is_control() { ' ' } else { char }).take(300).collect()
    }
}

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// When the time began.
    pub(crate) began: Instant,
    /// How long everything may take from then on.
    pub(crate) total: Duration,
    /// Largest body of the answer, in bytes.
    pub(crate) largest: usize,
}

impl Terms {
    /// When the time is over.
    pub(crate) fn end(&self) -> Instant {
        self.began + self.total
    }

    /// Waits so that the time of a failure tells only the number of tenths of a second.
    pub(crate) async fn pad(&self) {
        let steps = self.began.elapsed().as_nanos().div_ceil(STEP.as_nanos());
        sleep_until(self.began + STEP * u32::try_from(steps).unwrap_or(u32::MAX)).await;
    }
}

/// A call to make.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a str,
    /// In addition to `Host`, `User-Agent` and `Accept-Encoding`, which the client sets.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Which statuses are not failures.
    pub(crate) accepts: fn(StatusCode) -> bool,
    pub(crate) terms: Terms,
}

/// The guarded client.
pub(crate) struct Http {
    dns: Dns,
    allow: Networks,
    dialler: Dialler,
    /// Connections that posts have used and may use again.
    pool: pool::Pool,
    /// How long the addresses of a kept connection's host count as current.
    address_check_ttl: Duration,
}

impl Http {
    /// With the operator's name server, authorities and networks.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            dns: Dns::new(config.dns_server),
            allow: config.outbound_allow.clone(),
            dialler: Dialler::new(config.outbound_ca.clone()),
            pool: pool::Pool::default(),
            address_check_ttl: post::ADDRESS_CHECK_TTL,
        }
    }

    /// For targets that the operator named: they may be at any address. The other rules apply.
    pub(crate) fn for_operator(config: &Config) -> Self {
        Self { allow: Networks::everything(), ..Self::new(config) }
    }

    /// Whether a URL names a host with an address that may not be called. A host that does not resolve has none yet.
    pub(crate) async fn leads_inside(&self, url: &str) -> bool {
        match rules::outbound(url, |address| self.allow.contains(address)) {
            Ok(url) => matches!(self.addresses(&url).await, Err(CallError::NotPublic(_))),
            Err(_) => true,
        }
    }

    /// Makes a call and returns the body of the answer. A failure takes a multiple of 100 ms.
    pub(crate) async fn call(&self, call: Call<'_>) -> Result<Bytes, CallError> {
        self.call_with_head(call).await.map(Response::into_body)
    }

    /// As [`Http::call`], with the head of the answer.
    pub(crate) async fn call_with_head(&self, call: Call<'_>) -> Result<Response<Bytes>, CallError> {
        let terms = call.terms;
        let answer = timeout_at(terms.end(), self.exchange(call)).await.unwrap_or(Err(CallError::Late(terms.total)));
        if answer.is_err() {
            terms.pad().await;
        }
        answer
    }

    async fn exchange(&self, call: Call<'_>) -> Result<Response<Bytes>, CallError> {
        let url = rules::outbound(call.url, |address| self.allow.contains(address)).map_err(CallError::Url)?;
        let addresses = self.addresses(&url).await?;
        let (stream, _) = self.dialler.connect(&url, &addresses).await?;
        let mut request = request(&url, &call.method, &call.headers, &call.body)?;
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        speak(stream, request, &call).await
    }

    /// The addresses to dial: all of the host's, if each of them is allowed.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, CallError> {
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            // RFC 6761, section 6.3: this name is never looked up.
            Some(Host::Domain(name)) if rules::is_localhost(name) => vec![Ipv4Addr::LOCALHOST.into()],
            Some(Host::Domain(name)) => self.dns.addresses(name).await?,
            None => Vec::new(),
        };
        if addresses.is_empty() {
            return Err(CallError::NoAddress);
        }
        let port = url.port_or_known_default().unwrap_or_default();
        addresses.iter().try_for_each(|address| self.judge(*address, port))?;
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    fn judge(&self, address: IpAddr, port: u16) -> Result<(), CallError> {
        if self.allow.contains(address) {
            Ok(())
        } else if !rules::is_public(address) {
            Err(CallError::NotPublic(address))
        } else if !rules::is_called(port) {
            Err(CallError::Port(port))
        } else {
            Ok(())
        }
    }
}

fn request(url: &Url, method: &Method, with: &HeaderMap, body: &Bytes) -> Result<Request<Full<Bytes>>, CallError> {
    let mut request = Request::builder()
        .method(method.clone())
        .uri(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::HOST, &url[Position::BeforeHost..Position::AfterPort])
        .body(Full::new(body.clone()))
        .map_err(CallError::Request)?;
    let headers = request.headers_mut();
    headers.extend(with.clone());
    headers
        .insert(header::USER_AGENT, HeaderValue::from_static(concat!("deeplink-server/", env!("CARGO_PKG_VERSION"))));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(request)
}

/// Sends one request and reads one answer. Dropping the future stops all of it.
async fn speak(
    stream: Box<dyn Stream>,
    request: Request<Full<Bytes>>,
    call: &Call<'_>,
) -> Result<Response<Bytes>, CallError> {
    let mut client = http1::Builder::new();
    client.max_buf_size(HEAD);
    let (mut sender, connection) = client.handshake(TokioIo::new(stream)).await.map_err(CallError::Answer)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(CallError::Answer)?;
        read(response, call).await
    };
    // The connection may end before the rest of the body is read; the answer tells how it ended.
    let driven = async {
        drop(connection.await);
        std::future::pending().await
    };
    tokio::select! {
        answer = answer => answer,
        never = driven => never,
    }
}

async fn read(response: Response<Incoming>, call: &Call<'_>) -> Result<Response<Bytes>, CallError> {
    if !(call.accepts)(response.status()) {
        return Err(CallError::Status(response.status()));
    }
    let encodings = response.headers().get_all(header::CONTENT_ENCODING);
    if encodings.iter().any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(CallError::Encoded);
    }
    let largest = call.terms.largest;
    let (head, mut body) = response.into_parts();
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > largest {
        return Err(CallError::TooLarge(largest));
    }
    let mut read = Vec::with_capacity(announced);
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(CallError::Answer)?.into_data() else { continue };
        if read.len() + piece.len() > largest {
            return Err(CallError::TooLarge(largest));
        }
        read.extend_from_slice(&piece);
    }
    Ok(Response::from_parts(head, read.into()))
}

#[cfg(test)]
pub(crate) mod tests;
