//! The page that led to a visit.

/// Replaces a User-Agent or Referer whose text is not stored.
pub const OTHER: &str = "other";

/// Longest name of a host, in bytes (RFC 1035, section 2.3.4).
const MAX_HOST: usize = 253;

/// The host of the web page that a `Referer` names, in lower case and as an A-label, or an IP address (IPv6 in
/// brackets); empty if it names none, [`OTHER`] for that word. A host has only letters, digits, `.` and `-`: visitors
/// choose it, and it is shown in tables and files.
pub fn referer_host(referer: &str) -> String {
    if referer == OTHER {
        return OTHER.to_owned();
    }
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| referer.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let parsed = is_web.then(|| url::Url::parse(referer).ok()).flatten();
    let is_name = |host: &str| {
        let has_form = host.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-'));
        has_form && host.starts_with(|first: char| first.is_ascii_alphanumeric()) && host.len() <= MAX_HOST
    };
    match parsed.as_ref().and_then(url::Url::host) {
        Some(url::Host::Domain(name)) if is_name(name) => name.to_owned(),
        Some(url::Host::Ipv4(address)) => address.to_string(),
        Some(url::Host::Ipv6(address)) => format!("[{address}]"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_pages_have_a_host() {
        for (referer, host) in [
            ("https://News.Example.com:8443/a?b#c", "news.example.com"),
            ("HTTP://example.com", "example.com"),
            ("https://user:word@example.com/", "example.com"),
            ("https://bücher.example/", "xn--bcher-kva.example"),
            ("https://[2001:DB8::1]/", "[2001:db8::1]"),
            ("https://127.0.0.1:8080/", "127.0.0.1"),
            ("android-app://com.example.app/", ""),
            ("example.com", ""),
            ("https://", ""),
            ("https://exa mple.com/", ""),
            ("http:/👋", ""),
            ("", ""),
            ("other", "other"),
        ] {
            assert_eq!(referer_host(referer), host, "{referer}");
        }
        assert_eq!(referer_host(&format!("https://{}example.com/", "a.".repeat(200))), "");
    }

    /// The host of a referer is a name or an address, never text that a spreadsheet could treat as a formula.
    #[test]
    fn r8_hosts_are_names_or_addresses() {
        for referer in [
            "https://=cmd().example/",
            "https://=hyperlink(\"x\").example/",
            "https://-2+3.example/",
            "https://-a.example/",
            "https://+1.example/",
            "https://under_score.example/",
            "https://a,b.example/",
            "https://'a'.example/",
        ] {
            assert_eq!(referer_host(referer), "", "{referer}");
        }
    }
}
