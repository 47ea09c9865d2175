//! Apps: the list, a form for each platform, and deletion.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::app::{AppDetail, AppPlatform, CreateApp, MAX_APP_NAME, MAX_BUNDLE_ID, MAX_PACKAGE_NAME};
use http::StatusCode;

use super::PageResult;
use super::confirm::Question;
use super::form::{Field, Form, FormPage, Group, View};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::time::DisplayTime;
use crate::api;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

const LIST: &str = "/account/apps";

struct AppRow {
    id: String,
    name: String,
    platform: &'static str,
    /// Bundle ID or package name.
    identifier: String,
    created: DisplayTime,
}

impl From<AppDetail> for AppRow {
    fn from(app: AppDetail) -> Self {
        let identifier = app.bundle_id.or(app.package_name).unwrap_or_default();
        Self {
            id: app.id.to_string(),
            platform: if app.platform == AppPlatform::Android { "Android" } else { "iOS" },
            name: app.app_name.unwrap_or_else(|| identifier.clone()),
            identifier,
            created: app.created_at.into(),
        }
    }
}

#[derive(Template)]
#[template(path = "pages/apps.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    apps: Vec<AppRow>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let apps = api::apps::list_for(&app, &person.caller, PageRequest::at(None))
        .await?
        .items
        .into_iter()
        .map(AppRow::from)
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
    let once = Once::form(&person.caller, "/account/new-app", form.value("form"), &form.whole());
    let mut new = CreateApp::default();
    new.platform = form.filled("platform");
    new.app_name = form.filled("app_name");
    new.bundle_id = form.filled("bundle_id");
    new.team_id = form.filled("team_id");
    new.package_name = form.filled("package_name");
    new.sha256_fingerprints =
        form.filled("sha256_fingerprints").map(|text| text.split_whitespace().map(str::to_owned).collect());
    new.icon_url = form.filled("icon_url");
    new.theme_color = form.filled("theme_color");
    match api::apps::create_for(&app, Arc::clone(&person.caller), once, new).await {
        Ok(_) => Ok(see_other("/account/apps?done=app-saved")),
        Err(error) => Ok(form_page(&app, &person, &form, &View::refused(&form, error)?)),
    }
}

fn form_page(app: &App, person: &Person, values: &Form, view: &View<'_>) -> Response {
    let is_android = values.value("platform") == "android";
    let identity = if is_android {
        vec![
            Field::line("package_name", "Package name", "")
                .required()
                .max_length(MAX_PACKAGE_NAME)
                .placeholder("com.example.app"),
            Field::area("sha256_fingerprints", "Signing certificate fingerprints", "SHA-256, one per line. In the Play Console, open App integrity and copy both the app signing key’s and the upload key’s.").required(),
        ]
    } else {
        vec![
            Field::line("bundle_id", "Bundle ID", "")
                .required()
                .max_length(MAX_BUNDLE_ID)
                .placeholder("com.example.app"),
            Field::line("team_id", "Team ID", "10 characters, under Membership in your Apple developer account.")
                .required()
                .max_length(10)
                .placeholder("ABCDE12345"),
        ]
    };
    let branding = vec![
        Field::line("app_name", "Name", "").max_length(MAX_APP_NAME),
        Field::url("icon_url", "Icon URL", "A square image, served over https."),
        Field::line("theme_color", "Button color", "").max_length(7).placeholder("#2e7d4f"),
        Field::hidden("platform"),
    ];
    let groups = vec![
        Group::plain(identity),
        Group::new("Branding", "Optional. Shown on the landing pages of your links.", branding),
    ];
    let page = FormPage {
        section: Section::APPS,
        title: if is_android { "Android app" } else { "iOS app" },
        lead: "Links on your domains open in this app where it is installed. An app that you have already added is replaced.",
        submit: "Save app",
        back: LIST,
    };
    page.show(app, person, groups, values, view)
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let found = AppRow::from(api::apps::find(&app, &person.caller, &id).await?);
    let name = format!("{} for {}", found.name, found.platform);
    let lead =
        "Your links stop opening in this app once phones refresh their list of its domains, which can take a few days.";
    Ok(Question::delete(Section::APPS, "app", &name, lead, LIST).ask(&app, &person, None))
}

/// Deletes an app.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    let deleted = api::apps::delete_for(&app, Arc::clone(&person.caller), &id).await;
    after_deletion(deleted, LIST, "app-deleted")
}
