//! Paths and queries: every value is encoded, and no value can leave its path segment.

use http::Uri;
use serde::Serialize;
use url::Url;

use crate::call::Target;
use crate::error::{Error, Result};

/// A route's template with its `{…}` replaced by encoded values, in order.
pub(crate) fn fill(template: &str, params: &[&str]) -> Result<String> {
    let (mut path, mut rest, mut params) = (String::new(), template, params.iter());
    while let (Some(start), Some(end)) = (rest.find('{'), rest.find('}')) {
        path.push_str(&rest[..start]);
        let value = params.next().ok_or_else(|| Error::validation("path", "a part of the path is missing"))?;
        path.push_str(&segment(value)?);
        rest = &rest[end + 1..];
    }
    path.push_str(rest);
    Ok(path)
}

/// One path segment: everything but unreserved characters is percent-encoded.
fn segment(value: &str) -> Result<String> {
    use std::fmt::Write;
    if matches!(value, "" | "." | "..") {
        return Err(Error::validation("path", "an ID must not be empty, \".\" or \"..\""));
    }
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    Ok(out)
}

/// The fields of a struct as query pairs, one per value of a list; absent ones are left out by its own serialization. They
/// are sorted by name, because any crate in a build can switch serde_json's order.
pub(crate) fn pairs(query: &impl Serialize) -> Result<Vec<(String, String)>> {
    let value = serde_json::to_value(query)
        .map_err(|why| Error::from_source(crate::Kind::Validation, "the query could not be serialized", why))?;
    let serde_json::Value::Object(fields) = value else { return Ok(Vec::new()) };
    let mut pairs: Vec<_> = fields
        .into_iter()
        .flat_map(|(name, value)| match value {
            serde_json::Value::Array(values) => values.into_iter().map(|value| (name.clone(), value)).collect(),
            value => vec![(name, value)],
        })
        .filter_map(|(name, value)| match value {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some((name, text)),
            other => Some((name, other.to_string())),
        })
        .collect();
    pairs.sort();
    Ok(pairs)
}

/// Appends pairs to the query of a path.
pub(crate) fn append_query(path: &mut String, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    path.push(if path.contains('?') { '&' } else { '?' });
    let start = path.len();
    let mut query = url::form_urlencoded::Serializer::for_suffix(std::mem::take(path), start);
    query.extend_pairs(pairs);
    *path = query.finish();
}

/// The URL of a request: the base URL's path prefix is kept, without one trailing slash.
pub(crate) fn uri(base: &Url, target: &Target) -> Result<Uri> {
    let text = match target {
        Target::Path(path) => {
            let base = base.as_str();
            format!("{}{path}", base.strip_suffix('/').unwrap_or(base))
        }
        Target::Url(url) | Target::Secret(url) => url.as_str().to_owned(),
    };
    text.parse().map_err(|_| Error::validation("path", "the path contains characters that a request cannot contain"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_inside_their_segment() {
        for (value, path) in [
            ("spring-42", "/v1/links/spring-42/x"),
            ("a/../b", "/v1/links/a%2F..%2Fb/x"),
            ("a?b#c%20", "/v1/links/a%3Fb%23c%2520/x"),
            ("ä", "/v1/links/%C3%A4/x"),
            ("...", "/v1/links/.../x"),
        ] {
            assert_eq!(fill("/v1/links/{link_id}/x", &[value]).expect("a path"), path);
        }
        for value in ["", ".", ".."] {
            assert_eq!(fill("/v1/links/{link_id}", &[value]).expect_err("refused").kind(), crate::Kind::Validation);
        }
    }

    #[test]
    fn a_path_prefix_is_kept() {
        for (base, expected) in [
            ("https://example.com", "https://example.com/health?a=b"),
            ("https://example.com/", "https://example.com/health?a=b"),
            ("https://example.com/dl", "https://example.com/dl/health?a=b"),
            ("https://example.com/dl/", "https://example.com/dl/health?a=b"),
        ] {
            let base = Url::parse(base).expect("a URL");
            assert_eq!(uri(&base, &Target::Path("/health?a=b".into())).expect("a URI").to_string(), expected);
        }
    }

    #[test]
    fn query_values_are_encoded() {
        let mut path = "/v1/links?limit=1".to_owned();
        append_query(&mut path, &[("cursor".into(), "a+b/c=&d".into())]);
        assert_eq!(path, "/v1/links?limit=1&cursor=a%2Bb%2Fc%3D%26d");
    }
}
