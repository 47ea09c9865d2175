//! The client's address: the peer's, or the one that trusted proxies report.
//!
//! Any client can send forwarding headers. They are used only if the peer is a trusted proxy, and read from right to left:
//! each hop appends the address it saw, so the first address from the right that is not a trusted proxy is the last one
//! reported by a trusted one. Anything to its left may be forged.

use std::net::{IpAddr, Ipv6Addr};

use deeplink_core::visitor::Country;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

use crate::country::Countries;
use crate::error::ApiError;
use crate::rate_limit::Limiter;
use crate::state::App;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The address of the socket's other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The address of the client.
pub(crate) fn client_ip(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let mut client = peer.to_canonical();
    if !is_trusted(client, trusted) {
        return client;
    }
    // Repeated headers form one list in their order.
    let hops =
        headers.get_all(FORWARDED_FOR).iter().rev().flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    for hop in hops {
        // Hops beyond an invalid address are unknown, so the nearest known one is used.
        let Some(address) = address(hop) else { break };
        client = address;
        if !is_trusted(client, trusted) {
            break;
        }
    }
    client
}

/// The host the client requested, as reported by a trusted proxy: the last value, which the nearest proxy added.
pub(crate) fn forwarded_host<'h>(peer: IpAddr, headers: &'h HeaderMap, trusted: &[IpNet]) -> Option<&'h [u8]> {
    if trusted.is_empty() || !is_trusted(peer.to_canonical(), trusted) {
        return None;
    }
    let line: &HeaderValue = headers.get_all(FORWARDED_HOST).iter().next_back()?;
    line.as_bytes().rsplit(|byte| *byte == b',').next().map(<[u8]>::trim_ascii)
}

/// The key for rate limits: an IPv4 address, or the /64 of an IPv6 address, which usually belongs to one customer.
pub(crate) fn limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address @ IpAddr::V4(_) => address,
    }
}

/// The network of an address: the /24 of an IPv4 address, or the /48 of an IPv6 address, which is what one site usually
/// has, so that a client does not change networks by using another /64 of its own.
pub(crate) fn network(address: IpAddr) -> IpNet {
    let address = address.to_canonical();
    let bits = if address.is_ipv4() { 24 } else { 48 };
    IpNet::new(address, bits).map_or(address.into(), |net| net.trunc())
}

impl App {
    /// The key by which a client is limited.
    pub(crate) fn client_at(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        limit_key(client_ip(peer, headers, &self.config.trusted_proxies))
    }

    /// The country of the client.
    pub(crate) fn country_of(&self, peer: IpAddr, headers: &HeaderMap) -> Country {
        let trusted = &self.config.trusted_proxies;
        match &self.countries {
            // Anybody else could send it as well. The last value is that of the nearest proxy.
            Countries::Header(name) if is_trusted(peer.to_canonical(), trusted) => {
                let line = headers.get_all(name).iter().next_back();
                let told = line.and_then(|line| line.as_bytes().rsplit(|byte| *byte == b',').next());
                told.map_or(Country::UNKNOWN, Country::read)
            }
            Countries::File(_) => self.countries.at(client_ip(peer, headers, trusted)),
            Countries::Header(_) | Countries::None => Country::UNKNOWN,
        }
    }

    /// The key by which the client of a request in the router is limited.
    pub(crate) fn client_of(&self, parts: &Parts) -> IpAddr {
        let peer = parts.extensions.get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
        self.client_at(peer, &parts.headers)
    }
}

/// Counts a request against a limit by the client's address, or refuses it with a sentence that names the limit.
pub(crate) fn check_limit(
    app: &App,
    (limiter, sentence): (&Limiter, &'static str),
    peer: IpAddr,
    headers: &HeaderMap,
) -> Result<(), ApiError> {
    let client = app.client_at(peer, headers);
    limiter.check_address(client, app.clock.monotonic_millis()).map_err(ApiError::limited(sentence))
}

/// Whether a canonical address is that of a trusted proxy.
pub(crate) fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| net.contains(&address))
}

/// Parses one hop: an address, which some proxies write with a port or in quotes.
fn address(hop: &[u8]) -> Option<IpAddr> {
    let hop = str::from_utf8(hop).ok()?.trim().trim_matches('"');
    let bare = match hop.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match hop.split_once(':') {
            Some((bare, port)) if !port.contains(':') => bare,
            _ => hop,
        },
    };
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXIES: [&str; 3] = ["10.0.0.0/8", "192.0.2.7/32", "2001:db8:ffff::/48"];

    fn headers(name: &HeaderName, lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (name.clone(), HeaderValue::from_bytes(line.as_bytes()).unwrap())).collect()
    }

    fn trusted() -> Vec<IpNet> {
        PROXIES.iter().map(|net| net.parse().unwrap()).collect()
    }

    /// X6: the client is the socket's peer; forwarding headers count only from trusted proxies, the right-most
    /// untrusted hop.
    #[test]
    fn x6_client_addresses() {
        let cases: [(&str, &[&str], &str); 23] = [
            // Not a proxy: its headers are ignored.
            ("198.51.100.1", &[], "198.51.100.1"),
            ("198.51.100.1", &["203.0.113.9"], "198.51.100.1"),
            ("::ffff:198.51.100.1", &["203.0.113.9"], "198.51.100.1"),
            // A proxy.
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("::ffff:10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("2001:db8:ffff::1", &["2001:db8:1::9"], "2001:db8:1::9"),
            // The left part is forged by the client.
            ("10.0.0.1", &["1.2.3.4, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["10.9.9.9,203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["1.2.3.4", "203.0.113.9"], "203.0.113.9"),
            // Several proxies in a row, over several lines.
            ("10.0.0.1", &["203.0.113.9, 192.0.2.7, 10.1.1.1"], "203.0.113.9"),
            ("10.0.0.1", &["1.2.3.4, 203.0.113.9", "192.0.2.7", "10.1.1.1"], "203.0.113.9"),
            ("10.0.0.1", &["203.0.113.9, 192.0.2.8, 10.1.1.1"], "192.0.2.8"),
            // Only proxies: the first one is the client.
            ("10.0.0.1", &["10.2.2.2, 10.1.1.1"], "10.2.2.2"),
            // Forms in which hops are written.
            ("10.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("10.0.0.1", &["[2001:db8:1::9]:4711"], "2001:db8:1::9"),
            ("10.0.0.1", &["\"[2001:db8:1::9]\""], "2001:db8:1::9"),
            ("10.0.0.1", &["::ffff:203.0.113.9"], "203.0.113.9"),
            // Hops beyond an invalid address are unknown.
            ("10.0.0.1", &["203.0.113.9, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, unknown, 10.1.1.1"], "10.1.1.1"),
            ("10.0.0.1", &["203.0.113.9,"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, 010.1.1.1"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.9, \u{e9}"], "10.0.0.1"),
        ];
        for (peer, lines, expected) in cases {
            let client = client_ip(peer.parse().unwrap(), &headers(&FORWARDED_FOR, lines), &trusted());
            assert_eq!(client.to_string(), expected, "{peer} {lines:?}");
        }
    }

    /// X6: without trusted proxies, forwarding headers have no effect.
    #[test]
    fn x6_no_proxy_is_trusted_by_default() {
        let headers = headers(&FORWARDED_FOR, &["203.0.113.9"]);
        assert_eq!(client_ip("127.0.0.1".parse().unwrap(), &headers, &[]).to_string(), "127.0.0.1");
    }

    /// X6: two addresses of a /64 share one limit, and an IPv4-mapped address counts as IPv4.
    #[test]
    fn x6_limits_are_per_64_bits_of_ipv6() {
        let key = |address: &str| limit_key(address.parse().unwrap()).to_string();
        assert_eq!(key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(key("2001:db8:1:2:ffff::"), "2001:db8:1:2::");
        assert_eq!(key("2001:db8:1:3::"), "2001:db8:1:3::");
        assert_eq!(key("203.0.113.9"), "203.0.113.9");
        assert_eq!(key("::ffff:203.0.113.9"), "203.0.113.9");
    }

    #[test]
    fn networks_are_24_bits_of_ipv4_and_48_of_ipv6() {
        let of = |address: &str| network(address.parse().unwrap()).to_string();
        assert_eq!(of("203.0.113.9"), "203.0.113.0/24");
        assert_eq!(of("::ffff:203.0.113.9"), "203.0.113.0/24");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1::/48");
        assert_eq!(of("2001:db8:1:ffff::"), "2001:db8:1::/48");
        assert_eq!(of("2001:db8:2::"), "2001:db8:2::/48");
    }

    /// X6: `X-Forwarded-Host` is used from trusted proxies only.
    #[test]
    fn x6_forwarded_hosts() {
        let cases: [(&str, &[&str], Option<&str>); 6] = [
            ("198.51.100.1", &["go.example.com"], None),
            ("10.0.0.1", &[], None),
            ("10.0.0.1", &["go.example.com"], Some("go.example.com")),
            ("::ffff:10.0.0.1", &["go.example.com:443"], Some("go.example.com:443")),
            ("10.0.0.1", &["evil.example, go.example.com"], Some("go.example.com")),
            ("10.0.0.1", &["evil.example", "go.example.com"], Some("go.example.com")),
        ];
        for (peer, lines, expected) in cases {
            let headers = headers(&FORWARDED_HOST, lines);
            let host = forwarded_host(peer.parse().unwrap(), &headers, &trusted());
            assert_eq!(host, expected.map(str::as_bytes), "{peer} {lines:?}");
        }
        assert_eq!(forwarded_host("10.0.0.1".parse().unwrap(), &headers(&FORWARDED_HOST, &["a.example"]), &[]), None);
    }
}
