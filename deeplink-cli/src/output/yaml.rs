//! JSON as YAML, in block style. Every value is the one in the JSON: numbers keep their digits, and a string is quoted
//! unless no reader of YAML could take it for anything else.

use std::fmt::Write;

use deeplink_core::text::is_hidden;
use serde_json::value::RawValue;

use super::Record;

/// The most characters of a key without `?` before it.
const MAX_KEY: usize = 1024;

/// What stands before a value on its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// A key and its colon.
    Key,
    /// The dash of an item, or nothing.
    Dash,
}

/// A document, with a line break at its end.
pub(super) fn document(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    value(&mut out, json, 0, After::Dash);
    out
}

/// An item of a list whose dashes are in this column.
pub(super) fn item(json: &str, column: usize) -> String {
    let mut out = format!("{:column$}- ", "");
    value(&mut out, json, column + 2, After::Dash);
    out
}

/// Writes a value whose further lines are in this column.
fn value(out: &mut String, json: &str, column: usize, after: After) {
    match Kind::of(json) {
        Kind::Object(members) => {
            for (at, (name, member)) in members.iter().enumerate() {
                begin(out, column, after, at);
                key(out, &string(name), column);
                value(out, member.get(), column + 2, After::Key);
            }
        }
        Kind::List(items) => {
            for (at, item) in items.iter().enumerate() {
                begin(out, column, after, at);
                out.push_str("- ");
                value(out, item.get(), column + 2, After::Dash);
            }
        }
        Kind::Scalar(text) => {
            if after == After::Key {
                out.push(' ');
            }
            out.push_str(&text);
            out.push('\n');
        }
    }
}

/// Writes a key and its colon. A long one has the colon on the next line.
fn key(out: &mut String, key: &str, column: usize) {
    if key.chars().count() > MAX_KEY {
        out.push_str("? ");
        out.push_str(key);
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', column));
    } else {
        out.push_str(key);
    }
    out.push(':');
}

/// Goes to where the member or item number `at` begins: the first of those after a dash is on the dash's line.
fn begin(out: &mut String, column: usize, after: After, at: usize) {
    if at == 0 && after == After::Key {
        out.push('\n');
    }
    if at > 0 || after == After::Key {
        out.extend(std::iter::repeat_n(' ', column));
    }
}

enum Kind<'a> {
    Object(Vec<(String, &'a RawValue)>),
    List(Vec<&'a RawValue>),
    Scalar(String),
}

impl<'a> Kind<'a> {
    fn of(json: &'a str) -> Self {
        let json = json.trim();
        match json.as_bytes().first() {
            Some(b'{') => match Record::read(json).map(Record::into_members) {
                Some(members) if !members.is_empty() => Self::Object(members),
                _ => Self::Scalar(flow(json)),
            },
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(items) if !items.is_empty() => Self::List(items),
                _ => Self::Scalar(flow(json)),
            },
            // A string with an escape that is not a character stays as it was sent.
            Some(b'"') => {
                Self::Scalar(serde_json::from_str(json).map_or_else(|_| escaped(json), |text: String| string(&text)))
            }
            Some(b'-' | b'0'..=b'9') => Self::Scalar(number(json)),
            _ => Self::Scalar(json.to_owned()),
        }
    }
}

/// An empty object or list, or one that cannot be taken apart, as the JSON that it is, on one line.
fn flow(json: &str) -> String {
    match json.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() {
        2 => json.split_ascii_whitespace().collect(),
        // White space other than blanks is between tokens: in strings it is escaped.
        _ => escaped(json).replace(['\n', '\r', '\t'], " "),
    }
}

/// A number. One with an exponent has a point and a sign too, without which YAML 1.1 takes it for a string.
fn number(json: &str) -> String {
    let Some((digits, exponent)) = json.split_once(['e', 'E']) else { return json.to_owned() };
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['+', '-']) { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

/// A string, in double quotes unless it is plainly one.
pub(super) fn string(text: &str) -> String {
    // JSON's escapes are YAML's too.
    if is_plain(text) { text.to_owned() } else { escaped(&serde_json::to_string(text).unwrap_or_default()) }
}

/// JSON with escapes for those characters that YAML takes for line breaks or refuses, or that nobody sees.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        let is_refused =
            matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
        if is_refused || is_hidden(c) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a text without quotes is this string for every reader, also for those of YAML 1.1.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(|c| {
            c.is_ascii_alphanumeric()
                || matches!(c, ' ' | '_' | '-' | '.' | '/' | ':' | '?' | '=' | '&' | '%' | '+' | '@')
        })
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_block_style() {
        let json = r#"{"link_id":"spring-42","tags":["a","b c"],"metadata":{"n":1e400,"o":{},"l":[]},"rows":[{"a":1,"b":[2]},[3,4]],"none":null}"#;
        let wanted = "\
link_id: spring-42
tags:
  - a
  - b c
metadata:
  \"n\": 1.0e+400
  o: {}
  l: []
rows:
  - a: 1
    b:
      - 2
  - - 3
    - 4
none: null
";
        assert_eq!(document(json), wanted);
        assert_eq!(document("[]"), "[]\n");
        assert_eq!(document("\"x\""), "x\n");
        assert_eq!(item(r#"{"a":1,"b":{"c":2}}"#, 2), "  - a: 1\n    b:\n      c: 2\n");
    }

    #[test]
    fn strings_are_quoted_where_they_could_be_something_else() {
        for text in [
            "",
            " a",
            "a ",
            "a: b",
            "a:",
            "- a",
            "#a",
            "a #b",
            "true",
            "Yes",
            "NO",
            "null",
            "~",
            "1",
            "1.5",
            "0x1f",
            ".inf",
            "2026-11-20T09:30:00.000Z",
            "*a",
            "&a",
            "!a",
            "[a",
            "{a",
            "'a",
            "\"a",
            "%a",
            "@a",
            "`a",
            "a\nb",
            "é",
            "=",
            "<<",
            "?",
            "a, b",
            "+1",
        ] {
            let shown = string(text);
            assert!(shown.starts_with('"') && shown.ends_with('"'), "{shown}");
            assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), text);
        }
        for text in ["spring-42", "https://go.example.com/a?b=c&d=%20+1", "Buy now", "/path", "shop.example"] {
            assert_eq!(string(text), text);
        }
        assert_eq!(string("a\u{2028}b\u{feff}"), "\"a\\u2028b\\ufeff\"");
        assert_eq!(string("a\u{202e}b\u{200b}"), "\"a\\u202eb\\u200b\"");
        assert_eq!(string("👩\u{200d}👧"), "\"👩\u{200d}👧\"");
        assert_eq!(string("\u{7f}\u{85}\u{fffe}\u{ffff}"), "\"\\u007f\\u0085\\ufffe\\uffff\"");
        assert_eq!(document(r#"{"a":"\ud800"}"#), "a: \"\\ud800\"\n");
    }

    #[test]
    fn numbers_are_numbers_for_readers_of_yaml_1_1() {
        for (json, yaml) in [
            ("12345678901234567890", "12345678901234567890"),
            ("-0.10", "-0.10"),
            ("1e400", "1.0e+400"),
            ("1E5", "1.0e+5"),
            ("1.5e3", "1.5e+3"),
            ("-2.50e-7", "-2.50e-7"),
        ] {
            assert_eq!(document(json), format!("{yaml}\n"));
        }
    }

    /// An empty object in their place would be another value.
    #[test]
    fn objects_that_cannot_be_taken_apart_stay_json() {
        let json = "{\"a\":{\"\\ud800\":\n1},\"b\":{ },\"c\":[\n]}";
        assert_eq!(document(json), "a: {\"\\ud800\": 1}\nb: {}\nc: []\n");
    }

    #[test]
    fn long_keys_are_marked() {
        let (fits, long) = ("k".repeat(1024), "k".repeat(1025));
        let json = format!(r#"[{{"{fits}":1,"{long}":{{"a":2}},"b":3}}]"#);
        assert_eq!(document(&json), format!("- {fits}: 1\n  ? {long}\n  :\n    a: 2\n  b: 3\n"));
        assert_eq!(document(&format!(r#"{{"{long}":1}}"#)), format!("? {long}\n: 1\n"));
    }
}
