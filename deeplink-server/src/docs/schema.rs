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
    /// What restricts its values, as HTML.
    pub(super) limits: String,
    /// What a search looks at.
    pub(super) words: String,
}

/// An object that others refer to by its name.
pub(super) struct Object {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) fields: Vec<Field>,
    /// What a search looks at.
    pub(super) words: String,
}

/// What a search looks at in all of these fields.
pub(super) fn words<'a>(fields: impl IntoIterator<Item = &'a Field>) -> String {
    fields.into_iter().map(|field| field.words.as_str()).collect::<Vec<_>>().join(" ")
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
            limits: markdown::line(&self.limits(value, self.about(value)).join("; ")),
            words: self.words(name, value, self.about(value)),
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
        match kinds.len() {
            0 => "any".to_owned(),
            1..=3 => kinds.join(" or "),
            _ => kinds.join(", "),
        }
    }

    /// What a search looks at in a field or a parameter: its name, its values and its description.
    pub(super) fn words(self, name: &str, schema: &Value, about: &str) -> String {
        let mut words = vec![name];
        self.values(schema, &mut words);
        let about = about.replace('`', "");
        words.push(&about);
        words.join(" ")
    }

    /// Adds the words that a value can be.
    fn values<'v>(self, schema: &'v Value, values: &mut Vec<&'v str>)
    where
        'a: 'v,
    {
        values.extend(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let target = self.target(schema).map(|(_, target)| target).filter(|target| !is_object(target));
        for inner in alternatives(schema).chain(target).chain(schema.get("items")) {
            self.values(inner, values);
        }
    }

    /// What restricts the values of a schema, in Markdown, unless its description says so. The limits of an object are those of
    /// its fields.
    pub(super) fn limits(self, schema: &Value, about: &str) -> Vec<String> {
        let target = self.target(schema).map(|(_, target)| target).filter(|target| !is_object(target));
        let inner = alternatives(schema).chain(target).flat_map(|of| self.limits(of, about));
        let items = schema.get("items").into_iter().flat_map(|items| self.limits(items, about));
        restrictions(schema, about).chain(inner).chain(items.map(|limit| format!("each {limit}"))).collect()
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
            .map(|(name, schema)| {
                let fields = self.fields(schema);
                let words = format!("{} {}", self.about(schema).replace('`', ""), words(&fields));
                Object { name: name.to_owned(), about: markdown::text(self.about(schema)), fields, words }
            })
            .collect()
    }

    /// The example of a schema, or of the one that it refers to.
    pub(super) fn example(self, schema: &'a Value) -> Option<&'a Value> {
        let given = |of: &'a Value| of.get("example").or_else(|| of["examples"].get(0));
        given(schema).or_else(|| given(self.resolved(schema)))
    }
}

/// The restrictions that a schema or a parameter itself has, in Markdown, without the ranges that its description states.
pub(super) fn restrictions(part: &Value, about: &str) -> impl Iterator<Item = String> {
    let default = part.get("default").filter(|value| !value.is_null());
    let default =
        default.map(|value| format!("default `{}`", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    let pattern = part["pattern"].as_str().map(|pattern| format!("matches `{pattern}`"));
    let deprecated = (part["deprecated"] == true).then(|| "deprecated".to_owned());
    let range = |low, high, unit| range(part, about, low, high, unit);
    default
        .into_iter()
        .chain(range("minimum", "maximum", ""))
        .chain(range("minLength", "maxLength", " characters"))
        .chain(range("minItems", "maxItems", " items"))
        .chain(pattern)
        .chain(deprecated)
}

/// A restriction of a number, unless the description states it, which knows the unit better: the length of a URL is counted in
/// bytes. Every number that is counted is at least 0.
fn range(part: &Value, about: &str, low: &str, high: &str, unit: &str) -> Option<String> {
    let number = |name: &str| part.get(name).filter(|value| value.is_number());
    let (low, high) = (number(low).filter(|low| **low != 0 || number(high).is_some()), number(high));
    if states(about, high.or(low)?) {
        return None;
    }
    match (low.map(grouped), high.map(grouped)) {
        (Some(low), Some(high)) => Some(format!("{low} to {high}{unit}")),
        (Some(low), None) => Some(format!("at least {low}{unit}")),
        (None, Some(high)) => Some(format!("at most {high}{unit}")),
        (None, None) => None,
    }
}

/// Whether a text has a number, with or without commas, or as a word.
fn states(text: &str, number: &Value) -> bool {
    const WORDS: [&str; 11] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let digits = number.to_string();
    let word = number.as_u64().and_then(|number| WORDS.get(usize::try_from(number).ok()?));
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != ',');
    words.any(|found| found.replace(',', "") == digits || word.is_some_and(|word| found.trim_matches(',') == *word))
}

/// A number as texts have it: with a comma before every three digits.
fn grouped(number: &Value) -> String {
    let text = number.to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", &*text), |digits| ("-", digits));
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return text;
    }
    let with_comma = |(at, digit): (usize, char)| {
        let comma = (at > 0 && (digits.len() - at).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain([digit])
    };
    sign.chars().chain(digits.chars().enumerate().flat_map(with_comma)).collect()
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
            "Size": {"type": "string", "enum": ["s", "m", "l", "xl"]},
            "Sized": {"properties": {
                "id": {"type": ["string", "null"], "minLength": 2, "maxLength": 8, "pattern": "^[a-z]+$"},
                "count": {"type": "integer", "minimum": 0},
                "size": {"oneOf": [{"$ref": "#/components/schemas/Size"}, {"type": "null"}], "default": "m"},
                "tags": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 40}},
                "url": {"type": "string", "maxLength": 2048, "description": "A URL, at most 2,048 bytes."},
                "pages": {"type": "integer", "minimum": 1, "maximum": 2048, "description": "Up to 20480 or 2 are usual."},
                "amount": {"type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 100},
                "parts": {"type": "array", "maxItems": 5, "description": "The parts: at most five, in order."},
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

        let sized = schemas.fields(&all["Sized"]);
        let find = |name: &str| sized.iter().find(|field| field.name == name).expect("a field");
        assert_eq!(find("id").limits, "2 to 8 characters; matches <code>^[a-z]+$</code>");
        assert_eq!(find("count").limits, "");
        let values = "<code>s</code>, <code>m</code>, <code>l</code>, <code>xl</code> or null";
        assert_eq!((&*find("size").kind, &*find("size").limits), (values, "default <code>m</code>"));
        assert_eq!(find("size").words, "size s m l xl ");
        assert_eq!(find("tags").limits, "at most 3 items; each at most 40 characters");
        assert_eq!(find("url").limits, "", "the description states it, in bytes");
        assert_eq!(find("pages").limits, "1 to 2,048");
        assert_eq!(find("amount").limits, "-9,007,199,254,740,991 to 100");
        assert_eq!(find("parts").limits, "");
    }
}
