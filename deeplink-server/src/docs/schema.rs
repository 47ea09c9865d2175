//! The schemas of the OpenAPI document: their fields, the names of their types, and examples.

use serde_json::Value;

use super::markdown;

/// A field of an object, or a parameter.
pub(super) struct Field {
    pub(super) name: String,
    /// Where a parameter is, such as `path`; empty for a field.
    pub(super) place: String,
    /// The type, as HTML.
    pub(super) kind: String,
    pub(super) is_required: bool,
    /// The description, as HTML.
    pub(super) about: String,
}

/// An object that others refer to by its name.
pub(super) struct Object {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) fields: Vec<Field>,
}

/// The schemas of a document.
#[derive(Clone, Copy)]
pub(super) struct Schemas<'a>(pub(super) &'a Value);

impl<'a> Schemas<'a> {
    /// The name of the schema that another refers to, and the schema.
    fn target(self, schema: &Value) -> Option<(&'a str, &'a Value)> {
        let name = schema["$ref"].as_str()?.rsplit('/').next()?;
        let (name, target) = self.0.as_object()?.get_key_value(name)?;
        Some((name, target))
    }

    fn resolved(self, schema: &'a Value) -> &'a Value {
        self.target(schema).map_or(schema, |(_, target)| target)
    }

    /// The fields of an object.
    pub(super) fn fields(self, schema: &'a Value) -> Vec<Field> {
        let schema = self.resolved(schema);
        let parts = schema["allOf"].as_array().into_iter().flatten().flat_map(|part| self.fields(part));
        let properties = schema["properties"].as_object().into_iter().flatten();
        let required = schema["required"].as_array();
        let own = properties.map(|(name, value)| Field {
            name: name.clone(),
            place: String::new(),
            kind: self.kind(value),
            is_required: required.is_some_and(|names| names.iter().any(|of| of == name)),
            about: markdown::line(self.about(value)),
        });
        parts.chain(own).collect()
    }

    /// The description of a schema, of the one that it refers to, or of the only alternative besides null.
    fn about(self, schema: &'a Value) -> &'a str {
        let alternatives = alternatives(schema).map(|of| self.about(of));
        let own = schema["description"].as_str().into_iter().chain(alternatives).find(|text| !text.is_empty());
        own.or_else(|| self.target(schema)?.1["description"].as_str()).unwrap_or_default()
    }

    /// The name of a schema's type, as HTML.
    pub(super) fn kind(self, schema: &Value) -> String {
        if let Some((name, target)) = self.target(schema) {
            return if is_object(target) { format!("<a href=\"#{name}\">{name}</a>") } else { self.kind(target) };
        }
        let mut kinds: Vec<String> = alternatives(schema).map(|of| self.kind(of)).collect();
        if let Some(values) = schema["enum"].as_array() {
            kinds.extend(values.iter().filter_map(Value::as_str).map(|value| format!("<code>{value}</code>")));
        } else {
            kinds.extend(types(schema).map(|kind| match (kind, schema["format"].as_str()) {
                ("array", _) => format!("array of {}", self.kind(&schema["items"])),
                ("string", Some("date-time")) => "date and time".to_owned(),
                ("string", Some("uri")) => "URL".to_owned(),
                (kind, _) => kind.to_owned(),
            }));
        }
        if kinds.is_empty() { "any".to_owned() } else { kinds.join(" or ") }
    }

    /// Adds the names of the schemas that a part of the document refers to, directly or not.
    pub(super) fn collect(self, part: &'a Value, names: &mut Vec<&'a str>) {
        match part {
            Value::Object(members) => {
                if let Some((name, target)) = self.target(part)
                    && !names.contains(&name)
                {
                    names.push(name);
                    self.collect(target, names);
                }
                members.values().for_each(|value| self.collect(value, names));
            }
            Value::Array(items) => items.iter().for_each(|value| self.collect(value, names)),
            _ => {}
        }
    }

    /// The same for the fields of a body, which are shown where it is.
    pub(super) fn collect_inside(self, body: &'a Value, names: &mut Vec<&'a str>) {
        self.collect(self.resolved(body), names);
    }

    /// The objects among these schemas, in alphabetical order.
    pub(super) fn objects(self, mut names: Vec<&'a str>) -> Vec<Object> {
        names.sort_unstable();
        let found = names.into_iter().map(|name| (name, &self.0[name])).filter(|(_, schema)| is_object(schema));
        found
            .map(|(name, schema)| Object {
                name: name.to_owned(),
                about: markdown::text(self.about(schema)),
                fields: self.fields(schema),
            })
            .collect()
    }

    /// The example of a schema, or of the one that it refers to.
    pub(super) fn example(self, schema: &'a Value) -> Option<&'a Value> {
        let given = |of: &'a Value| of.get("example").or_else(|| of["examples"].get(0));
        given(schema).or_else(|| given(self.resolved(schema)))
    }
}

fn is_object(schema: &Value) -> bool {
    !schema["properties"].is_null() || !schema["allOf"].is_null()
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["oneOf", "anyOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten()
}

fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let several = schema["type"].as_array().into_iter().flatten();
    several.chain(std::iter::once(&schema["type"])).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_have_names_and_examples() {
        let item = json!({"$ref": "#/components/schemas/Item"});
        let color = json!({"oneOf": [{"$ref": "#/components/schemas/Color"}, {"type": "null"}]});
        let all = json!({
            "Color": {"type": "string", "enum": ["red", "blue"]},
            "Item": {"type": "object", "required": ["color", "size"], "examples": [{"color": "red"}], "properties": {
                "color": color, "size": {"type": ["integer", "null"]}, "parts": {"type": "array", "items": item},
            }},
            "Box": {"allOf": [item, {"properties": {"link_id": {"type": "string", "description": "An `ID`"}}}]},
        });
        let schemas = Schemas(&all);
        let fields = schemas.fields(&all["Box"]);
        let kinds: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.kind.as_str())).collect();
        assert_eq!(
            kinds,
            [
                ("color", "<code>red</code> or <code>blue</code> or null"),
                ("size", "integer or null"),
                ("parts", "array of <a href=\"#Item\">Item</a>"),
                ("link_id", "string"),
            ]
        );
        assert_eq!(fields.iter().map(|field| field.is_required).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!(fields[3].about, "An <code>ID</code>");
        assert_eq!(schemas.example(&item), Some(&json!({"color": "red"})));
        let mut names = Vec::new();
        schemas.collect(&all["Box"], &mut names);
        let objects = schemas.objects(names);
        assert_eq!(objects.iter().map(|object| object.name.as_str()).collect::<Vec<_>>(), ["Item"]);
    }
}
