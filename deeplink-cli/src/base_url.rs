//! The address of the service, and its origin, to which a stored key is bound.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

/// A checked base URL: a path prefix is kept, one trailing slash is dropped, and plain http is for loopback only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl(Url);

impl BaseUrl {
    /// Scheme, host and port: a stored key is sent nowhere else.
    pub(crate) fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// The name of the host.
    pub(crate) fn host(&self) -> String {
        self.0.host_str().unwrap_or_default().to_owned()
    }

    /// Whether the service is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.0.host().as_ref().is_some_and(is_loopback)
    }

    /// The address without a trailing slash.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("not a base URL: {why} (such as https://dl.example.com)");
        if let Some(meant) = with_scheme(text.trim()) {
            return Err(format!("not a base URL: it has no scheme; did you mean {meant}?"));
        }
        let url = Url::parse(text.trim()).map_err(|_| wrong("it is not an absolute URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must start with https:// or http://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("it must not contain a user name or password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("it must not have a query or a fragment"));
        }
        let Some(host) = url.host() else { return Err(wrong("it has no host")) };
        if url.scheme() == "http" && !is_loopback(&host) {
            let why = "http:// would expose your key to the network; use https://";
            let local = "http:// is allowed only for loopback addresses, such as http://127.0.0.1:8080";
            return Err(format!("not a base URL: {why} ({local})"));
        }
        Ok(Self(url))
    }
}

/// The base URL of an address that was given without a scheme, such as `localhost:8080`.
fn with_scheme(text: &str) -> Option<BaseUrl> {
    if text.contains("://") {
        return None;
    }
    let mut urls = ["http", "https"].iter().filter_map(|scheme| format!("{scheme}://{text}").parse::<BaseUrl>().ok());
    urls.find(|url| url.is_loopback() || url.host().contains('.'))
}

/// Whether a host is this machine.
fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => name.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_stay_and_origins_name_the_port() {
        for (text, shown, origin) in [
            ("https://dl.example.com", "https://dl.example.com", "https://dl.example.com"),
            ("https://DL.example.com:443/links/", "https://dl.example.com/links", "https://dl.example.com"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:9", "http://[::1]:9", "http://[::1]:9"),
            ("http://localhost", "http://localhost", "http://localhost"),
        ] {
            let base: BaseUrl = text.parse().expect("a base URL");
            assert_eq!((base.as_str(), base.origin().as_str()), (shown, origin), "{text}");
        }
    }

    /// P4: plain http is for loopback only.
    #[test]
    fn p4_plain_http_leaves_no_machine() {
        for text in [
            "http://example.com",
            "http://10.0.0.1",
            "http://localhost.example.com",
            "http://0.0.0.0:80",
            "http://[::ffff:127.0.0.1]",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_without_a_scheme_gets_a_suggestion() {
        for (text, meant) in [
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("dl.example.com", "https://dl.example.com"),
            ("dl.example.com:8443/links", "https://dl.example.com:8443/links"),
        ] {
            let refused = text.parse::<BaseUrl>().expect_err(text);
            assert_eq!(refused, format!("not a base URL: it has no scheme; did you mean {meant}?"));
        }
        for text in ["", "nonsense", "me@example.com", "mailto:me@example.com", "http:"] {
            assert!(!text.parse::<BaseUrl>().expect_err(text).contains("did you mean"), "{text}");
        }
    }

    #[test]
    fn what_is_no_base_url_is_refused() {
        for text in [
            "",
            "dl.example.com",
            "ftp://example.com",
            "https://me@example.com",
            "https://example.com?a",
            "https://example.com#a",
            "https://",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }
}
