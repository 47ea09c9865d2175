//! Forms: what a browser sends, the fields that a page shows, and errors in them.

use std::borrow::Cow;

use askama::Template;
use axum::extract::{FromRequest, Request};
use axum::response::Response;
use deeplink_core::colour::Rgb;
use deeplink_core::error::Invalid;

pub(super) use super::faults::{FormError, status_of};
use super::frame::{Back, Frame, Outcome, Section, answer};
use super::person::Person;
use crate::error::ApiError;
use crate::http::extract::{BODY_LIMIT, Query, form_body};
use crate::http::once::Once;
use crate::state::{App, Shared};

/// Maximum number of fields in a form; ours have far fewer.
const MAX_FIELDS: usize = 100;

/// A form as it was sent (`application/x-www-form-urlencoded`), at most 64 KiB.
#[derive(Debug, Clone, Default)]
pub(super) struct Form {
    /// Values are trimmed, with CRLF replaced by LF.
    pairs: Vec<(String, String)>,
}

impl Form {
    /// A form with these initial values.
    pub(super) fn with<'a>(values: impl IntoIterator<Item = (&'static str, Option<&'a str>)>) -> Self {
        let filled = values.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        Self { pairs: filled.collect() }
    }

    /// The value of a field; empty when it is absent or blank.
    pub(super) fn value(&self, name: &str) -> &str {
        self.pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The value of a field that is not blank.
    pub(super) fn filled(&self, name: &str) -> Option<String> {
        Some(self.value(name)).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// Whether it has a field, blank or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The names of its fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(name, _)| name.as_str())
    }

    /// All fields as text, to compare forms.
    pub(super) fn whole(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.pairs).finish()
    }

    /// Sets a field.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        match self.pairs.iter_mut().find(|(known, _)| known == name) {
            Some((_, set)) => value.clone_into(set),
            None => self.pairs.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Reads a form of at most `limit` bytes.
    pub(super) async fn read(request: Request, limit: usize) -> Result<Self, ApiError> {
        Self::of(form_body(request, limit).await?.pairs())
    }

    /// Reads the fields that were sent.
    pub(super) fn of(sent: &[(String, String)]) -> Result<Self, ApiError> {
        let mut form = Self::default();
        for (name, value) in sent {
            if form.pairs.len() == MAX_FIELDS || form.pairs.iter().any(|(known, _)| known == name) {
                return Err(ApiError::bad_request("the form repeats a field or has too many fields"));
            }
            form.pairs.push((name.clone(), value.replace("\r\n", "\n").trim().to_owned()));
        }
        Ok(form)
    }
}

impl FromRequest<Shared> for Form {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, ApiError> {
        Self::read(request, BODY_LIMIT).await
    }
}

/// How a field is filled in.
pub(super) enum Kind {
    /// One line, as an input of this type.
    Line(&'static str),
    /// Several lines.
    Area,
    /// A file of one of these media types.
    File(&'static str),
    /// A checkbox: sent as `yes` if checked, otherwise not at all.
    Checkbox,
    /// A hidden field that is sent back.
    Hidden,
    /// One of these: value and label.
    Choice(Vec<(Cow<'static, str>, Cow<'static, str>)>),
}

/// A field of a form as a page shows it.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: Cow<'static, str>,
    pub(super) kind: Kind,
    pub(super) value: String,
    pub(super) error: Option<String>,
    pub(super) required: bool,
    /// Maximum length in characters; 0 = the browser sets no limit.
    pub(super) max_length: usize,
    pub(super) autocomplete: &'static str,
    pub(super) placeholder: &'static str,
    /// Values that the browser offers for a line.
    pub(super) suggestions: Vec<String>,
    pub(super) focused: bool,
}

impl Field {
    /// A field that takes one line of text.
    pub(super) fn line(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self {
            name,
            label,
            hint: hint.into(),
            kind: Kind::Line("text"),
            value: String::new(),
            error: None,
            required: false,
            max_length: 0,
            autocomplete: "off",
            placeholder: "",
            suggestions: Vec::new(),
            focused: false,
        }
    }

    /// A field that takes a URL.
    pub(super) fn url(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        // Not `type=url`: the browser's own check would refuse URLs that are valid here, with its own message.
        Self { kind: Kind::Line("text"), max_length: 2_048, ..Self::line(name, label, hint) }
    }

    /// A field that takes an email address.
    pub(super) fn email(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self { kind: Kind::Line("email"), max_length: 254, ..Self::line(name, label, hint) }
    }

    /// A field that takes a date and a time, to the minute.
    pub(super) fn minute(name: &'static str, label: &'static str, hint: String) -> Self {
        Self { kind: Kind::Line("datetime-local"), hint: hint.into(), ..Self::line(name, label, "") }
    }

    /// A field that takes several lines.
    pub(super) fn area(name: &'static str, label: &'static str, hint: &'static str) -> Self {
        Self { kind: Kind::Area, ..Self::line(name, label, hint) }
    }

    /// A field that takes a file. Its form is read as [`Multipart`](crate::http::multipart::Multipart).
    pub(super) fn file(name: &'static str, label: &'static str, hint: &'static str, accept: &'static str) -> Self {
        Self { kind: Kind::File(accept), ..Self::line(name, label, hint) }
    }

    /// A checkbox.
    pub(super) fn checkbox(name: &'static str, label: &'static str) -> Self {
        Self { kind: Kind::Checkbox, ..Self::line(name, label, "") }
    }

    /// A hidden field.
    pub(super) fn hidden(name: &'static str) -> Self {
        Self { kind: Kind::Hidden, ..Self::line(name, "", "") }
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

    pub(super) fn max_length(mut self, characters: usize) -> Self {
        self.max_length = characters;
        self
    }

    pub(super) fn placeholder(mut self, example: &'static str) -> Self {
        self.placeholder = example;
        self
    }

    pub(super) fn autocomplete(mut self, autocomplete: &'static str) -> Self {
        self.autocomplete = autocomplete;
        self
    }

    /// Whether its value is the one that it has on a new form: none or, of several choices, the first.
    fn is_default(&self) -> bool {
        let first = if let Kind::Choice(choices) = &self.kind { choices.first() } else { None };
        self.value.is_empty() || first.is_some_and(|(value, _)| *value == self.value)
    }

    /// The color that it has, to be shown with its label.
    pub(super) fn color(&self) -> Option<&str> {
        (self.name == "theme_color" && Rgb::parse(&self.value).is_some()).then_some(&*self.value)
    }

    /// The field's id in the page.
    pub(super) fn id(&self) -> String {
        id_of(self.name)
    }

    /// Ids of the field's hint and error, for screen readers.
    pub(super) fn described_by(&self) -> Option<String> {
        let id = self.id();
        let hint = (!self.hint.is_empty()).then(|| format!("{id}-hint"));
        let error = self.error.is_some().then(|| format!("{id}-error"));
        let both: Vec<String> = hint.into_iter().chain(error).collect();
        (!both.is_empty()).then(|| both.join(" "))
    }
}

/// The id of a field's element.
fn id_of(name: &str) -> String {
    name.replace(['.', '_'], "-")
}

/// Fields that belong together.
pub(super) struct Group {
    /// Empty if the form is one group.
    pub(super) legend: &'static str,
    pub(super) hint: &'static str,
    pub(super) fields: Vec<Field>,
    /// Whether only its legend is shown until it is opened.
    pub(super) folds: bool,
    /// The API's field that the group stands for, if it is several fields here.
    name: &'static str,
    /// What is wrong with the group as a whole.
    pub(super) error: Option<String>,
}

impl Group {
    /// The fields of a form that is one group.
    pub(super) fn plain(fields: Vec<Field>) -> Self {
        Self::new("", "", fields)
    }

    pub(super) fn new(legend: &'static str, hint: &'static str, fields: Vec<Field>) -> Self {
        Self { legend, hint, fields, folds: false, name: "", error: None }
    }

    /// The group is folded, unless something in it was filled in or refused.
    pub(super) fn folded(mut self) -> Self {
        self.folds = true;
        self
    }

    /// Whether it is shown open if it folds.
    pub(super) fn is_open(&self) -> bool {
        self.error.is_some() || self.fields.iter().any(|field| field.error.is_some() || !field.is_default())
    }

    /// The beginning of ids in the page.
    pub(super) fn id(&self) -> String {
        id_of(self.name)
    }

    /// The group stands for this field of the API.
    pub(super) fn standing_for(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }
}

/// Why a page with a form is shown.
pub(super) enum View<'a> {
    /// The page was opened; its query may have the result of the previous form.
    Opened(Option<&'a Query>),
    /// The submitted form was refused. `None`: another button of the page was used.
    Refused(Option<&'a Form>, FormError),
}

impl<'a> View<'a> {
    /// The view after the rules that need nothing but the form, if it breaks any; see [`FormError::all`].
    pub(super) fn checked(
        form: &'a Form,
        stand_in: impl Fn(&str) -> Option<(&'static str, &'static str)>,
        check: impl Fn(&Form) -> Result<(), Invalid>,
    ) -> Option<Self> {
        Some(Self::Refused(Some(form), FormError::all(form, stand_in, check)?))
    }

    /// The view after an error, if the page can show it.
    pub(super) fn refused(form: impl Into<Option<&'a Form>>, error: ApiError) -> Result<Self, ApiError> {
        Ok(Self::Refused(form.into(), FormError::of(error)?))
    }

    /// The cursor of the opened list page. A refused form is shown with the first page.
    pub(super) fn cursor(&self) -> Result<Option<&str>, ApiError> {
        if let Self::Opened(Some(query)) = self { query.one("cursor") } else { Ok(None) }
    }

    /// The query of the opened page; none of a refused form's.
    pub(super) fn query(&self) -> &Query {
        static NONE: Query = Query::none();
        if let Self::Opened(Some(query)) = self { query } else { &NONE }
    }

    pub(super) fn error(&self) -> Option<&FormError> {
        if let Self::Refused(_, error) = self { Some(error) } else { None }
    }

    pub(super) fn outcome(&self) -> Outcome {
        status_of(self.error())
    }
}

/// A form as a page shows it.
pub(super) struct FormView {
    pub(super) groups: Vec<Group>,
    /// An id, so that submitting the form repeatedly creates one thing.
    pub(super) id: String,
    /// The error, if it is not about one field.
    pub(super) error: Option<String>,
    /// The fields at fault, in the order of the page.
    pub(super) faults: Vec<FieldFault>,
}

/// A field at fault, as the summary above the form names it.
pub(super) struct FieldFault {
    /// The id of its element.
    pub(super) id: String,
    pub(super) label: &'static str,
    pub(super) text: String,
}

impl FormView {
    /// Filled with the values and the faults of a refused form, else with `initial` values. One fault has the focus;
    /// of several, the summary has it.
    pub(super) fn new(app: &App, mut groups: Vec<Group>, initial: &Form, view: &View<'_>) -> Self {
        let values = if let View::Refused(Some(form), _) = view { form } else { initial };
        let fault_of = |name: &str| view.error().and_then(|error| error.at(name)).map(str::to_owned);
        let (mut faults, mut shown) = (Vec::new(), Vec::new());
        for group in &mut groups {
            group.error = fault_of(group.name);
            if let (Some(text), Some(first)) = (&group.error, group.fields.first()) {
                faults.push(FieldFault { id: first.id(), label: group.legend, text: text.clone() });
                shown.push(group.name);
            }
            for field in &mut group.fields {
                values.value(field.name).clone_into(&mut field.value);
                if let Some(text) = fault_of(field.name).filter(|_| !matches!(field.kind, Kind::Hidden)) {
                    faults.push(FieldFault { id: field.id(), label: field.label, text: text.clone() });
                    field.error = Some(text);
                    shown.push(field.name);
                }
            }
        }
        if let [fault] = &*faults {
            let mut fields = groups.iter_mut().flat_map(|group| &mut group.fields);
            if let Some(field) = fields.find(|field| field.id() == fault.id) {
                field.focused = true;
            }
        }
        let error = view.error().and_then(|error| error.besides(&shown)).map(str::to_owned);
        Self { groups, id: draw_id(app), error, faults }
    }
}

/// A page that is a form, submitted to the page's own path.
pub(super) struct FormPage<'a> {
    pub(super) section: Section,
    pub(super) title: &'a str,
    pub(super) lead: &'static str,
    pub(super) submit: &'static str,
    /// Where "Cancel" leads.
    pub(super) back: Back<'a>,
}

#[derive(Template)]
#[template(path = "pages/form.html")]
struct FormTemplate<'a> {
    frame: &'a Frame,
    page: &'a FormPage<'a>,
    action: &'a str,
    form: FormView,
}

impl FormPage<'_> {
    /// The page with these fields.
    pub(super) fn show(
        &self,
        app: &App,
        person: &Person,
        groups: Vec<Group>,
        initial: &Form,
        view: &View<'_>,
    ) -> Response {
        let frame = Frame::of(app, person, self.section, self.title).showing(view);
        let form = FormView::new(app, groups, initial, view);
        let page = FormTemplate { frame: &frame, page: self, action: &person.path, form };
        answer(app, view.outcome(), &frame, &page)
    }
}

/// A new id for a form that must be processed only once.
pub(super) fn draw_id(app: &App) -> String {
    app.random(|random| hex::encode(random.bytes::<16>()))
}

/// The idempotency of a form whose response shows a secret. Submitted again, even with other values, it creates and
/// shows none; a refused form does not count as submitted.
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
    fn a_folded_group_opens_for_what_is_not_as_on_a_new_form() {
        let group = |name: &str, status: &str, error: Option<&str>| {
            let states = [("true", "Enabled"), ("false", "Disabled")];
            let mut fields = vec![Field::line("name", "Name", ""), Field::choice("enabled", "Status", "", states)];
            (fields[0].value, fields[1].value) = (name.to_owned(), status.to_owned());
            fields[0].error = error.map(str::to_owned);
            Group::new("About", "", fields).folded()
        };
        assert!(!group("", "", None).is_open() && !group("", "true", None).is_open());
        assert!(group("x", "", None).is_open() && group("", "false", None).is_open());
        assert!(group("", "", Some("This field is required.")).is_open());
    }

    #[test]
    fn a_form_is_trimmed_and_each_field_means_one_thing() {
        let form = Form::of(&sent(&[("a", " x "), ("b", "1\r\n2"), ("c", "")])).expect("a form");
        assert_eq!((form.value("a"), form.value("b"), form.filled("c"), form.value("d")), ("x", "1\n2", None, ""));
        assert!(Form::of(&sent(&[("a", "1"), ("a", "2")])).is_err());
        let names: Vec<String> = (0..=MAX_FIELDS).map(|at| format!("f{at}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        assert!(Form::of(&sent(&many)).is_err());
    }
}
