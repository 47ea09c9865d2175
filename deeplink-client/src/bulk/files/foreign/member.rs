//! The members of another service's JSON objects, as if they were columns.

use serde_json::Value;

/// A member of another service's object.
pub(in super::super) struct Member {
    pub(in super::super) name: String,
    pub(in super::super) text: String,
    /// The values of a list.
    pub(in super::super) items: Vec<String>,
}

/// A member under its name; those of an object under `name.member`.
pub(in super::super) fn flatten(name: String, value: Value, values: &mut Vec<Member>) {
    match value {
        Value::Null => {}
        Value::String(text) => values.push(Member { name, text, items: Vec::new() }),
        Value::Object(members) => {
            members.into_iter().for_each(|(key, value)| flatten(format!("{name}.{key}"), value, values));
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(item).collect();
            values.push(Member { name, text: items.join(", "), items });
        }
        other => values.push(Member { name, text: other.to_string(), items: Vec::new() }),
    }
}

/// An element of a list as text: the name of an object, which Dub's tags are, or else the whole.
fn item(item: &Value) -> String {
    let name = item.get("name").unwrap_or(item);
    name.as_str().map_or_else(|| name.to_string(), str::to_owned)
}
