//! One request to a receiver, as the service sends it: no redirect is followed, and the answer's body is not needed.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use deeplink_core::webhook::MAX_RESPONSE_BYTES;
use http::HeaderMap;
use url::Url;

use crate::builder::trust;
use crate::connection::is_confidential;
use crate::error::{Error, Kind, Result};

/// Where requests are posted to: https, or a server on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(Url);

/// The text is not a URL that a signed request may be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadTarget;

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a receiver URL: it must be https://, or http:// on this machine, without a user name or fragment",
        )
    }
}

impl StdError for BadTarget {}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let url = Url::parse(text).map_err(|_| BadTarget)?;
        let has_user = !url.username().is_empty() || url.password().is_some();
        let is_web = matches!(url.scheme(), "http" | "https") && url.host().is_some();
        if !is_web || has_user || url.fragment().is_some() || !is_confidential(&url) {
            return Err(BadTarget);
        }
        Ok(Self(url))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The response of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Time from the request to the response headers.
    pub took: Duration,
}

impl Answer {
    /// Whether the receiver accepted the event: any 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why there was no response.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The reason, as a message.
    pub text: String,
    /// Whether it timed out.
    pub is_timeout: bool,
    /// Time until the failure.
    pub took: Duration,
}

/// How long a receiver may take to send its body: as long as the service waits for it.
const SAID_LIMIT: Duration = Duration::from_secs(1);

/// Posts requests over kept-alive connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Post {
    client: reqwest::Client,
    limit: Duration,
}

impl Post {
    /// Waits at most `limit` for a response; trusts these certificates (PEM) in addition to the platform's.
    pub fn new(limit: Duration, roots: &[Vec<u8>]) -> Result<Self> {
        let builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            // A proxy plays no part in requests to this machine, and the service uses none.
            .no_proxy()
            .tcp_nodelay(true)
            .user_agent(concat!("deeplink-client/", env!("CARGO_PKG_VERSION")));
        let client = trust(builder, roots)?.build();
        let client = client.map_err(|why| Error::from_source(Kind::Builder, "the HTTP client cannot be built", why))?;
        Ok(Self { client, limit })
    }

    /// Posts a body with these headers.
    pub async fn send(&self, to: &Target, headers: &HeaderMap, body: &Bytes) -> Result<Answer, Fault> {
        self.send_after(Duration::ZERO, to, headers, body).await
    }

    /// The same, with the beginning of the response body: up to 1 KiB, as far as it arrives within one second and the
    /// limit.
    pub async fn ask(&self, to: &Target, headers: &HeaderMap, body: &Bytes) -> Result<(Answer, Vec<u8>), Fault> {
        let start = Instant::now();
        let mut reply = self.post(self.limit, to, headers, body).await?;
        let answer = Answer { status: reply.status().as_u16(), took: start.elapsed() };
        let mut said = Vec::new();
        let read = async {
            while said.len() < MAX_RESPONSE_BYTES {
                let Ok(Some(bytes)) = reply.chunk().await else { break };
                said.extend_from_slice(&bytes);
            }
        };
        // Only the status matters, and it has arrived.
        let _ = tokio::time::timeout(self.limit.saturating_sub(answer.took).min(SAID_LIMIT), read).await;
        said.truncate(MAX_RESPONSE_BYTES);
        Ok((answer, said))
    }

    /// The same when part of the limit is already spent.
    pub(super) async fn send_after(
        &self,
        over: Duration,
        to: &Target,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Answer, Fault> {
        let start = Instant::now();
        let reply = self.post(self.limit.saturating_sub(over), to, headers, body).await?;
        Ok(Answer { status: reply.status().as_u16(), took: start.elapsed() })
    }

    /// The head of the answer.
    async fn post(
        &self,
        limit: Duration,
        to: &Target,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<reqwest::Response, Fault> {
        let start = Instant::now();
        let request = self.client.post(to.0.clone()).headers(headers.clone()).body(body.clone()).send();
        let fault = |text: String, is_timeout| Fault { text, is_timeout, took: start.elapsed() };
        match tokio::time::timeout(limit, request).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(fault(why(&error), error.is_timeout())),
            Err(_) => Err(fault(format!("no response within {} s", self.limit.as_secs()), true)),
        }
    }
}

/// The innermost cause: what the operating system or TLS had to say.
fn why(error: &reqwest::Error) -> String {
    let mut cause: &dyn StdError = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    match text.split_once(" (os error ") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Only the status matters: the rest of a long or stalled answer is not awaited.
    #[tokio::test]
    async fn a_receiver_that_does_not_end_its_answer_has_answered() {
        for (said, kept) in [(vec![b'x'; 2_048], MAX_RESPONSE_BYTES), (b"half".to_vec(), 4)] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let to = format!("http://{}/", listener.local_addr().expect("an address"));
            let holds = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut asked = [0; 4_096];
                let _ = stream.read(&mut asked).await;
                let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n";
                stream.write_all(&[head.as_slice(), &said].concat()).await.expect("written");
                std::future::pending::<()>().await;
            });
            let post = Post::new(Duration::from_mins(2), &[]).expect("a client");
            let to: Target = to.parse().expect("a target");
            let start = Instant::now();
            let (answer, said) = post.ask(&to, &HeaderMap::new(), &Bytes::new()).await.expect("an answer");
            assert_eq!((answer.status, said.len()), (200, kept));
            assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
            holds.abort();
        }
    }
}
