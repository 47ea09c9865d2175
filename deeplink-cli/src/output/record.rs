//! JSON objects with their fields in order and their values as raw text: the service's answer is printed unchanged,
//! including the digits of numbers and unknown fields.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON object, not parsed any deeper.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Record<'a> {
    /// Reads an object; anything else gives `None`.
    pub(crate) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The value of a field; `a.b` reaches into an object, `a.last.b` into the last one of a list.
    pub(crate) fn get(&self, path: &str) -> Option<&'a RawValue> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let value = self.0.iter().find(|(field, _)| field == name).map(|(_, value)| *value)?;
        match rest {
            Some(rest) if value.get().starts_with('[') => {
                Record::read(self.items(name).last()?.get())?.get(rest.strip_prefix("last.")?)
            }
            Some(rest) => Record::read(value.get())?.get(rest),
            None => Some(value),
        }
    }

    /// A field's value as a cell: the text of a string, the JSON of everything else, nothing for null.
    pub(crate) fn cell(&self, path: &str) -> Option<String> {
        self.get(path).and_then(cell)
    }

    /// The object without one of its fields.
    pub(crate) fn without(&self, name: &str) -> String {
        let others = self.0.iter().filter(|(field, _)| field != name);
        let members: Vec<String> = others
            .map(|(field, value)| format!("{}:{}", serde_json::to_string(field).unwrap_or_default(), value.get()))
            .collect();
        format!("{{{}}}", members.join(","))
    }

    /// The object with other JSON as the value of a field that it has.
    pub(crate) fn with(&self, name: &str, json: &str) -> String {
        let member = |(field, value): &(String, &'a RawValue)| {
            let value = if field == name { json } else { value.get() };
            format!("{}:{value}", serde_json::to_string(field).unwrap_or_default())
        };
        format!("{{{}}}", self.0.iter().map(member).collect::<Vec<_>>().join(","))
    }

    /// All fields, in order.
    pub(super) fn into_members(self) -> Vec<(String, &'a RawValue)> {
        self.0
    }

    /// The name of the first field that is a list.
    pub(crate) fn first_list(&self) -> Option<String> {
        self.0.iter().find(|(_, value)| value.get().starts_with('[')).map(|(name, _)| name.clone())
    }

    /// The items of a field that is a list.
    pub(crate) fn items(&self, field: &str) -> Vec<&'a RawValue> {
        self.get(field).and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }
}

/// A value as a cell.
pub(crate) fn cell(value: &RawValue) -> Option<String> {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'n') | None => None,
        // An escape that is not a character (a lone surrogate) is shown as it was sent.
        Some(b'"') => serde_json::from_str(text).ok().or_else(|| Some(text.to_owned())),
        Some(_) => Some(text.to_owned()),
    }
}

/// What a record is called in an error, such as ` (link_id spring-42)`: its ID or, if it has none, its first field. Nothing
/// for a whole response, which begins with a list.
pub(super) fn called(json: &str) -> String {
    let members = Record::read(json).unwrap_or_default().into_members();
    let named = members.iter().find(|(name, _)| ["link_id", "id"].contains(&&**name)).or(members.first());
    let simple = named.filter(|(_, value)| !value.get().starts_with(['[', '{']));
    let text = simple.and_then(|(name, value)| Some(format!(" ({name} {})", cell(value)?)));
    text.map_or_else(String::new, |text| crate::escape::one_line(&text).into_owned())
}

impl<'de: 'a, 'a> Deserialize<'de> for Record<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Record<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push(entry);
                }
                Ok(Record(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// A JSON object with its members in this order.
pub(crate) fn object(members: &[(&str, serde_json::Value)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// JSON text with two spaces of indent for each level. Only whitespace between tokens changes.
pub(crate) fn indent(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut inside, mut escaped) = (0_usize, false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if inside {
            inside = escaped || c != '"';
            escaped = !escaped && c == '\\';
            out.push(c);
            continue;
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if chars.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    out.extend(chars.next());
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                inside = c == '"';
                out.push(c);
            }
        }
    }
    out
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text_and_order() {
        let record = Record::read(r#"{"b":1e400,"a":{"x":{"y":"é\n"}},"n":null,"l":[1,"2"]}"#).expect("an object");
        assert_eq!(record.cell("b").as_deref(), Some("1e400"));
        assert_eq!(record.cell("a.x.y").as_deref(), Some("é\n"));
        assert_eq!(record.cell("n"), None);
        assert_eq!(record.cell("a.x.z"), None);
        assert_eq!(record.items("l").len(), 2);
        let list = Record::read(r#"{"l":[{"a":1},{"a":{"b":2}}],"e":[]}"#).expect("an object");
        assert_eq!(list.cell("l.last.a.b").as_deref(), Some("2"));
        assert_eq!((list.cell("l.a"), list.cell("e.last.a"), list.cell("l.last.x")), (None, None, None));
        assert_eq!(record.without("a"), r#"{"b":1e400,"n":null,"l":[1,"2"]}"#);
        assert_eq!(record.with("a", "[]"), r#"{"b":1e400,"a":[],"n":null,"l":[1,"2"]}"#);
        assert!(Record::read("[1]").is_none() && Record::read("x").is_none());
    }

    #[test]
    fn indenting_changes_white_space_only() {
        assert_eq!(
            indent(r#"{"a":[1, {"b":"x, {y}\""}],"e":{ },"l":[]}"#),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x, {y}\\\"\"\n    }\n  ],\n  \"e\": {},\n  \"l\": []\n}"
        );
    }
}
