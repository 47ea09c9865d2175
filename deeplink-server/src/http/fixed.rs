//! Documents that stay the same while the process runs. Each is hashed and compressed once, when it is first asked for; all
//! answers share those bytes, so that a client that does not read its answer holds no copy.

use std::io::Write;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderName, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use super::etag::{matches, tag_of};
use super::listen::Free;

/// A document, ready to be sent.
pub(crate) struct Fixed {
    plain: Bytes,
    /// `None` if it would not be smaller, such as for a picture.
    gzip: Option<Bytes>,
    media_type: HeaderValue,
    /// The strong tag that [`matches`] compares with. It is sent as a weak one, because both forms have it.
    tag: String,
    /// The headers of every answer, also of a 304.
    headers: HeaderMap,
}

impl Fixed {
    pub(crate) fn new(document: impl Into<Bytes>, media_type: HeaderValue) -> Self {
        let plain: Bytes = document.into();
        let tag = tag_of(Sha256::new_with_prefix(&plain));
        let mut headers = HeaderMap::new();
        headers.insert(VARY, HeaderValue::from_name(ACCEPT_ENCODING));
        if let Ok(tag) = HeaderValue::try_from(format!("W/{tag}")) {
            headers.insert(ETAG, tag);
        }
        Self { gzip: compressed(&plain), plain, media_type, tag, headers }
    }

    /// Adds a header to every answer.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The document, or 304 to a client that has it.
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response {
        let mut response = if matches(asked, &self.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let gzip = self.gzip.as_ref().filter(|_| accepts_gzip(asked));
            let mut response = Response::new(Body::from(gzip.unwrap_or(&self.plain).clone()));
            response.extensions_mut().insert(Free);
            response.headers_mut().insert(CONTENT_TYPE, self.media_type.clone());
            if gzip.is_some() {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            response
        };
        response.headers_mut().extend(self.headers.clone());
        response
    }
}

fn compressed(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).ok()?;
    let gzip = encoder.finish().ok()?;
    (gzip.len() < plain.len()).then(|| gzip.into())
}

/// Whether `Accept-Encoding` allows gzip (RFC 9110, section 12.5.3). `*` stands for every coding that is not named.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let (mut named, mut others) = (None, None);
    for line in headers.get_all(ACCEPT_ENCODING) {
        for item in line.to_str().unwrap_or_default().split(',') {
            let (coding, weight) = item.split_once(';').unwrap_or((item, "q=1"));
            let allowed = weight.trim().trim_start_matches("q=").parse().is_ok_and(|weight: f32| weight > 0.0);
            match coding.trim() {
                coding if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") => {
                    named = Some(allowed);
                }
                "*" => others = Some(allowed),
                _ => {}
            }
        }
    }
    named.or(others).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn gzip_is_sent_to_whoever_accepts_it() {
        for (accepted, expected) in [
            ("gzip", true),
            ("GZIP", true),
            ("br, gzip;q=0.5", true),
            ("*", true),
            ("br;q=1.0, *;q=0.1", true),
            ("gzip;q=0, *", false),
            ("gzip; q=0.000", false),
            ("*;q=0", false),
            ("br", false),
            ("identity", false),
            ("gzip;q=x", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(accepts_gzip(&headers), expected, "{accepted}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    /// R1: what cannot be compressed is sent as it is, and two answers are the same bytes in memory, compressed or not.
    #[test]
    fn r1_answers_share_one_copy() {
        let document = Fixed::new("x".repeat(10_000), HeaderValue::from_static("text/plain"));
        for (accepted, length) in [("gzip", 1..100), ("identity", 10_000..10_001)] {
            let asked = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            let sent = || document.answer(&asked).into_body().collect().now_or_never().expect("it is there");
            let [first, second] = [sent(), sent()].map(|body| body.expect("a body").to_bytes());
            assert!(length.contains(&first.len()), "{}", first.len());
            assert_eq!(first.as_ptr(), second.as_ptr(), "{accepted}");
        }
        assert!(compressed(b"x").is_none());
    }
}
