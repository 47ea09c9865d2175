//! Calls to an ACME server: over https only, through the guarded client; and the waits that it requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};
use http::uri::Scheme;
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use lettre::message::header::{Date, Header};
use tokio::time::Instant;

use crate::config::Config;
use crate::outbound::http::{Call, Http, Terms};

const TOTAL: Duration = Duration::from_secs(10);
/// Far more than a certificate chain needs.
const MAX_BYTES: usize = 1 << 20;

/// The wait that an ACME server requested in its last answer. It comes with problems, but the library does not pass it
/// on.
#[derive(Debug, Clone, Default)]
pub(super) struct RetryAfter(Arc<AtomicU64>);

impl RetryAfter {
    /// In whole seconds; zero if it requested none, or did not answer.
    pub(super) fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }
}

/// The wait of `Retry-After` in seconds (RFC 9110, section 10.2.3). A date counts from the answer's `Date`, so that our
/// clock does not matter; HTTP dates have the format of mail dates.
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
    http: Arc<Http>,
    asked: RetryAfter,
}

impl Transport {
    pub(super) fn new(config: &Config, asked: RetryAfter) -> Self {
        Self { http: Arc::new(Http::for_operator(config)), asked }
    }
}

impl HttpClient for Transport {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let Self { http, asked } = self.clone();
        asked.set(0);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // Most of these addresses come from the server.
            if parts.uri.scheme() != Some(&Scheme::HTTPS) {
                return Err(Error::Str("the ACME server returned a URL that is not https"));
            }
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let url = parts.uri.to_string();
            let terms = Terms { began: Instant::now(), total: TOTAL, largest: MAX_BYTES };
            let call = Call { method: parts.method, url: &url, headers: parts.headers, body, accepts: |_| true, terms };
            let answer = http.call_with_head(call).await.map_err(|failed| Error::Other(Box::new(failed)))?;
            asked.set(retry_after(answer.headers()));
            let (parts, body) = answer.into_parts();
            Ok(BytesResponse { parts, body: Box::new(body) })
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
