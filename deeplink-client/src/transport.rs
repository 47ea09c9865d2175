//! How a request reaches the service: one object-safe trait, and its HTTP implementation.
//!
//! A transport sends one request once. Retries, time limits, credentials and decoding are all above it, so that a
//! recording or testing transport sees exactly what would go over the wire.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use futures_core::Stream;

/// A boxed future, as the object-safe traits of this crate return them.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The bytes of a response as they arrive.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// Sends one request and returns the response, whatever its status. Redirects are not followed.
pub trait Transport: Send + Sync + 'static {
    /// Sends `request`. Dropping the future abandons the attempt and frees its connection.
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<BodyStream>, TransportError>>;
}

/// How far an attempt without a response got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// No connection: nothing was sent.
    Connect,
    /// Timed out after something may have been sent.
    Timeout,
    /// The connection broke after something may have been sent.
    Broken,
}

/// An attempt without a response.
#[derive(Debug)]
pub struct TransportError {
    failure: Failure,
    source: Box<dyn StdError + Send + Sync>,
}

impl TransportError {
    /// A failure and its cause.
    pub fn new(failure: Failure, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { failure, source: source.into() }
    }

    /// How far the attempt got.
    pub fn failure(&self) -> Failure {
        self.failure
    }

    pub(crate) fn into_source(self) -> Box<dyn StdError + Send + Sync> {
        self.source
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.failure {
            Failure::Connect => "could not connect",
            Failure::Timeout => "timed out",
            Failure::Broken => "the connection was lost",
        })
    }
}

impl StdError for TransportError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// The transport that speaks HTTP/1.1 and HTTP/2.
pub(crate) struct HttpTransport(pub(crate) reqwest::Client);

impl Transport for HttpTransport {
    fn send(&self, request: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<BodyStream>, TransportError>> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request).map_err(failed)?;
            let reply = self.0.execute(request).await.map_err(failed)?;
            let mut parts = http::Response::new(());
            *parts.status_mut() = reply.status();
            *parts.headers_mut() = reply.headers().clone();
            let body: BodyStream = Box::pin(futures_util::TryStreamExt::map_err(reply.bytes_stream(), failed));
            Ok(parts.map(|()| body))
        })
    }
}

fn failed(error: reqwest::Error) -> TransportError {
    let failure = if error.is_connect() || error.is_builder() {
        Failure::Connect
    } else if error.is_timeout() {
        Failure::Timeout
    } else {
        Failure::Broken
    };
    // The URL of a link or a signed address must not appear in an error text.
    TransportError::new(failure, error.without_url())
}
