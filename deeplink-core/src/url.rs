//! Which URLs may be stored, and why not. Every rule applies to the parsed value, which is stored in the parser's
//! serialization (WHATWG URL), so that what was checked is what is served.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::text::find_control;

/// Longest URL in bytes, as sent and as stored.
pub const MAX_LEN: usize = 2_048;
/// Longest host in bytes: that of a name in DNS.
const MAX_HOST_LEN: usize = 253;

/// Schemes that run code, read local files or reach system handlers: never stored as a deep link.
const REFUSED_SCHEMES: &[&str] = &[
    "javascript",
    "data",
    "vbscript",
    "blob",
    "file",
    "filesystem",
    "about",
    "view-source",
    "jar",
    "content",
    "intent",
    "shell",
    "search-ms",
];

/// Why a URL was refused; the text completes "web_url: …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Longer than [`MAX_LEN`] bytes.
    #[error("must be at most 2048 bytes")]
    TooLong,
    /// Holds a control character, or starts or ends with whitespace.
    #[error("must not contain control characters, or leading or trailing spaces")]
    Unclean,
    /// Not an absolute URL.
    #[error("not an absolute URL")]
    NotAbsolute,
    /// Neither http nor https.
    #[error("must start with http:// or https://")]
    NotHttp,
    /// Has a user name or password.
    #[error("must not contain a user name or password")]
    UserInfo,
    /// Names this machine or a network that is not public.
    #[error("must have a public host")]
    NotPublic,
    /// Not one of the store's hosts.
    #[error("must be an App Store URL (apps.apple.com or itunes.apple.com)")]
    NotAppStore,
    /// Not one of the store's hosts.
    #[error("must be a Google Play URL (play.google.com)")]
    NotPlayStore,
    /// The scheme is refused.
    #[error("this scheme is not allowed")]
    Scheme,
}

/// A web address: http or https, a public host, no user name.
pub fn web(text: &str) -> Result<String, Refused> {
    parse_web(text).map(String::from)
}

/// A web address for the service itself to fetch: like [`web`], but `allows` may admit addresses that are not public.
/// Host names are checked by their addresses, on connecting.
pub fn outbound(text: &str, allows: impl Fn(IpAddr) -> bool) -> Result<Url, Refused> {
    parse_http(text, |address| is_public(address) || allows(address))
}

/// Whether the service itself calls this port of a public host: 80, 443, and the unprivileged ones from 1024.
pub const fn is_called(port: u16) -> bool {
    matches!(port, 80 | 443 | 1_024..)
}

/// An App Store URL.
pub fn app_store(text: &str) -> Result<String, Refused> {
    store(text, &["apps.apple.com", "itunes.apple.com"], Refused::NotAppStore)
}

/// A Google Play URL.
pub fn play_store(text: &str) -> Result<String, Refused> {
    store(text, &["play.google.com"], Refused::NotPlayStore)
}

/// Any absolute URI that opens an app: every scheme except those that run code or access the system.
pub fn deep_link(text: &str) -> Result<String, Refused> {
    let url = parse(text)?;
    let scheme = url.scheme();
    if matches!(scheme, "http" | "https") {
        return web(text);
    }
    if REFUSED_SCHEMES.contains(&scheme) || scheme.starts_with("chrome") || scheme.starts_with("ms-") {
        return Err(Refused::Scheme);
    }
    Ok(url.into())
}

fn parse(text: &str) -> Result<Url, Refused> {
    if text.len() > MAX_LEN {
        return Err(Refused::TooLong);
    }
    // The parser would strip tabs, line breaks and outer spaces silently.
    if find_control(text, false).is_some() || text.trim() != text {
        return Err(Refused::Unclean);
    }
    let url = Url::parse(text).map_err(|_| Refused::NotAbsolute)?;
    if url.as_str().len() > MAX_LEN {
        return Err(Refused::TooLong);
    }
    if find_control(url.as_str(), false).is_some() {
        return Err(Refused::Unclean);
    }
    Ok(url)
}

fn parse_web(text: &str) -> Result<Url, Refused> {
    parse_http(text, is_public)
}

fn parse_http(text: &str, is_open: impl Fn(IpAddr) -> bool) -> Result<Url, Refused> {
    let url = parse(text)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Refused::NotHttp);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refused::UserInfo);
    }
    let open = match url.host() {
        Some(Host::Domain(name)) => !is_localhost(name) || is_open(Ipv4Addr::LOCALHOST.into()),
        Some(Host::Ipv4(address)) => is_open(address.into()),
        Some(Host::Ipv6(address)) => is_open(address.into()),
        None => false,
    };
    if open { Ok(url) } else { Err(Refused::NotPublic) }
}

fn store(text: &str, hosts: &[&str], refusal: Refused) -> Result<String, Refused> {
    let url = parse_web(text)?;
    let host = url.host_str().unwrap_or_default();
    let ours =
        hosts.iter().any(|store| host.strip_suffix(store).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    if ours { Ok(url.into()) } else { Err(refusal) }
}

/// Whether a host name means the machine itself and is never looked up (RFC 6761, section 6.3), in any case, with or
/// without the final dot; an empty name counts as one.
pub fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.is_empty() || name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost")
}

/// A host in the form in which it is part of a URL (WHATWG URL, section "Host parsing"): lowercase, internationalized
/// names as A-labels, and without the final dot, which no URL of a link has. `None` if the text is not a host, or
/// longer than 253 bytes.
pub fn host(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let host = Host::parse(text).ok()?.to_string();
    (host.len() <= MAX_HOST_LEN && !host.ends_with('.')).then_some(host)
}

/// The origin of links on a custom domain of the service at `service`: a name under `.localhost` is this machine, so it has
/// the service's own scheme and port.
pub fn domain_origin(service: &Url, domain: &str) -> String {
    if !is_localhost(domain) {
        return format!("https://{domain}");
    }
    let port = service.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{domain}{port}", service.scheme())
}

/// The URL of a link on a custom domain of the service at `service`, or without one on the service's own host.
pub fn link_url(service: &Url, link_id: &str, domain: Option<&str>) -> String {
    match domain {
        Some(domain) => format!("{}/{link_id}", domain_origin(service, domain)),
        None => format!("{}/r/{link_id}", service.as_str().trim_end_matches('/')),
    }
}

/// Whether an address is on the public internet: outside every range that IANA reserves for something else.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !V4_RESERVED.iter().any(|&(net, bits)| in_v4(v4, net, bits)),
        IpAddr::V6(v6) => {
            in_v6(v6, Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3)
                && !V6_RESERVED.iter().any(|&(net, bits)| in_v6(v6, Ipv6Addr::from_segments(net), bits))
        }
    }
}

const V4_RESERVED: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

const V6_RESERVED: &[([u16; 8], u32)] = &[
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

fn in_v4(address: Ipv4Addr, net: [u8; 4], bits: u32) -> bool {
    let mask = u32::MAX << (32 - bits);
    u32::from(address) & mask == u32::from_be_bytes(net) & mask
}

fn in_v6(address: Ipv6Addr, net: Ipv6Addr, bits: u32) -> bool {
    let mask = u128::MAX << (128 - bits);
    u128::from(address) & mask == u128::from(net) & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_in_the_form_of_urls() {
        for (text, expected) in [
            ("go.example.com", Some("go.example.com")),
            ("GO.Example.com.", Some("go.example.com")),
            ("b\u{fc}cher.example.com", Some("xn--bcher-kva.example.com")),
            ("localhost", Some("localhost")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[0:0::1]", Some("[::1]")),
            ("", None),
            (".", None),
            ("go.example.com..", None),
            ("go.example.com:443", None),
            ("https://go.example.com", None),
            ("go.example.com/", None),
            ("go example.com", None),
            ("a@go.example.com", None),
            ("::1", None),
            ("999.999.999.999", None),
            (&"abcdefg.".repeat(32), None),
        ] {
            assert_eq!(host(text).as_deref(), expected, "{text}");
        }
    }

    /// L1: a deep link's scheme is checked after parsing; nothing that runs code or reaches into the system is stored.
    #[test]
    fn l1_dangerous_deep_links_are_refused() {
        let schemes = REFUSED_SCHEMES.iter().copied().chain(["chrome", "chrome-extension", "ms-settings", "ms-word"]);
        for scheme in schemes {
            for text in [
                format!("{scheme}:alert(1)"),
                format!("{}:alert(1)", scheme.to_uppercase()),
                format!("{scheme}://host/path"),
                format!(" {scheme}:x"),
                format!("\u{1}{scheme}:x"),
            ] {
                assert!(deep_link(&text).is_err(), "{text:?}");
            }
        }
        for text in [
            "",
            "/relative",
            "relative",
            "?q",
            "#f",
            "://x",
            "JaVaScRiPt:alert(1)",
            "java\tscript:alert(1)",
            "java\nscript:alert(1)",
            "&#106;avascript:alert(1)",
            "%6aavascript:alert(1)",
            "view-source:javascript:alert(1)",
            "intent://x#Intent;end",
            "https://127.0.0.1/x",
            "https://localhost",
            "https://user@example.com",
            "myapp://x\u{85}",
            "myapp://x\u{0}",
        ] {
            assert!(deep_link(text).is_err(), "{text:?}");
        }
        for text in
            ["myapp://promo/1?x=2", "com.example.app:open", "https://example.com/app", "MyApp://Case", "tel:+15551234"]
        {
            assert!(deep_link(text).is_ok(), "{text:?}");
        }
    }

    /// Hosts of which none is public, as URLs write them.
    const HOST_VECTORS: &str = include_str!("../../tests/common/hosts-refused.txt");

    /// L2: a web, image, icon or store URL names a public host, checked after parsing, without user name.
    #[test]
    fn l2_web_urls_name_public_hosts() {
        for host in HOST_VECTORS.split_whitespace() {
            for scheme in ["http", "https"] {
                let text = format!("{scheme}://{host}/x");
                assert!(web(&text).is_err(), "{text} gave {:?}", web(&text));
                assert!(deep_link(&text).is_err(), "{text}");
            }
        }
        for host in [
            "8.8.8.8",
            "[2606:4700:4700::1111]",
            "example.net",
            "E.IO.",
            "example.net:8443",
            "bücher.example",
            "127.0.0.1.example.net",
            // Names are checked on connecting, and here it is a browser that connects.
            "a.local",
            "a.internal",
            "metadata.google.internal",
            "example.net:22",
            "example.net:25",
        ] {
            assert!(web(&format!("https://{host}/x")).is_ok(), "{host}");
        }
        for text in [
            "ftp://example.com",
            "example.com",
            "//example.com",
            "https:///",
            "https://",
            "mailto:a@example.com",
            "https://exa mple.com",
        ] {
            assert!(web(text).is_err(), "{text}");
        }
    }

    #[test]
    fn l2_store_hosts_match_on_label_boundaries() {
        for text in [
            "https://apps.apple.com/us/app/x/id1",
            "https://itunes.apple.com/app/id1",
            "https://geo.itunes.apple.com/app/id1",
        ] {
            assert!(app_store(text).is_ok(), "{text}");
        }
        for text in [
            "https://apps.apple.com.example.net/",
            "https://apps.apple.com@example.net/",
            "https://notapps.apple.com./",
            "https://notapps.apple.com/",
            "https://apple.com/",
            "https://play.google.com/store/apps/details?id=a.b",
            "market://details?id=a.b",
        ] {
            assert!(app_store(text).is_err(), "{text}");
        }
        assert!(play_store("https://play.google.com/store/apps/details?id=a.b").is_ok());
        assert!(play_store("https://play.google.com.example.net/").is_err());
    }

    #[test]
    fn length_counts_the_text_sent_and_the_text_stored() {
        let base = "https://example.com/";
        let fits = format!("{base}{}", "a".repeat(MAX_LEN - base.len()));
        assert_eq!(web(&fits).as_deref(), Ok(fits.as_str()));
        assert_eq!(web(&format!("{fits}a")), Err(Refused::TooLong));
        // 700 letters of two bytes become 2,100 bytes of percent-encoding and more.
        assert_eq!(web(&format!("{base}{}", "ä".repeat(700))), Err(Refused::TooLong));
    }

    #[test]
    fn the_serialisation_is_what_is_stored() {
        assert_eq!(web("https://example.com").as_deref(), Ok("https://example.com/"));
        assert_eq!(web("HTTPS://EXAMPLE.com/ä").as_deref(), Ok("https://example.com/%C3%A4"));
    }

    /// Section 5 of the security rules: the first and last address of each blocked range are refused, their public
    /// neighbors are not.
    #[test]
    fn blocked_ranges_end_where_they_should() {
        for &(net, bits) in V4_RESERVED {
            let first = u32::from_be_bytes(net);
            let last = first | !(u32::MAX << (32 - bits));
            for (address, blocked) in
                [(Some(first), true), (Some(last), true), (first.checked_sub(1), false), (last.checked_add(1), false)]
            {
                let Some(address) = address.map(Ipv4Addr::from) else { continue };
                let expected = blocked || V4_RESERVED.iter().any(|&(net, bits)| in_v4(address, net, bits));
                assert_eq!(!is_public(IpAddr::V4(address)), expected, "{address}");
            }
        }
        for text in ["2000::", "2001:200::", "2003::", "2606::1", "3ffe:ffff::", "3fff:1000::"] {
            assert!(is_public(text.parse().expect("an address")), "{text}");
        }
        for text in [
            "1fff:ffff::",
            "4000::",
            "2001::",
            "2001:1ff:ffff::",
            "2001:db8::",
            "2001:db8:ffff::",
            "2002::",
            "2002:ffff::",
            "3fff::",
            "3fff:fff::",
        ] {
            assert!(!is_public(text.parse().expect("an address")), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn accepted_urls_are_stable_ascii_without_control_characters(text in "(https?|myapp)://[^ ]{0,40}") {
            for check in [web, deep_link] {
                if let Ok(stored) = check(&text) {
                    proptest::prop_assert_eq!(check(&stored), Ok(stored.clone()));
                    proptest::prop_assert!(stored.is_ascii() && find_control(&stored, false).is_none());
                }
            }
        }
    }
}
