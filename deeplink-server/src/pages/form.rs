//! Forms: what a browser sends, the fields that a page shows, and what is wrong with one of them.

use std::borrow::Cow;

use askama::Template;
use axum::extract::{FromRequest, Request};
use deeplink_core::error::ErrorCode;
use http::StatusCode;

use super::around;
use super::frame::{Frame, Outcome};
use super::person::Person;
use crate::error::ApiError;
use crate::http::extract::form_body;
use crate::http::once::Once;
use crate::state::{App, Shared};

/// Most fields of a form; ours have far fewer.
const MOST_FIELDS: usize = 100;

/// A form as it was sent (`application/x-www-form-urlencoded`), at most 64 KiB.
#[derive(Debug, Default)]
pub(super) struct Form {
    /// White space at the ends is taken off; lines end as they do here.
    pairs: Vec<(String, String)>,
}

impl Form {
    /// A form with these values, as it is shown before anybody has filled it in.
    pub(super) fn with<'a>(values: impl IntoIterator<Item = (&'static str, Option<&'a str>)>) -> Self {
        let filled = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Self { pairs: filled.collect() }
    }

    /// The value of a field; blank ones are empty.
    pub(super) fn value(&self, name: &str) -> &str {
        self.pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The value of a field that was filled in.
    pub(super) fn filled(&self, name: &str) -> Option<String> {
        Some(self.value(name)).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// Whether it has a field, filled in or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The names of its fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(name, _)| name.as_str())
    }

    /// The whole, to tell one form from another.
    pub(super) fn whole(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.pairs).finish()
    }

    fn of(sent: &[(String, String)]) -> Result<Self, ApiError> {
        let mut form = Self::default();
        for (name, value) in sent {
            if form.pairs.len() == MOST_FIELDS || form.pairs.iter().any(|(known, _)| known == name) {
                return Err(ApiError::bad_request("the form has a field twice, or too many"));
            }
            form.pairs.push((name.clone(), value.replace("\r\n", "\n").trim().to_owned()));
        }
        Ok(form)
    }
}

impl FromRequest<Shared> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, ApiError> {
        Self::of(form_body(request).await?.pairs())
    }
}

/// How a field is filled in.
pub(super) enum Kind {
    /// One line, as an input of this type.
    Line(&'static str),
    /// Several lines.
    Area,
    /// A box to tick; ticked it is sent as `yes`, otherwise not at all.
    Tick,
    /// One of these: value and what people read.
    Choice(Vec<(Cow<'static, str>, Cow<'static, str>)>),
}

/// A field of a form as a page shows it.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    pub(super) kind: Kind,
    pub(super) value: String,
    pub(super) error: Option<String>,
    pub(super) required: bool,
    /// Most characters; 0 = the browser sets no limit.
    pub(super) longest: usize,
    pub(super) autocomplete: &'static str,
    /// An example, where the form of the value is not plain.
    pub(super) example: &'static str,
    pub(super) focused: bool,
}

impl Field {
    /// A field that takes one line of text.
    pub(super) fn line(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self {
            name,
            label,
            hint,
            kind: Kind::Line("text"),
            value: String::new(),
            error: None,
            required: false,
            longest: 0,
            autocomplete: "off",
            example: "",
            focused: false,
        }
    }

    /// A field that takes an address.
    pub(super) fn address(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        // A browser's own check of addresses would refuse what is fine here, and say why in its own words.
        Self { kind: Kind::Line("text"), longest: 2_048, ..Self::line(name, label, hint) }
    }

    /// A field that takes a mail address.
    pub(super) fn mail(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self { kind: Kind::Line("email"), longest: 254, ..Self::line(name, label, hint) }
    }

    /// A field that takes several lines.
    pub(super) fn area(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self { kind: Kind::Area, ..Self::line(name, label, hint) }
    }

    /// A box to tick.
    pub(super) fn tick(name: &'static str, label: &'static str) -> Self {
        Self { kind: Kind::Tick, ..Self::line(name, label, "") }
    }

    /// A field whose value is one of a few.
    pub(super) fn choice<V: Into<Cow<'static, str>>, L: Into<Cow<'static, str>>>(
        name: &'static str,
        label: &'static str,
        hint: &'static str,
        choices: impl IntoIterator<Item = (V, L)>,
    ) -> Self {
        let choices = choices.into_iter().map(|(value, label)| (value.into(), label.into())).collect();
        Self { kind: Kind::Choice(choices), ..Self::line(name, label, hint) }
    }

    pub(super) fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(super) fn up_to(mut self, characters: usize) -> Self {
        self.longest = characters;
        self
    }

    pub(super) fn such_as(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    pub(super) fn completed_by(mut self, autocomplete: &'static str) -> Self {
        self.autocomplete = autocomplete;
        self
    }

    /// The field's id in the page.
    pub(super) fn id(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// Ids of the texts that belong to the field, for who cannot see where they stand.
    pub(super) fn described_by(&self) -> Option<String> {
        let id = self.id();
        let hint = (!self.hint.is_empty()).then(|| format!("{id}-hint"));
        let error = self.error.is_some().then(|| format!("{id}-error"));
        let both: Vec<String> = hint.into_iter().chain(error).collect();
        (!both.is_empty()).then(|| both.join(" "))
    }
}

/// Fields that belong together.
pub(super) struct Group {
    /// Empty where the form is one group.
    pub(super) legend: &'static str,
    pub(super) hint: &'static str,
    pub(super) fields: Vec<Field>,
}

impl Group {
    pub(super) fn of(legend: &'static str, hint: &'static str, fields: Vec<Field>) -> Self {
        Self { legend, hint, fields }
    }
}

/// What is wrong with a form.
pub(super) struct Trouble {
    status: StatusCode,
    /// Seconds after which the form may be sent again.
    retry_after: Option<u64>,
    pub(super) text: String,
    /// The name of the field at fault.
    field: Option<String>,
}

impl Trouble {
    /// Takes a refusal that the form can show; others are pages of their own.
    pub(super) fn of(error: ApiError) -> Result<Self, ApiError> {
        let body = error.body();
        let status = error.status();
        let is_about_input =
            matches!(status.as_u16(), 400 | 402 | 403 | 409) || matches!(body.code, ErrorCode::AffiliateNotFound);
        let retry_after = error.retry_after();
        let text = match status.as_u16() {
            _ if is_about_input => words(&body.code, body.field.as_deref(), &error.to_string()),
            // It passes, and what was filled in is worth keeping until then.
            429 | 503 if retry_after.is_some() => {
                if status.is_server_error() {
                    tracing::warn!(%error, "a form is shown again");
                }
                let (heading, advice) = around::words(&body.code, status);
                format!("{heading}. {advice}")
            }
            _ => return Err(error),
        };
        Ok(Self { status, retry_after, text, field: body.field })
    }

    /// What a page finds wrong with a field by itself.
    pub(super) fn at(field: &str, text: &str) -> Self {
        let field = Some(field.to_owned());
        Self { status: StatusCode::BAD_REQUEST, retry_after: None, text: text.to_owned(), field }
    }

    /// How the page ends that shows it.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome { status: self.status, retry_after: self.retry_after }
    }
}

/// How a page ends that shows a form.
pub(super) fn status_of(trouble: Option<&Trouble>) -> Outcome {
    trouble.map_or(StatusCode::OK.into(), Trouble::outcome)
}

/// A refusal for people: the messages are written for programs, which know the fields by name.
fn words(code: &ErrorCode, field: Option<&str>, message: &str) -> String {
    let fixed = match code {
        ErrorCode::MissingFields => "Fill this in.",
        ErrorCode::LinkIdTaken => "This id is taken. Choose another one.",
        ErrorCode::EmptyEvents => "Choose at least one kind of event.",
        ErrorCode::EmptyUpdate => "Nothing was changed.",
        ErrorCode::InvalidEmail => "This is not an e-mail address.",
        ErrorCode::KeyLimit => "There are as many keys as there can be. Delete one that you no longer use first.",
        ErrorCode::LastKey => "This is the last key, and there is always one. Make another one first.",
        ErrorCode::CredentialLimit => "This affiliate has as many credentials as it can have. Delete one first.",
        ErrorCode::LastUser => "They are the last who can sign in, so they cannot be removed.",
        ErrorCode::UserExists => "They belong to your team already.",
        ErrorCode::PartnerKeyTaken => "Another affiliate of yours has this key. Choose another one.",
        ErrorCode::NameTaken => "Another source of yours has this name. Choose another one.",
        ErrorCode::ThreatDetected => "This address is on the list of unsafe ones, so no link may lead there.",
        ErrorCode::AlternateLimit => "You have a verified alternate domain already, and there can be one.",
        ErrorCode::InvalidUrl if message.ends_with("not an absolute URL") => {
            "Write the whole address, with https:// or your app’s own word and :// in front."
        }
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    let message = message.split("; GET ").next().unwrap_or_default();
    let rest = field.and_then(|field| message.strip_prefix(field)).map(|rest| match rest.strip_prefix(": ") {
        Some(why) => why.to_owned(),
        None => format!("this{rest}"),
    });
    let text = rest.unwrap_or_else(|| message.to_owned());
    let mut characters = text.chars();
    let first: String = characters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}.", characters.as_str().trim_end_matches('.'))
}

/// Puts values and what is wrong with them into the fields. What is wrong with none of them is given back.
pub(super) fn fill(groups: &mut [Group], form: &Form, trouble: Option<&Trouble>) -> Option<String> {
    let mut elsewhere = trouble.map(|trouble| trouble.text.clone());
    for field in groups.iter_mut().flat_map(|group| &mut group.fields) {
        form.value(field.name).clone_into(&mut field.value);
        let at_fault = trouble.and_then(|trouble| trouble.field.as_deref());
        if at_fault == Some(field.name) {
            field.error = elsewhere.take();
            field.focused = true;
        }
    }
    elsewhere
}

/// A page that is a form.
#[derive(Template)]
#[template(path = "pages/form.html")]
pub(super) struct FormPage<'a> {
    pub(super) frame: &'a Frame,
    pub(super) lead: &'a str,
    pub(super) groups: Vec<Group>,
    /// What is wrong with no single field.
    pub(super) trouble: Option<String>,
    pub(super) action: &'a str,
    /// What the browser sends back unseen.
    pub(super) hidden: Vec<(&'static str, String)>,
    pub(super) submit: &'static str,
    pub(super) back: &'a str,
}

/// Draws the id of a form that must not be sent twice.
pub(super) fn draw_id(app: &App) -> String {
    app.random(|random| hex::encode(random.bytes::<16>()))
}

/// A form whose answer shows a secret. Sent again, whatever it says then, it makes none and shows none; a form that was
/// refused has not been used.
pub(super) fn secret_of(person: &Person, path: &str, form: &Form) -> Once {
    Once::form(&person.caller, path, form.value("form"), "").said_once()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_form_is_trimmed_and_each_field_means_one_thing() {
        let form = Form::of(&sent(&[("a", " x "), ("b", "1\r\n2"), ("c", "")])).expect("a form");
        assert_eq!((form.value("a"), form.value("b"), form.filled("c"), form.value("d")), ("x", "1\n2", None, ""));
        assert!(Form::of(&sent(&[("a", "1"), ("a", "2")])).is_err());
        let names: Vec<String> = (0..=MOST_FIELDS).map(|at| format!("f{at}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(Form::of(&sent(&many)).is_err());
    }

    #[test]
    fn refusals_are_sentences() {
        for (field, message, text) in [
            (Some("web_url"), "web_url: must start with http:// or https://", "Must start with http:// or https://."),
            (
                Some("agent_context.cta"),
                "agent_context.cta has 130 characters; 120 are allowed",
                "This has 130 characters; 120 are allowed.",
            ),
            (None, "the plan includes 50 links; there are 50", "The plan includes 50 links; there are 50."),
            (
                Some("domain"),
                "this account has go.example.com already; GET /v1/domains shows its DNS records",
                "This account has go.example.com already.",
            ),
        ] {
            assert_eq!(words(&ErrorCode::BadRequest, field, message), text);
        }
    }
}
