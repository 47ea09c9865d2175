//! The QR code of a link: its look, with a preview and downloads.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use deeplink_core::link::{LinkDetail, UpdateLink};
use deeplink_core::patch::Patch;
use deeplink_core::qr::{
    CornerDotType, CornerSquareType, DotType, OPTION_NAMES, QrLevel, QrOptions, QrShape, UPLOADED, uploaded,
};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Uri};
use serde_json::{Map, Value};
use url::form_urlencoded::Serializer;

use super::PageResult;
use super::form::{Field, Form, FormView, Group, Kind, View};
use super::frame::{Frame, Section, answer};
use super::headers::see_other;
use super::person::Person;
use super::qr_logo;
use crate::api;
use crate::api::qr::Subject;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::state::{App, Shared};

/// The prefix of an option's field.
pub(super) const PREFIX: &str = "qr.";
/// An image may have the link's look, which can change at any time.
pub(super) const NO_CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");
/// Size of codes without one, in pixels.
const POSTER_SIZE: u32 = 1_024;

/// The address of the image that shows a link's look.
pub(super) fn shown(link: &LinkDetail) -> String {
    format!("/account/links/{}/qr.svg", link.link_id)
}

/// Whether drawing a look requires a logo from another server.
pub(super) fn fetches_logo(look: &QrOptions) -> bool {
    look.hide_logo != Some(true) && look.logo.as_deref().is_some_and(|logo| uploaded(logo).is_none())
}

/// What a preview and a download have where the look has no option: a size that is large enough for a poster, and error
/// correction that tolerates some dirt. With a logo, the default level is higher.
pub(super) fn poster(look: QrOptions) -> QrOptions {
    let least = QrOptions::new().size(POSTER_SIZE);
    let has_logo = look.logo.is_some() && look.hide_logo != Some(true);
    let least = if has_logo { least } else { least.level(QrLevel::M) };
    look.or(least)
}

/// The link's QR code as a download: with the options in the query, or with the link's look.
pub(super) async fn download(
    State(app): State<Shared>,
    person: Person,
    Path((id, format)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> PageResult {
    let options: (_, fn(QrOptions) -> QrOptions) = (uri.query().unwrap_or_default(), poster);
    let file = (Subject::Link(&id), &*format);
    let mut response = api::qr::draw_for(&app, &person.caller, file, options, &headers).await?;
    response.headers_mut().insert(header::CACHE_CONTROL, NO_CACHE);
    let name = format!("attachment; filename=\"{id}.{format}\"");
    let name = HeaderValue::try_from(name).map_err(|_| ApiError::not_found())?;
    response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    Ok(response)
}

#[derive(Template)]
#[template(path = "pages/qr_look.html")]
struct LookPage<'a> {
    frame: &'a Frame,
    id: &'a str,
    form: FormView,
    /// The query of the image that is shown, with its question mark: empty for the link's look, none if the options are
    /// wrong or the link was taken down.
    query: Option<String>,
    /// Whether the operator flagged or disabled the link.
    is_taken_down: bool,
    /// Whether the image fails if the logo's server does.
    fetches_logo: bool,
    /// The form that uploads a logo, as HTML.
    upload: String,
}

/// The view of the form that was not sent.
const UNSENT: View<'static> = View::Opened(None);

/// The form, with the link's look or, to preview them, the options in the query.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let sent = Form::of(query.pairs())?;
    if !sent.names().any(|name| name.starts_with(PREFIX)) {
        let initial = form_of(link.qr.as_ref());
        return page(&app, &person, &id, &initial, &View::Opened(Some(&query)), Some(String::new()), &UNSENT).await;
    }
    // A preview refuses what Save refuses.
    match refusal(&app, &person, &sent, &[&id]).await? {
        Some(refused) => page(&app, &person, &id, &sent, &refused, None, &UNSENT).await,
        None => {
            let look = without_deleted_logo(&app, &person, look_in(&sent)).await?;
            let image = format!("?{}", query_of(&poster(look)));
            page(&app, &person, &id, &sent, &View::Opened(Some(&query)), Some(image), &UNSENT).await
        }
    }
}

/// A look as it is drawn once it is saved: a logo that was deleted since the link got it is left out.
async fn without_deleted_logo(app: &App, person: &Person, look: QrOptions) -> Result<QrOptions, ApiError> {
    let Some(name) = look.logo.as_deref().and_then(uploaded) else { return Ok(look) };
    let names = api::qr_logos::names_for(app, &person.caller).await?;
    Ok(if names.iter().any(|known| known == name) { look } else { look.hide_logo(true) })
}

/// The view of a form whose look these links cannot keep or, without any, a new link cannot get.
pub(super) async fn refusal<'a>(
    app: &App,
    person: &Person,
    form: &'a Form,
    links: &[&str],
) -> Result<Option<View<'a>>, ApiError> {
    if let Some(refused) = View::checked(form, |_| None, |form| update_in(form).check().map(drop)) {
        return Ok(Some(refused));
    }
    match check_kept(app, person, form, links).await {
        Ok(()) => Ok(None),
        Err(error) => View::refused(form, error).map(Some),
    }
}

/// The rules for a look that need more than the form.
async fn check_kept(app: &App, person: &Person, form: &Form, links: &[&str]) -> Result<(), ApiError> {
    let look = update_in(form).check()?.qr;
    if !matches!(look, Patch::Set(_)) {
        return Ok(());
    }
    let mut reader = app.db.read().await?;
    api::links::check_look(app, &mut reader.conn(), &person.caller.tenant, &look, links).await
}

/// Keeps the options as the link's look.
pub(super) async fn save(State(app): State<Shared>, person: Person, Path(id): Path<String>, form: Form) -> PageResult {
    // A link that does not exist is a 404, whatever the form contains.
    api::links::get_for(&app, &person.caller, &id).await?;
    if let Some(refused) = View::checked(&form, |_| None, |form| update_in(form).check().map(drop)) {
        return page(&app, &person, &id, &form, &refused, None, &UNSENT).await;
    }
    match api::links::update_for(&app, Arc::clone(&person.caller), id.clone(), update_in(&form)).await {
        Ok(_) => Ok(see_other(&format!("/account/links/{id}/qr?done=qr-saved"))),
        Err(error) => page(&app, &person, &id, &form, &View::refused(&form, error)?, None, &UNSENT).await,
    }
}

/// The page with a design in its form, and with the form that uploads a logo. One of them may have been refused.
pub(super) async fn page(
    app: &App,
    person: &Person,
    id: &str,
    initial: &Form,
    view: &View<'_>,
    query: Option<String>,
    upload: &View<'_>,
) -> PageResult {
    let names = api::qr_logos::names_for(app, &person.caller).await?;
    // Nobody should print a code that leads to a notice.
    let is_taken_down = api::links::find(&mut app.db.read().await?.conn(), &person.caller, id).await?.is_taken_down;
    let query = query.filter(|_| !is_taken_down);
    let shown = if upload.error().is_some() { upload } else { view };
    let frame = Frame::of(app, person, Section::LINKS, format!("QR code for {id}")).showing(shown);
    let form = FormView::new(app, groups(&names), initial, view);
    let fetches_logo = fetches_logo(&look_in(initial));
    let upload = qr_logo::form(app, id, initial, upload)?;
    let page = LookPage { frame: &frame, id, form, query, is_taken_down, fetches_logo, upload };
    Ok(answer(app, shown.outcome(), &frame, &page))
}

fn update_in(form: &Form) -> UpdateLink {
    let mut update = UpdateLink::new();
    update.qr = Patch::Set(look_in(form));
    update
}

/// The options in a form. What is wrong with them is found when they are checked.
pub(super) fn look_in(form: &Form) -> QrOptions {
    let mut members = Map::new();
    for name in OPTION_NAMES {
        let Some(text) = form.filled(&format!("{PREFIX}{name}")) else { continue };
        let number = ["size", "margin"].contains(&name).then(|| text.parse::<u32>().ok()).flatten();
        members.insert(name.to_owned(), number.map_or_else(|| Value::from(text), Value::from));
    }
    serde_json::from_value(Value::Object(members)).unwrap_or_default()
}

/// The form of a look.
pub(super) fn form_of(look: Option<&QrOptions>) -> Form {
    let mut form = Form::default();
    for (name, value) in members_of(look) {
        form.set(&format!("{PREFIX}{name}"), &value);
    }
    form
}

/// The query for the options of a poster, which have a level or a logo: with an option of the style, none of the link's look
/// are added.
pub(super) fn query_of(look: &QrOptions) -> String {
    Serializer::new(String::new()).extend_pairs(members_of(Some(look))).finish()
}

fn members_of(look: Option<&QrOptions>) -> Vec<(String, String)> {
    let Some(Ok(Value::Object(members))) = look.map(serde_json::to_value) else { return Vec::new() };
    let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    members.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// Choices of an option, after that of the default.
fn choices<T: Copy>(
    default: &'static str,
    all: &'static [T],
    word: fn(T) -> &'static str,
) -> Vec<(&'static str, &'static str)> {
    std::iter::once(("", default)).chain(all.iter().map(|one| (word(*one), label_of(word(*one))))).collect()
}

fn label_of(word: &'static str) -> &'static str {
    match word {
        "square" => "Square",
        "dots" => "Dots",
        "dot" => "Round",
        "rounded" => "Rounded",
        "classy" => "Classy",
        "classy-rounded" => "Classy, rounded",
        "extra-rounded" => "Extra rounded",
        "circle" => "Circle",
        "L" => "L (about 7%)",
        "M" => "M (about 15%)",
        "Q" => "Q (about 25%)",
        "H" => "H (about 30%)",
        other => other,
    }
}

fn groups(logos: &[String]) -> Vec<Group> {
    let [styles, colours, others] = fields(logos, "You can upload one below.");
    vec![
        Group::new("Style", "", styles),
        Group::new("Colors", "For reliable scanning, use a dark code on a light background.", colours).folded(),
        Group::new("Logo, error correction and size", "", others).folded(),
    ]
}

/// The options of the style, the colors, and the others. `upload` says where a logo can be uploaded.
pub(super) fn fields(logos: &[String], upload: &str) -> [Vec<Field>; 3] {
    let styles = vec![
        Field::choice("qr.dotType", "Dot style", "", choices("Default: rounded", DotType::ALL, DotType::as_str)),
        Field::choice(
            "qr.cornerSquareType",
            "Corner square style",
            "",
            choices("Default: extra rounded", CornerSquareType::ALL, CornerSquareType::as_str),
        ),
        Field::choice(
            "qr.cornerDotType",
            "Corner dot style",
            "",
            choices("Default: round", CornerDotType::ALL, CornerDotType::as_str),
        ),
        Field::choice(
            "qr.shape",
            "Shape",
            "If you choose a circle, the space around the code is filled with decorative dots.",
            choices("Default: square", QrShape::ALL, QrShape::as_str),
        ),
    ];
    let colour = |name, label, hint| Field::line(name, label, hint).max_length(7);
    let colours = vec![
        colour("qr.fgColor", "Code color", "").placeholder("#000000"),
        colour("qr.bgColor", "Background color", "").placeholder("#ffffff"),
        colour("qr.dotColor", "Dot color", "Leave empty to use the code’s color."),
        colour("qr.cornerSquareColor", "Corner square color", "Leave empty to use the code’s color."),
        colour("qr.cornerDotColor", "Corner dot color", "Leave empty to use the code’s color."),
    ];
    let names: Vec<_> = logos.iter().map(|name| format!("{UPLOADED}{name}")).collect();
    let listed = if names.is_empty() { String::new() } else { format!(", or an uploaded logo: {}", names.join(", ")) };
    let mut logo = Field::url("qr.logo", "Logo", "").placeholder("https://");
    logo.hint = format!("The URL of a PNG, JPEG or WebP image{listed}. {upload}").into();
    logo.suggestions = names;
    let others = vec![
        logo,
        Field::choice(
            "qr.level",
            "Error correction",
            "How much of the code can be damaged or covered before it no longer scans.",
            choices("Default: M, or H with a logo", QrLevel::ALL, QrLevel::as_str),
        ),
        Field::line("qr.size", "Size in pixels", "At most 2048, including the margin.")
            .max_length(4)
            .placeholder("1024"),
        Field::line("qr.margin", "Margin in modules", "At most 16.").max_length(2).placeholder("2"),
    ];
    [styles, colours, others]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_survives_its_form_and_its_query() {
        let look = QrOptions::new()
            .size(300_u32)
            .margin(0_u32)
            .dot_type(DotType::Classy)
            .fg_color(deeplink_core::colour::Rgb([0, 16, 0]))
            .logo("name:acme");
        assert_eq!(look_in(&form_of(Some(&look))), look);
        assert_eq!(QrOptions::from_query(&query_of(&look), |_| false), Ok(look));
        assert_eq!(look_in(&form_of(None)), QrOptions::new());
    }

    #[test]
    fn a_preview_is_of_the_form_and_not_of_the_links_look() {
        for (look, expected) in [
            (QrOptions::new(), "size=1024&level=M"),
            (QrOptions::new().size(300_u32), "size=300&level=M"),
            (QrOptions::new().level(QrLevel::L), "size=1024&level=L"),
            (QrOptions::new().logo("name:acme"), "size=1024&logo=name%3Aacme"),
            (QrOptions::new().logo("name:acme").hide_logo(true), "size=1024&level=M&hideLogo=true&logo=name%3Aacme"),
        ] {
            let query = query_of(&poster(look));
            assert_eq!(query, expected);
            assert!(QrOptions::are_in_query(&query), "otherwise it would be that of the link");
        }
    }
}
