//! `--render`: a template in the language of Jinja for every JSON document that is printed.

use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, escape_formatter};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use super::Record;
use super::record::called;
use crate::error::{Failure, Outcome};
use crate::escape;
use crate::exit::Exit;

/// The template's name; its ending would decide on escapes, and it has none.
const NAME: &str = "template";
/// How much a rendering may cost: a template that costs more takes many seconds.
const FUEL: u64 = 200_000_000;
/// The same for the trial before a request.
const TRIAL_FUEL: u64 = 1_000_000;

/// A template that was read.
pub(crate) struct Template {
    environment: Environment<'static>,
    text: String,
}

impl Template {
    /// Reads a template. The failure says where it is wrong.
    pub(super) fn read(text: &str) -> Outcome<Self> {
        let mut environment = Environment::new();
        // A field that does not exist is an error, unless the template only asks for it.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.add_global("null", ());
        environment.set_formatter(|out, state, value| match value.kind() {
            ValueKind::None => Ok(()),
            ValueKind::Bool | ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
                let json = serde_json::to_string(value);
                let json = json.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
                out.write_str(&json).map_err(Error::from)
            }
            _ => escape_formatter(out, state, value),
        });
        environment.set_fuel(Some(FUEL));
        environment.add_template_owned(NAME, text.to_owned()).map_err(|error| wrong(text, &error))?;
        let template = Self { environment, text: text.to_owned() };
        template.try_names().map_err(|error| wrong(text, &error))?;
        Ok(template)
    }

    /// Finds unknown filters, which are otherwise found only when a record arrives.
    fn try_names(&self) -> Result<(), Error> {
        let mut trial = self.environment.clone();
        trial.set_undefined_behavior(UndefinedBehavior::Chainable);
        trial.set_fuel(Some(TRIAL_FUEL));
        match trial.get_template(NAME)?.render(Value::from(Serde(Document("{}")))) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// The text for a JSON document: its members are the template's variables. An array is the variable `items`.
    pub(super) fn render(&self, json: &str) -> Outcome<String> {
        let variables = Value::from(Serde(Document(json)));
        let rendered = self.environment.get_template(NAME).and_then(|template| template.render(variables));
        let mut text = rendered.map_err(|error| self.failed(json, &error))?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }

    /// The failure on a document.
    fn failed(&self, json: &str, error: &Error) -> Failure {
        let message = format!("--render: {}", described(error));
        let failure = Failure::new(Exit::Failure, format!("{}{}", escape::one_line(&message), called(json)));
        if error.kind() != ErrorKind::UndefinedError {
            return failure;
        }
        let is_name = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
        let name = error.range().and_then(|range| self.text.get(range)).filter(is_name).unwrap_or("field");
        failure.hint(format!("for a field that only some records have: {{{{ {name} or '' }}}}"))
    }
}

/// A JSON document as the variables of a template.
struct Document<'a>(&'a str);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = self.0.trim();
        if json.starts_with('{') {
            return Node(json).serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("items", &Node(json))?;
        map.end()
    }
}

/// A JSON value. A number that a template cannot hold is its text, and so is what cannot be taken apart.
struct Node<'a>(&'a str);

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = self.0.trim();
        match json.as_bytes().first() {
            Some(b'{') => match Record::read(json) {
                Some(record) => {
                    let members = record.into_members();
                    serializer.collect_map(members.iter().map(|(name, value)| (name, Node(value.get()))))
                }
                None => serializer.serialize_str(json),
            },
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(items) => serializer.collect_seq(items.iter().map(|item| Node(item.get()))),
                Err(_) => serializer.serialize_str(json),
            },
            Some(b'"') => match serde_json::from_str::<String>(json) {
                Ok(text) => serializer.serialize_str(&text),
                Err(_) => serializer.serialize_str(json),
            },
            Some(b'n') => serializer.serialize_unit(),
            Some(b't') => serializer.serialize_bool(true),
            Some(b'f') => serializer.serialize_bool(false),
            _ => number(json, serializer),
        }
    }
}

fn number<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    /// Decimal digits that every floating-point number keeps.
    const DIGITS: usize = 15;
    if let Ok(number) = json.parse::<i64>() {
        return serializer.serialize_i64(number);
    }
    if let Ok(number) = json.parse::<u64>() {
        return serializer.serialize_u64(number);
    }
    let digits = json.split(['e', 'E']).next().unwrap_or_default().bytes().filter(u8::is_ascii_digit);
    let significant = digits.skip_while(|digit| *digit == b'0').count();
    match json.parse::<f64>() {
        Ok(number) if significant <= DIGITS && number.is_finite() && (number != 0.0 || significant == 0) => {
            serializer.serialize_f64(number)
        }
        _ => serializer.serialize_str(json),
    }
}

/// A failure at a part of the template.
fn wrong(text: &str, error: &Error) -> Failure {
    let before = error.range().and_then(|range| text.get(..range.start));
    let place = match (before, error.line()) {
        (Some(before), _) => {
            let (line, last) = (before.matches('\n').count() + 1, before.rsplit('\n').next().unwrap_or_default());
            format!(" at {line}:{}", last.chars().count() + 1)
        }
        (None, Some(line)) => format!(" on line {line}"),
        (None, None) => String::new(),
    };
    Failure::usage(format!("--render: {}{place} of \"{}\"", described(error), escape::one_line(text)))
        .hint("for example, --render '{{ link_id }} {{ url }}'")
}

fn described(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Stop;

    fn render(text: &str, json: &str) -> String {
        let template = Template::read(text).unwrap_or_else(|stop| panic!("{text}: {stop:?}"));
        template.render(json).unwrap_or_else(|stop| panic!("{text}: {stop:?}"))
    }

    #[test]
    fn members_are_variables() {
        let json =
            r#"{"url":"https://go.example.com/a?b=1&c","name":null,"tags":["a","b"],"metadata":{"z":1,"a":"<"}}"#;
        assert_eq!(render("{{ url }}", json), "https://go.example.com/a?b=1&c\n");
        assert_eq!(render("{{ name }}|{{ name or 'none' }}", json), "|none\n");
        assert_eq!(render("{% for tag in tags %}{{ tag }}\n{% endfor %}", json), "a\nb\n");
        assert_eq!(
            render("{{ metadata.a | upper }} {{ metadata | tojson }}", json),
            "< {\"z\": 1, \"a\": \"\\u003c\"}\n"
        );
        assert_eq!(render("{% if none_such %}x{% else %}y{% endif %}", json), "y\n");
        assert_eq!(render("{{ metadata }} {{ tags }}", json), "{\"z\":1,\"a\":\"<\"} [\"a\",\"b\"]\n");
        assert_eq!(render("{{ [true, null, 'a'] }}", json), "[true,null,\"a\"]\n");
        assert_eq!(render("{{ name == null }} {{ url == null }}", json), "true false\n");
        assert_eq!(render("{{ items | length }}", "[1,2]"), "2\n");
    }

    #[test]
    fn numbers_keep_their_digits() {
        let json = r#"{"url":"x","m":{"a":1e400,"b":123456789012345678901234567890,"c":18446744073709551615,"d":-0.5,"e":1e-400,"f":0.0,"g":0.12345678901234567890}}"#;
        assert_eq!(render("{{ url }} {{ m.a }} {{ m.b }}", json), "x 1e400 123456789012345678901234567890\n");
        assert_eq!(render("{{ m.c }} {{ m.d - 1 }} {{ m.e }}", json), "18446744073709551615 -1.5 1e-400\n");
        assert_eq!(render("{{ m.f }} {{ m.g }}", json), "0.0 0.12345678901234567890\n");
        let odd = r#"{"url":"x","m":{"\ud800":1},"s":"\udfff"}"#;
        assert_eq!(render("{{ url }} {{ m }} {{ s }}", odd), "x {\"\\ud800\":1} \"\\udfff\"\n");
    }

    #[test]
    fn a_field_that_a_record_lacks_is_named() {
        let template = Template::read("{{ metadata.campaign }}").unwrap_or_else(|stop| panic!("{stop:?}"));
        let json = r#"{"link_id":"spring-42","metadata":{}}"#;
        let Err(Stop::Failed(failure)) = template.render(json) else { panic!("it was rendered") };
        assert!(failure.message.contains("link_id spring-42"), "{}", failure.message);
        assert!(failure.hint.as_deref().is_some_and(|hint| hint.contains(" or '' }}")), "{failure:?}");
        assert_eq!(render("{{ metadata.campaign or '' }}", json), "\n");
    }

    /// Otherwise it would run for hours.
    #[test]
    fn an_endless_template_fails() {
        let text = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
        let mut template = Template::read(text).unwrap_or_else(|stop| panic!("{stop:?}"));
        template.environment.set_fuel(Some(TRIAL_FUEL));
        let Err(Stop::Failed(failure)) = template.render("{}") else { panic!("it was rendered") };
        assert!(failure.message.contains("fuel"), "{}", failure.message);
    }

    #[test]
    fn a_wrong_template_says_where() {
        for (text, place) in
            [("{{ url", "1:"), ("a\n{% if %}", "2:"), ("{{ url | nothing }}", "nothing"), ("{% nothing %}", "1:")]
        {
            let Err(Stop::Failed(failure)) = Template::read(text) else { panic!("{text} was read") };
            assert!(failure.exit == Exit::Usage && failure.message.contains(place), "{text}: {}", failure.message);
        }
    }

    #[test]
    fn an_unknown_field_ends_the_command() {
        let Err(Stop::Failed(failure)) = Template::read("{{ nothing }}").and_then(|template| template.render("{}"))
        else {
            panic!("it was rendered")
        };
        assert!(failure.exit == Exit::Failure && failure.message.starts_with("--render: "), "{}", failure.message);
    }
}
