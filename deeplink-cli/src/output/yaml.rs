//! JSON as YAML, in block style. Every value is the one in the JSON: numbers keep their digits, and a string is quoted
//! unless no reader of YAML could take it for anything else.

use serde_json::value::RawValue;

use super::Record;

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
                out.push_str(&string(name));
                out.push(':');
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
                _ => Self::Scalar("{}".to_owned()),
            },
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(items) if !items.is_empty() => Self::List(items),
                _ => Self::Scalar("[]".to_owned()),
            },
            // A string with an escape that is not a character stays as it was sent.
            Some(b'"') => {
                Self::Scalar(serde_json::from_str(json).map_or_else(|_| json.to_owned(), |text: String| string(&text)))
            }
            _ => Self::Scalar(json.to_owned()),
        }
    }
}

/// A string, in double quotes unless it is plainly one.
fn string(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    // JSON's escapes are YAML's too. These characters are line breaks and a byte order mark in YAML.
    let quoted = serde_json::to_string(text).unwrap_or_default();
    quoted.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029").replace('\u{feff}', "\\ufeff")
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
  \"n\": 1e400
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
        assert_eq!(document(r#"{"a":"\ud800"}"#), "a: \"\\ud800\"\n");
    }
}
