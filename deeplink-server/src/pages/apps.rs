//! Apps: the list, a form for each platform, one app with everything that is stored of it, and deletion.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::app::{AppDetail, AppPlatform, CreateApp, MAX_APP_NAME, MAX_BUNDLE_ID, MAX_PACKAGE_NAME};
use deeplink_core::colour::Rgb;
use deeplink_core::time::Timestamp;
use http::StatusCode;

use super::PageResult;
use super::confirm::Question;
use super::form::{Field, Form, FormPage, FormView, Group, Kind, View};
use super::frame::{Back, Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::notice::has_hidden_icon;
use super::person::Person;
use crate::api;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

const LIST: &str = "/account/apps";

/// An app as the pages show it.
struct AppView {
    id: String,
    name: String,
    is_android: bool,
    platform: &'static str,
    /// Bundle ID or package name.
    identifier: String,
    team_id: Option<String>,
    fingerprints: Vec<String>,
    icon_url: Option<String>,
    theme_color: Option<String>,
    created: Timestamp,
}

impl From<AppDetail> for AppView {
    fn from(app: AppDetail) -> Self {
        let identifier = app.bundle_id.or(app.package_name).unwrap_or_default();
        let is_android = app.platform == AppPlatform::Android;
        Self {
            id: app.id.to_string(),
            name: app.app_name.unwrap_or_else(|| identifier.clone()),
            is_android,
            platform: if is_android { "Android" } else { "iOS" },
            identifier,
            team_id: app.team_id,
            fingerprints: app.sha256_fingerprints.unwrap_or_default(),
            icon_url: app.icon_url,
            theme_color: app.theme_color,
            created: app.created_at,
        }
    }
}

#[derive(Template)]
#[template(path = "pages/apps.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    apps: Vec<AppView>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let apps = api::apps::list_for(&app, &person.caller, PageRequest::at(None))
        .await?
        .items
        .into_iter()
        .map(AppView::from)
        .collect();
    let frame = Frame::of(&app, &person, Section::APPS, "Apps").after(&query);
    Ok(answer(&app, StatusCode::OK, &frame, &ListPage { frame: &frame, apps }))
}

/// The form for an app of the platform in the query.
pub(super) async fn new(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let platform = if query.one("platform")? == Some("android") { "android" } else { "ios" };
    Ok(form_page(&app, &person, &Form::with([("platform", Some(platform))]), &View::Opened(None)))
}

/// Registers an app, or replaces it.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    if let Some(refused) = View::checked(&form, stand_in, |form| app_in(form).validate()) {
        return Ok(form_page(&app, &person, &form, &refused));
    }
    let once = Once::form(&person.caller, "/account/new-app", form.value("form"), &form.whole());
    match api::apps::create_for(&app, Arc::clone(&person.caller), once, app_in(&form)).await {
        Ok(_) => Ok(see_other(&format!("{LIST}?done={}", saved(&form)))),
        Err(error) => Ok(form_page(&app, &person, &form, &View::refused(&form, error)?)),
    }
}

/// The result of a saved form.
fn saved(form: &Form) -> &'static str {
    if has_hidden_icon(form) { "app-saved-without-icon" } else { "app-saved" }
}

fn app_in(form: &Form) -> CreateApp {
    let mut new = CreateApp::default();
    new.platform = form.filled("platform");
    new.app_name = form.filled("app_name");
    new.bundle_id = form.filled("bundle_id");
    new.team_id = form.filled("team_id");
    new.package_name = form.filled("package_name");
    new.sha256_fingerprints =
        form.filled("sha256_fingerprints").map(|text| text.split_whitespace().map(str::to_owned).collect());
    new.icon_url = form.filled("icon_url");
    new.theme_color = form.filled("theme_color").map(Rgb::with_hash);
    new
}

/// A valid value for each required field.
fn stand_in(field: &str) -> Option<(&'static str, &'static str)> {
    Some(match field {
        "bundle_id" => ("bundle_id", "com.example.app"),
        "team_id" => ("team_id", "ABCDE12345"),
        "package_name" => ("package_name", "com.example.app"),
        "sha256_fingerprints" => {
            ("sha256_fingerprints", "0000000000000000000000000000000000000000000000000000000000000000")
        }
        _ => return None,
    })
}

fn form_page(app: &App, person: &Person, values: &Form, view: &View<'_>) -> Response {
    let is_android = values.value("platform") == "android";
    let identifier = if is_android {
        Field::line("package_name", "Package name", "").max_length(MAX_PACKAGE_NAME)
    } else {
        Field::line("bundle_id", "Bundle ID", "").max_length(MAX_BUNDLE_ID)
    };
    let mut groups = groups(is_android);
    groups[0].fields.insert(0, identifier.required().placeholder("com.example.app"));
    groups[0].fields.push(Field::hidden("platform"));
    let page = FormPage {
        section: Section::APPS,
        title: if is_android { "Add Android app" } else { "Add iOS app" },
        lead: "Links on your domains open in this app where it is installed. If you’ve already added this app, its settings are replaced.",
        submit: "Save app",
        back: Section::APPS.back(),
    };
    page.show(app, person, groups.into(), values, view)
}

/// The fields that can be changed.
fn groups(is_android: bool) -> [Group; 2] {
    let proof = if is_android {
        Field::area(
            "sha256_fingerprints",
            "Signing certificate fingerprints",
            "SHA-256, one per line. In the Play Console, open App integrity and copy both the app signing key’s and the upload key’s.",
        )
    } else {
        Field::line("team_id", "Team ID", "10 characters, under Membership in your Apple developer account.")
            .max_length(10)
            .placeholder("ABCDE12345")
    };
    let branding = vec![
        Field::line("app_name", "Name", "").max_length(MAX_APP_NAME),
        Field::url("icon_url", "Icon URL", "A square image, served over HTTPS."),
        Field::line("theme_color", "Button color", "").max_length(7).placeholder("#2e7d4f"),
    ];
    [
        Group::plain(vec![proof.required()]),
        Group::new("Branding", "Optional. Shown on the landing pages of your links.", branding),
    ]
}

#[derive(Template)]
#[template(path = "pages/app.html")]
struct AppPage<'a> {
    frame: &'a Frame,
    app: AppView,
    form: FormView,
}

/// One app.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    let stored = api::apps::find(&app, &person.caller, &id).await?;
    Ok(page(&app, &person, stored, &View::Opened(Some(&query))))
}

fn page(app: &App, person: &Person, stored: AppDetail, view: &View<'_>) -> Response {
    let fingerprints = stored.sha256_fingerprints.as_ref().map(|all| all.join("\n"));
    let initial = Form::with([
        ("team_id", stored.team_id.as_deref()),
        ("sha256_fingerprints", fingerprints.as_deref()),
        ("app_name", stored.app_name.as_deref()),
        ("icon_url", stored.icon_url.as_deref()),
        ("theme_color", stored.theme_color.as_deref()),
    ]);
    let stored = AppView::from(stored);
    let form = FormView::new(app, groups(stored.is_android).into(), &initial, view);
    let frame = Frame::of(app, person, Section::APPS, stored.name.clone()).showing(view);
    answer(app, view.outcome(), &frame, &AppPage { frame: &frame, app: stored, form })
}

/// Changes an app; its bundle ID or package name stays.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    let stored = api::apps::find(&app, &person.caller, &id).await?;
    let changed_in = |form: &Form| {
        let mut changed = app_in(form);
        changed.platform = Some(stored.platform.as_str().to_owned());
        changed.bundle_id.clone_from(&stored.bundle_id);
        changed.package_name.clone_from(&stored.package_name);
        changed
    };
    if let Some(refused) = View::checked(&form, stand_in, |form| changed_in(form).validate()) {
        return Ok(page(&app, &person, stored, &refused));
    }
    let once = Once::none(person.caller.turn());
    match api::apps::create_for(&app, Arc::clone(&person.caller), once, changed_in(&form)).await {
        Ok(made) => Ok(see_other(&format!("{LIST}/{}?done={}", made.into_made()?.id, saved(&form)))),
        Err(error) => {
            let view = View::refused(&form, error)?;
            Ok(page(&app, &person, stored, &view))
        }
    }
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let found = AppView::from(api::apps::find(&app, &person.caller, &id).await?);
    let name = format!("{} for {}", found.name, found.platform);
    let lead = "Your links will stop opening in this app once phones refresh the app’s list of domains, which can take a few days.";
    let back = Back { path: &format!("{LIST}/{}", found.id), name: &found.name };
    Ok(Question::delete(Section::APPS, "app", &name, lead, back).ask(&app, &person, None))
}

/// Deletes an app.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    let deleted = api::apps::delete_for(&app, Arc::clone(&person.caller), &id).await;
    after_deletion(deleted, LIST, "app-deleted")
}
