//! How an ACME server is called: over https only, with time and size limits, without redirects or proxies; and what it
//! asks to wait.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use lettre::message::header::{Date, Header};
use reqwest::{Certificate, Client, redirect};

use crate::config::{Config, TrustedRoots};

const CONNECT: Duration = Duration::from_secs(3);
const WHOLE: Duration = Duration::from_secs(10);
/// Far more than a chain of certificates.
const LARGEST: usize = 1 << 20;

/// How long an ACME server asked to wait in its last answer. Problems come with it, but the library does not hand it on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(Arc<AtomicU64>);

impl Asked {
    /// In whole seconds; zero when it did not ask, or did not answer.
    pub(crate) fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

/// What `Retry-After` asks, in seconds (RFC 9110, section 10.2.3). A date counts from the answer's own, so that no clock
/// here matters; dates of HTTP are written as those of mails.
fn retry_after(headers: &HeaderMap) -> u64 {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let date = |text: &str| Date::parse(text).ok().map(SystemTime::from);
    let Some(asked) = text(RETRY_AFTER) else { return 0 };
    if let Ok(seconds) = asked.parse() {
        return seconds;
    }
    let (Some(until), Some(sent)) = (date(asked), text(DATE).and_then(date)) else { return 0 };
    until.duration_since(sent).map_or(0, |wait| wait.as_secs())
}

/// Calls ACME servers.
#[derive(Clone)]
pub(super) struct Transport {
    client: Client,
    asked: Asked,
}

impl Transport {
    pub(super) fn new(config: &Config, asked: Asked) -> Result<Self, Error> {
        let trusted = config.outbound_ca.iter().flat_map(TrustedRoots::certificates);
        let trusted = trusted.map(|der| Certificate::from_der(der)).collect::<Result<Vec<_>, _>>().map_err(other)?;
        let client = Client::builder()
            .user_agent(concat!("deeplink-server/", env!("CARGO_PKG_VERSION")))
            .https_only(true)
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .timeout(WHOLE)
            .tls_certs_merge(trusted);
        Ok(Self { client: client.build().map_err(other)?, asked })
    }
}

fn other(error: impl StdError + Send + Sync + 'static) -> Error {
    Error::Other(Box::new(error))
}

#[derive(Debug, thiserror::Error)]
#[error("the answer is larger than {LARGEST} bytes")]
struct TooLarge;

impl HttpClient for Transport {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let Self { client, asked } = self.clone();
        asked.note(0);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let call = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
            let mut answer = call.send().await.map_err(other)?;
            asked.note(retry_after(answer.headers()));
            let mut response = http::Response::new(());
            *response.status_mut() = answer.status();
            *response.headers_mut() = std::mem::take(answer.headers_mut());
            let mut body = BytesMut::new();
            while let Some(piece) = answer.chunk().await.map_err(other)? {
                if body.len() + piece.len() > LARGEST {
                    return Err(other(TooLarge));
                }
                body.extend_from_slice(&piece);
            }
            Ok(BytesResponse { parts: response.into_parts().0, body: Box::new(body.freeze()) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_with_a_date() {
        let sent = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        for (value, date, seconds) in [
            ("3600", None, 3_600),
            (" 7 ", sent, 7),
            ("Sun, 06 Nov 1994 09:49:37 GMT", sent, 3_600),
            ("Sun, 06 Nov 1994 08:00:00 GMT", sent, 0),
            ("Sun, 06 Nov 1994 09:49:37 GMT", None, 0),
            ("soon", sent, 0),
            ("-5", sent, 0),
            ("", sent, 0),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().expect("a value"));
            if let Some(date) = date {
                headers.insert(DATE, date.parse().expect("a value"));
            }
            assert_eq!(retry_after(&headers), seconds, "{value:?} at {date:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), 0);
    }
}
