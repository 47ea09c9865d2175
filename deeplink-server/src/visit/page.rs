//! Parts shared by all pages of a visit: headers, host names for display, and JSON that is inert inside a script.

use std::io;

use axum::http::header::{
    CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    VARY, X_CONTENT_TYPE_OPTIONS,
};
use deeplink_core::visitor::Language;
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// The CSS that every page needs.
pub(crate) const BASE_CSS: &str = include_str!("../../templates/page.css");

/// Minifies style sheets: drops comments, which are on their own lines, and unneeded whitespace.
pub(crate) fn compact_css(sheets: &[&str]) -> String {
    let rules: String = sheets.iter().flat_map(|sheet| lines_of_code(sheet, "/*")).collect();
    const UNNEEDED: [(&str, &str); 7] =
        [(": ", ":"), ("; ", ";"), (", ", ","), (" {", "{"), ("{ ", "{"), (" }", "}"), ("@media (", "@media(")];
    UNNEEDED.iter().fold(rules, |rules, (with_space, without)| rules.replace(with_space, without))
}

/// Minifies a script: drops comments on their own lines, and indentation.
pub(crate) fn compact_js(script: &str) -> String {
    lines_of_code(script, "//").collect::<Vec<_>>().join("\n")
}

fn lines_of_code<'a>(source: &'a str, comment: &'static str) -> impl Iterator<Item = &'a str> {
    source.lines().map(str::trim).filter(move |line| !line.is_empty() && !line.starts_with(comment))
}

/// The headers of every page; `nonce` is fresh for each response and is the one given to its template.
pub(crate) fn headers(nonce: &str, language: Language) -> [(HeaderName, HeaderValue); 8] {
    let policy = [
        "default-src 'none'; img-src https: data:; style-src 'nonce-",
        nonce,
        "'; script-src 'nonce-",
        nonce,
        "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ]
    .concat();
    // A nonce is base64. If it ever were something else, nothing inline would run rather than everything.
    let policy = HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
    [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, policy),
        (CONTENT_LANGUAGE, HeaderValue::from_static(language.tag())),
        (VARY, HeaderValue::from_static("Accept, Accept-Language, User-Agent, Sec-CH-UA-Platform")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("strict-origin-when-cross-origin")),
    ]
}

/// The host of an http(s) address, without its port.
pub(crate) fn host_of(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// JSON for the inside of a script element: nothing in it can end the element or begin another.
pub(super) fn script_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut json = Vec::with_capacity(512);
    value.serialize(&mut Serializer::with_formatter(&mut json, ScriptSafe))?;
    // The serializer writes UTF-8 and the formatter cuts it at character boundaries only.
    String::from_utf8(json).map_err(serde::ser::Error::custom)
}

/// Compact JSON with `< > &` and the two line ends of JavaScript as escapes.
struct ScriptSafe;

impl Formatter for ScriptSafe {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, unsafe_char)) = rest.char_indices().find(|(_, c)| is_unsafe_in_script(*c)) {
            CompactFormatter.write_string_fragment(writer, &rest[..at])?;
            write!(writer, "\\u{:04x}", u32::from(unsafe_char))?;
            rest = &rest[at + unsafe_char.len_utf8()..];
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

fn is_unsafe_in_script(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_go_out_with_these_headers() {
        let sent = headers("AAECAwQFBgcICQoLDA0ODw==", Language::ZhHant);
        let sent: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("ASCII"))).collect();
        let policy = "default-src 'none'; img-src https: data:; style-src 'nonce-AAECAwQFBgcICQoLDA0ODw=='; \
                      script-src 'nonce-AAECAwQFBgcICQoLDA0ODw=='; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";
        let expected = [
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", policy),
            ("content-language", "zh-Hant"),
            ("vary", "Accept, Accept-Language, User-Agent, Sec-CH-UA-Platform"),
            ("cache-control", "no-store"),
            ("x-robots-tag", "noindex"),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "strict-origin-when-cross-origin"),
        ];
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_nonce_that_is_no_header_text_lets_nothing_run() {
        let policy = headers("a\nb", Language::En).into_iter().find(|(name, _)| name == CONTENT_SECURITY_POLICY);
        assert_eq!(policy.expect("a policy").1, "default-src 'none'");
    }

    #[test]
    fn what_only_people_read_is_left_out() {
        let sheet = "/* Why. */\na, b { color: red; margin: calc(1px + 2px) }\n\n@media (hover: hover) {\n  a:hover { color: blue }\n}\n";
        let css = "a,b{color:red;margin:calc(1px + 2px)}@media(hover:hover){a:hover{color:blue}}";
        assert_eq!(compact_css(&[sheet, sheet]), [css, css].concat());
        let script = "  // Why.\n  \"use strict\";\n  go(); // not a line of its own\n";
        assert_eq!(compact_js(script), "\"use strict\";\ngo(); // not a line of its own");
    }

    #[test]
    fn nothing_is_written_so_that_leaving_out_would_change_it() {
        for sheet in [BASE_CSS, include_str!("../../templates/landing.css"), include_str!("../../templates/notice.css")]
        {
            let css = compact_css(&[sheet]);
            assert!(!css.contains("/*") && !css.contains("*/"), "a comment is longer than its line");
            for text in sheet.split('"').skip(1).step_by(2) {
                assert!(css.contains(text), "{text} is no longer what it was");
            }
        }
        assert!(!include_str!("../../templates/landing.js").contains('`'), "a template would lose its white space");
    }

    #[test]
    fn hosts() {
        for (url, host) in [
            ("https://example.com/a:b?c=d:1", "example.com"),
            ("https://example.com:8443", "example.com"),
            ("http://[::1]:8080/r/x", "[::1]"),
            ("http://[::1]/r/x", "[::1]"),
            ("https://example.com?q", "example.com"),
        ] {
            assert_eq!(host_of(url), host);
        }
    }

    proptest! {
        #[test]
        fn script_json_is_the_same_json_and_inert(text in any::<String>(), hostile in "[<>&\u{2028}\u{2029}\"\\\\/a]*") {
            let value = (text, hostile);
            let json = script_json(&value).expect("strings are JSON");
            let is_inert = !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(is_inert, "{json}");
            let back: (String, String) = serde_json::from_str(&json).expect("it is JSON");
            prop_assert_eq!(back, value);
        }
    }
}
