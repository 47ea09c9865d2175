//! The host of a request: in lower case, without port and trailing dot. Ambiguous requests are refused.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::extract::FromRequestParts;
use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Version};

use super::client_ip::{self, Peer};
use crate::error::ApiError;
use crate::state::{App, Shared};

/// Maximum length of a host name in DNS.
const MAX_LENGTH: usize = 253;

/// The host of the request is missing, ambiguous or invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host of the request is missing, ambiguous or invalid")]
pub(crate) struct BadHost;

/// Extractor: the request is for the service's own host. Web pages require it, so on other hosts they are 404.
pub(crate) struct OnServiceHost;

impl FromRequestParts<Shared> for OnServiceHost {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let peer = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
        let host = app.asked_host(peer, parts)?;
        if app.is_service_host(&host) { Ok(Self) } else { Err(ApiError::not_found()) }
    }
}

impl App {
    /// The host that a request names, in lower case, without port and final dot. A trusted proxy may name another.
    pub(crate) fn asked_host<'a>(&self, peer: IpAddr, parts: &'a Parts) -> Result<Cow<'a, str>, ApiError> {
        // Checked even if a proxy names another: with two `Host` lines, someone may read a different request than we
        // do.
        let asked = host_of(parts);
        let host = match client_ip::forwarded_host(peer, &parts.headers, &self.config.trusted_proxies) {
            Some(forwarded) if asked.is_ok() => normalized(forwarded),
            _ => asked,
        };
        host.map_err(|_| bad())
    }

    /// Whether a host is the service's own. A loopback server goes by every loopback name.
    pub(crate) fn is_service_host(&self, host: &str) -> bool {
        host == self.service_host || (self.is_loopback && is_loopback_name(host))
    }
}

/// The refusal of a request whose host is missing or ambiguous.
pub(crate) fn bad() -> ApiError {
    ApiError::bad_request("the request has no host, or more than one")
}

/// Refuses two `Host` lines even where the host is not used: a server on the way may read a different request.
pub(crate) fn at_most_one(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.get_all(HOST).iter().nth(1).is_some() { Err(bad()) } else { Ok(()) }
}

pub(crate) fn is_loopback_name(host: &str) -> bool {
    host == "localhost"
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || host == "[::1]"
}

/// The host from `Host`, `:authority` or the request target. Empty for an HTTP/1.0 request without one: it matches none of our
/// hosts, but can request what is available on every host.
pub(crate) fn host_of(parts: &Parts) -> Result<Cow<'_, str>, BadHost> {
    one_host(parts.uri.authority(), &parts.headers, parts.version)
}

fn one_host<'r>(
    target: Option<&'r Authority>,
    headers: &'r HeaderMap,
    version: Version,
) -> Result<Cow<'r, str>, BadHost> {
    let mut lines = headers.get_all(HOST).iter();
    match (lines.next(), lines.next(), target) {
        (_, Some(_), _) => Err(BadHost),
        (Some(line), None, None) => normalized(line.as_bytes()),
        (None, None, Some(target)) => normalized(target.as_str().as_bytes()),
        (Some(line), None, Some(target)) => {
            // A proxy may have routed by one of them, and we by the other.
            let (host, port) = split(line.as_bytes())?;
            let (target_host, target_port) = split(target.as_str().as_bytes())?;
            let (host, target_host) = (lower(host)?, lower(target_host)?);
            let ports_agree = port.is_empty() || target_port.is_empty() || port == target_port;
            if host == target_host && ports_agree { Ok(target_host) } else { Err(BadHost) }
        }
        (None, None, None) if version <= Version::HTTP_10 => Ok(Cow::Borrowed("")),
        (None, None, None) => Err(BadHost),
    }
}

/// The host in a `Host` or `X-Forwarded-Host` header value.
pub(crate) fn normalized(value: &[u8]) -> Result<Cow<'_, str>, BadHost> {
    lower(split(value)?.0)
}

/// Splits a host and its port.
fn split(value: &[u8]) -> Result<(&[u8], &[u8]), BadHost> {
    let colon = match value {
        // An IPv6 address contains colons.
        [b'[', ..] => {
            let end = value.iter().position(|byte| *byte == b']').ok_or(BadHost)? + 1;
            match value.get(end) {
                None => None,
                Some(b':') => Some(end),
                Some(_) => return Err(BadHost),
            }
        }
        _ => value.iter().rposition(|byte| *byte == b':'),
    };
    let (host, port) = colon.map_or((value, &[][..]), |colon| (&value[..colon], &value[colon + 1..]));
    let number = std::str::from_utf8(port).ok().filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_port = number.is_some_and(|number| number.is_empty() || number.parse::<u16>().is_ok());
    if is_port { Ok((host, port)) } else { Err(BadHost) }
}

/// A host without port, in normal form. Allocates only if it is not in that form already.
fn lower(host: &[u8]) -> Result<Cow<'_, str>, BadHost> {
    let host = host.strip_suffix(b".").unwrap_or(host);
    let address = matches!(host, [b'[', _, .., b']']);
    let (mut upper, mut dotted) = (false, true);
    for byte in host.iter().copied() {
        let dot = byte == b'.';
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => {}
            b'A'..=b'Z' => upper = true,
            // Empty labels are invalid.
            b'.' if !dotted => {}
            b'[' | b']' | b':' if address => {}
            _ => return Err(BadHost),
        }
        dotted = dot;
    }
    if host.len() > MAX_LENGTH || dotted && !host.is_empty() {
        return Err(BadHost);
    }
    let host = str::from_utf8(host).map_err(|_| BadHost)?;
    Ok(if upper { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(version: Version, target: &str, hosts: &[&str]) -> Parts {
        let mut request = http::Request::builder().version(version).uri(target);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// L11: port, case and one trailing dot are removed; two hosts, a host other than the target's, and user
    /// information are refused.
    #[test]
    fn l11_forms_of_a_host() {
        let cases: [(&str, &[&str], Result<&str, BadHost>); 32] = [
            ("/", &["go.example.com"], Ok("go.example.com")),
            ("/", &["Go.Example.COM"], Ok("go.example.com")),
            ("/", &["go.example.com:8080"], Ok("go.example.com")),
            ("/", &["go.example.com:"], Ok("go.example.com")),
            ("/", &["go.example.com."], Ok("go.example.com")),
            ("/", &["GO.example.com.:443"], Ok("go.example.com")),
            ("/", &["my_service:80"], Ok("my_service")),
            ("/", &["127.0.0.1:80"], Ok("127.0.0.1")),
            ("/", &["[::1]:80"], Ok("[::1]")),
            ("/", &["[2606:4700::ABCD]"], Ok("[2606:4700::abcd]")),
            ("/", &[""], Ok("")),
            ("/", &[], Err(BadHost)),
            ("/", &["a.example", "a.example"], Err(BadHost)),
            ("/", &["a.example", "b.example"], Err(BadHost)),
            ("/", &["a.example, b.example"], Err(BadHost)),
            ("/", &["a.example.."], Err(BadHost)),
            ("/", &["a..example"], Err(BadHost)),
            ("/", &[".example"], Err(BadHost)),
            ("/", &["."], Ok("")),
            ("/", &["user@a.example"], Err(BadHost)),
            ("/", &["user:pass@a.example"], Err(BadHost)),
            ("/", &["a.example:80@b.example"], Err(BadHost)),
            ("/", &["a.example/x"], Err(BadHost)),
            ("/", &["a.example:http"], Err(BadHost)),
            ("/", &["a%2eexample"], Err(BadHost)),
            ("/", &["[::1"], Err(BadHost)),
            ("/", &["[::1]x"], Err(BadHost)),
            ("/", &["::1"], Err(BadHost)),
            ("http://a.example/", &["A.example"], Ok("a.example")),
            ("http://a.example:80/", &["a.example"], Ok("a.example")),
            ("http://a.example:80/", &["a.example:81"], Err(BadHost)),
            ("http://a.example/", &["b.example"], Err(BadHost)),
        ];
        for (target, hosts, expected) in cases {
            let parts = parts(Version::HTTP_11, target, hosts);
            let host = host_of(&parts);
            assert_eq!(host.as_deref(), expected.as_deref(), "{target} {hosts:?}");
        }
    }

    /// L11: over HTTP/2 `:authority` is the host, and `Host` must be equal if present.
    #[test]
    fn l11_authority_of_http2() {
        let host = |target, hosts| host_of(&parts(Version::HTTP_2, target, hosts)).map(Cow::into_owned);
        assert_eq!(host("http://Go.example.com:8080/r/x", &[]), Ok("go.example.com".to_owned()));
        assert_eq!(host("http://go.example.com/r/x", &["go.example.com."]), Ok("go.example.com".to_owned()));
        assert_eq!(host("http://go.example.com/r/x", &["evil.example"]), Err(BadHost));
        assert_eq!(host("http://user@go.example.com/r/x", &[]), Err(BadHost));
        assert_eq!(host("/r/x", &[]), Err(BadHost));
    }

    #[test]
    fn http_1_0_requests_need_no_host() {
        assert_eq!(host_of(&parts(Version::HTTP_10, "/health", &[])).as_deref(), Ok(""));
    }

    #[test]
    fn a_host_in_normal_form_is_not_copied() {
        assert!(matches!(normalized(b"go.example.com:8080"), Ok(Cow::Borrowed("go.example.com"))));
        assert_eq!(normalized("a".repeat(254).as_bytes()), Err(BadHost));
        assert_eq!(normalized("bücher.example".as_bytes()), Err(BadHost));
    }
}
