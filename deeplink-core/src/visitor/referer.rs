//! The page that led to a visit.

/// Longest name of a host, in bytes (RFC 1035, section 2.3.4).
const MAX_HOST: usize = 253;

/// The host of the web page that a `Referer` names, in lower case and as an A-label; empty when it names none.
pub fn referer_host(referer: &str) -> String {
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| referer.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let parsed = is_web.then(|| url::Url::parse(referer).ok()).flatten();
    parsed.as_ref().and_then(url::Url::host_str).filter(|host| host.len() <= MAX_HOST).unwrap_or_default().to_owned()
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
            ("android-app://com.example.app/", ""),
            ("example.com", ""),
            ("https://", ""),
            ("https://exa mple.com/", ""),
            ("http:/👋", ""),
            ("", ""),
        ] {
            assert_eq!(referer_host(referer), host, "{referer}");
        }
        assert_eq!(referer_host(&format!("https://{}example.com/", "a.".repeat(200))), "");
    }
}
