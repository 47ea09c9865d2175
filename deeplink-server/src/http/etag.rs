//! Entity tags and `If-None-Match` (RFC 9110, sections 8.8.3 and 13.1.2).

use http::header::{HeaderMap, IF_NONE_MATCH};
use sha2::{Digest, Sha256};

/// The first 128 bits of a SHA-256 hash as a strong tag.
pub(crate) fn tag_of(hash: Sha256) -> String {
    format!("\"{}\"", hex::encode(&hash.finalize()[..16]))
}

/// Whether `If-None-Match` matches the tag, by weak comparison.
pub(crate) fn matches(headers: &HeaderMap, tag: &str) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|line| {
        let mut tags = line.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.any(|listed| listed == "*" || listed.strip_prefix("W/").unwrap_or(listed) == tag)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn strong_weak_and_wildcard_tags_match() {
        for (value, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))]);
            assert_eq!(matches(&headers, "\"a\""), expected, "{value}");
        }
        assert!(!matches(&HeaderMap::new(), "\"a\""));
    }
}
