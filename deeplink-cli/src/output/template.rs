//! `--render`: a template in the language of Jinja for every JSON document that is printed.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, escape_formatter};
use serde_json::json;

use crate::error::{Failure, Outcome};
use crate::escape;
use crate::exit::Exit;

/// The template's name; its ending would decide on escapes, and it has none.
const NAME: &str = "template";

/// A template that was read.
pub(crate) struct Template(Environment<'static>);

impl Template {
    /// Reads a template. The failure says where it is wrong.
    pub(super) fn read(text: &str) -> Outcome<Self> {
        let mut environment = Environment::new();
        // A field that does not exist is an error, unless the template only asks for it.
        environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
        environment.set_formatter(
            |out, state, value| {
                if value.is_none() { Ok(()) } else { escape_formatter(out, state, value) }
            },
        );
        environment.add_template_owned(NAME, text.to_owned()).map_err(|error| wrong(text, &error))?;
        let template = Self(environment);
        template.try_names().map_err(|error| wrong(text, &error))?;
        Ok(template)
    }

    /// Finds unknown filters, which are otherwise found only when a record arrives.
    fn try_names(&self) -> Result<(), Error> {
        let mut trial = self.0.clone();
        trial.set_undefined_behavior(UndefinedBehavior::Chainable);
        match trial.get_template(NAME)?.render(Value::from(Serde(json!({})))) {
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
        let failed = |why: &str| Failure::new(Exit::Failure, format!("--render: {}", escape::one_line(why)));
        let document: serde_json::Value = serde_json::from_str(json).map_err(|error| failed(&error.to_string()))?;
        let document = if document.is_object() { document } else { json!({ "items": document }) };
        let rendered = self.0.get_template(NAME).and_then(|template| template.render(Value::from(Serde(document))));
        let mut text = rendered.map_err(|error| failed(&described(&error)))?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
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
        assert_eq!(render("{{ metadata.a | upper }} {{ metadata | tojson }}", json), "< {\"z\":1,\"a\":\"\\u003c\"}\n");
        assert_eq!(render("{% if none_such %}x{% else %}y{% endif %}", json), "y\n");
        assert_eq!(render("{{ items | length }}", "[1,2]"), "2\n");
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
