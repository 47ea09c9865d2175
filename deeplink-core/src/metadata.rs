//! Metadata: a JSON object kept as its own text. Key order, the digits of numbers and escapes stay as they were sent;
//! only whitespace between tokens is dropped.

use std::collections::HashSet;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{ErrorCode, Invalid};
use crate::text::find_control;

/// Maximum bytes of metadata, counted on the text without whitespace.
pub const MAX_BYTES: usize = 4_096;
/// Maximum keys of the top-level object.
pub const MAX_KEYS: usize = 64;
/// Deepest nesting of any JSON the service takes.
pub const MAX_DEPTH: usize = 32;

/// A JSON object of at most 4,096 bytes and 64 keys, returned as it was sent except for whitespace between
/// tokens.
// What was parsed may be any JSON value until `Metadata::check` has accepted it.
#[derive(Clone, PartialEq, Eq)]
pub struct Metadata(Box<str>);

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Metadata {}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Metadata {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        let description = "A JSON object of at most 4,096 bytes and 64 keys, returned as it was sent except for whitespace between tokens.";
        any_object(utoipa::openapi::schema::Type::Object.into(), description)
    }
}

/// The schema of an object with any members. Without `additionalProperties`, generators assume an object without
/// members.
#[cfg(feature = "openapi")]
pub(crate) fn any_object(
    kind: utoipa::openapi::schema::SchemaType,
    description: &str,
) -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder};
    let any = AdditionalProperties::FreeForm(true);
    ObjectBuilder::new().schema_type(kind).description(Some(description)).additional_properties(Some(any)).into()
}

impl Metadata {
    /// Takes any JSON text; whitespace between tokens is dropped.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(json).map(|raw| Self(compact(raw.get()).into()))
    }

    /// Takes text that [`Metadata::as_str`] returned earlier, such as stored text.
    pub fn from_stored(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The members of both objects, in their order; those of `other` replace members of the same name. Fails unless both
    /// are objects.
    pub fn merged(&self, other: &Self) -> Result<Self, serde_json::Error> {
        let [Members(mut all), Members(others)] = [serde_json::from_str(&self.0)?, serde_json::from_str(&other.0)?];
        for (name, value) in others {
            match all.iter_mut().find(|(same, _)| *same == name) {
                Some((_, slot)) => *slot = value,
                None => all.push((name, value)),
            }
        }
        let member =
            |(name, value): &(String, &RawValue)| Ok(format!("{}:{}", serde_json::to_string(name)?, value.get()));
        let members: Vec<String> = all.iter().map(member).collect::<Result<_, serde_json::Error>>()?;
        Ok(Self(format!("{{{}}}", members.join(",")).into()))
    }

    /// The rules for what is stored: an object of at most [`MAX_KEYS`] keys and [`MAX_BYTES`] bytes, no key twice in
    /// any object, no control characters but TAB, LF and CR inside values.
    pub fn check(&self) -> Result<(), Invalid> {
        let wrong = |message: String| Invalid::field(ErrorCode::InvalidMetadata, "metadata", message);
        if !self.0.starts_with('{') {
            return Err(wrong("metadata must be a JSON object".into()));
        }
        if self.0.len() > MAX_BYTES {
            return Err(wrong(format!("metadata must be at most {MAX_BYTES} bytes (currently {})", self.0.len())));
        }
        let keys = Walk { text: &self.0, at: 0 }.value(1).map_err(|fault| match fault {
            Fault::Control => wrong("metadata contains a control character".into()),
            Fault::NotText => wrong("metadata contains an escape sequence that is not a character".into()),
            Fault::Duplicate(key) => Invalid::field(
                ErrorCode::BadRequest,
                "metadata",
                format!("metadata contains the duplicate key \"{}\"", key.escape_debug()),
            ),
            Fault::Deep => Invalid::field(
                ErrorCode::BadRequest,
                "metadata",
                format!("metadata is nested deeper than {MAX_DEPTH} levels"),
            ),
        })?;
        if keys > MAX_KEYS {
            return Err(wrong(format!("metadata must have at most {MAX_KEYS} keys (currently {keys})")));
        }
        Ok(())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(compact(raw.get()).into()))
    }
}

/// The members of an object, in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

/// JSON text without the whitespace between its tokens.
fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut inside, mut escaped) = (false, false);
    for c in json.chars() {
        if inside {
            inside = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if matches!(c, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            inside = c == '"';
        }
        out.push(c);
    }
    out
}

/// How deeply JSON text nests, without parsing it: enough to refuse hostile input before a parser recurses.
pub fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut inside, mut escaped) = (0_usize, 0, false, false);
    for &byte in json {
        if inside {
            inside = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => inside = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

enum Fault {
    Control,
    NotText,
    Duplicate(String),
    Deep,
}

/// Walks over compact, well-formed JSON.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl Walk<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Reads one value; the result is the number of its own keys, 0 for all but objects.
    fn value(&mut self, depth: usize) -> Result<usize, Fault> {
        match self.peek() {
            b'{' | b'[' if depth > MAX_DEPTH => Err(Fault::Deep),
            b'{' => self.object(depth),
            b'[' => {
                self.at += 1;
                while self.peek() != b']' {
                    self.value(depth + 1)?;
                    self.at += usize::from(self.peek() == b',');
                }
                self.at += 1;
                Ok(0)
            }
            b'"' => self.string(true).map(|_| 0),
            _ => {
                while !matches!(self.peek(), b',' | b']' | b'}' | 0) {
                    self.at += 1;
                }
                Ok(0)
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<usize, Fault> {
        let mut keys = HashSet::new();
        self.at += 1;
        while self.peek() != b'}' {
            let key = self.string(false)?;
            self.at += 1;
            self.value(depth + 1)?;
            self.at += usize::from(self.peek() == b',');
            if let Some(twice) = keys.replace(key) {
                return Err(Fault::Duplicate(twice));
            }
        }
        self.at += 1;
        Ok(keys.len())
    }

    fn string(&mut self, prose: bool) -> Result<String, Fault> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += 1;
        while self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
            if self.at >= bytes.len() {
                return Err(Fault::NotText);
            }
        }
        self.at += 1;
        let decoded: String = serde_json::from_str(&self.text[start..self.at]).map_err(|_| Fault::NotText)?;
        if find_control(&decoded, prose).is_some() { Err(Fault::Control) } else { Ok(decoded) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(json: &str) -> Option<ErrorCode> {
        Metadata::parse(json).expect("JSON").check().err().map(|invalid| invalid.code)
    }

    #[test]
    fn merged_metadata_keeps_order_and_digits() {
        let read = |text: &str| Metadata::parse(text).expect("JSON");
        for (one, other, both) in [
            (
                r#"{"a":1.50,"b":[1]}"#,
                r#"{"b":{"x":1e400},"c":"\u00e9"}"#,
                r#"{"a":1.50,"b":{"x":1e400},"c":"\u00e9"}"#,
            ),
            ("{}", r#"{"a\"b":1}"#, r#"{"a\"b":1}"#),
            (r#"{"a":null}"#, "{}", r#"{"a":null}"#),
        ] {
            assert_eq!(read(one).merged(&read(other)).expect("objects").as_str(), both);
        }
        assert!(read("{}").merged(&read("[]")).is_err());
    }

    #[test]
    fn text_is_kept_but_for_white_space() {
        for (sent, kept) in [
            (r#"{ "b" : 1e400, "a" : [ 1.50, -0 ] }"#, r#"{"b":1e400,"a":[1.50,-0]}"#),
            (r#"{"s":" a \" b ","e":"\u00e9\/"}"#, r#"{"s":" a \" b ","e":"\u00e9\/"}"#),
            ("{}", "{}"),
        ] {
            let metadata = Metadata::parse(sent).expect("JSON");
            assert_eq!(metadata.as_str(), kept);
            assert_eq!(serde_json::to_string(&metadata).expect("JSON"), kept);
            assert_eq!(metadata.check(), Ok(()));
        }
    }

    #[test]
    fn each_rule_has_its_code() {
        for text in ["[]", "1", "\"x\"", "true"] {
            assert_eq!(code(text), Some(ErrorCode::InvalidMetadata), "{text}");
        }
        for text in [
            r#"{"a\u0000":1}"#,
            r#"{"a":"\u001b"}"#,
            r#"{"a":"\u0085"}"#,
            r#"{"a\n":1}"#,
            r#"{"a":["\u007f"]}"#,
            r#"{"a":"\ud800"}"#,
        ] {
            assert_eq!(code(text), Some(ErrorCode::InvalidMetadata), "{text}");
        }
        assert_eq!(code(r#"{"a":"line\nline\ttab\r"}"#), None);
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, r#"{"x":{"a":1,"a":2}}"#, r#"{"x":[{"a":1,"a":2}]}"#]
        {
            assert_eq!(code(text), Some(ErrorCode::BadRequest), "{text}");
        }
        let nested = |levels: usize| format!("{}{}", "{\"a\":".repeat(levels - 1) + "{}", "}".repeat(levels - 1));
        assert_eq!(code(&nested(MAX_DEPTH)), None);
        assert_eq!(code(&nested(MAX_DEPTH + 1)), Some(ErrorCode::BadRequest));
    }

    #[test]
    fn sizes_are_counted_on_the_compact_text() {
        let sized = |bytes: usize| format!("{{\"k\":\"{}\"}}", "x".repeat(bytes - 8));
        assert_eq!(code(&sized(MAX_BYTES)), None);
        assert_eq!(code(&sized(MAX_BYTES).replace(':', " : ")), None);
        assert_eq!(code(&sized(MAX_BYTES + 1)), Some(ErrorCode::InvalidMetadata));
        let keyed =
            |keys: usize| format!("{{{}}}", (0..keys).map(|k| format!("\"k{k}\":0")).collect::<Vec<_>>().join(","));
        assert_eq!(code(&keyed(MAX_KEYS)), None);
        assert_eq!(code(&keyed(MAX_KEYS + 1)), Some(ErrorCode::InvalidMetadata));
    }

    #[test]
    fn depth_ignores_brackets_in_strings() {
        assert_eq!(depth(br#"{"a":"[[[[","b":[1,[2]]}"#), 3);
        assert_eq!(depth(b"1"), 0);
        assert_eq!(depth(br#""\"[[""#), 0);
    }

    proptest::proptest! {
        #[test]
        fn any_json_object_survives(keys in proptest::collection::hash_map("[a-zA-Z \\\\\"é]{0,6}", proptest::num::i64::ANY, 0..10)) {
            let text = serde_json::to_string_pretty(&keys).expect("JSON");
            let metadata = Metadata::parse(&text).expect("JSON");
            proptest::prop_assert_eq!(metadata.check(), Ok(()));
            let back: std::collections::HashMap<String, i64> = serde_json::from_str(metadata.as_str()).expect("JSON");
            proptest::prop_assert_eq!(back, keys);
        }
    }
}
