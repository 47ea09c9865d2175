//! Entity tags, and whether a caller has the thing already (RFC 9110, sections 8.8.3 and 13.1.2).

use http::header::{HeaderMap, IF_NONE_MATCH};
use sha2::{Digest, Sha256};

/// The first 128 bits of a SHA-256 as a strong tag.
pub(crate) fn tag_of(hash: Sha256) -> String {
    format!("\"{}\"", hex::encode(&hash.finalize()[..16]))
}

/// Whether `If-None-Match` names the tag; comparison is weak.
pub(crate) fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    asked.get_all(IF_NONE_MATCH).iter().any(|line| {
        let mut tags = line.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_tag_matches_itself_weak_or_strong_and_the_star() {
        for (value, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            let asked = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static(value))]);
            assert_eq!(is_known(&asked, "\"a\""), expected, "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), "\"a\""));
    }
}
