//! Apps: the list, a form for each platform, and the way to remove one.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::app::{AppDetail, AppPlatform, CreateApp, MAX_APP_NAME, MAX_BUNDLE_ID, MAX_PACKAGE_NAME};
use http::StatusCode;

use super::confirm::Question;
use super::form::{Field, Form, FormPage, Group, Trouble, draw_id, fill, status_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::when::When;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::{App, Shared};

struct Shown {
    id: String,
    name: String,
    platform: &'static str,
    /// Bundle id or package name.
    identity: String,
    created: When,
}

impl From<AppDetail> for Shown {
    fn from(app: AppDetail) -> Self {
        let identity = app.bundle_id.or(app.package_name).unwrap_or_default();
        Self {
            id: app.id.to_string(),
            platform: platform_name(&app.platform),
            name: app.app_name.unwrap_or_else(|| identity.clone()),
            identity,
            created: app.created_at.into(),
        }
    }
}

fn platform_name(platform: &AppPlatform) -> &'static str {
    if *platform == AppPlatform::Android { "Android" } else { "iOS" }
}

#[derive(Template)]
#[template(path = "pages/apps.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    apps: Vec<Shown>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    let apps = api::apps::list_for(&app, &person.caller).await?.into_iter().map(Shown::from).collect();
    let frame = Frame::of(&app, &person, Section::APPS, "Apps").after(&query);
    Ok(answer(&app, StatusCode::OK, &frame, &ListPage { frame: &frame, apps }))
}

/// The form for an app of the platform that the address names.
pub(super) async fn new(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    let platform = match query.one("platform")? {
        Some("android") => AppPlatform::Android,
        _ => AppPlatform::Ios,
    };
    Ok(make_page(&app, &person, &platform, &Form::default(), None))
}

/// Registers an app, or replaces it.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
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
    match api::apps::create_for(Arc::clone(&app), Arc::clone(&person.caller), once, new).await {
        Ok(_) => Ok(see_other("/account/apps?done=app-saved")),
        Err(error) => {
            let platform = AppPlatform::from(form.value("platform"));
            Ok(make_page(&app, &person, &platform, &form, Some(&Trouble::of(error)?)))
        }
    }
}

fn make_page(app: &App, person: &Person, platform: &AppPlatform, form: &Form, trouble: Option<&Trouble>) -> Response {
    let is_android = *platform == AppPlatform::Android;
    let identity = if is_android {
        vec![
            Field::line("package_name", "Package name", "").required().up_to(MAX_PACKAGE_NAME).such_as("com.example.app"),
            Field::area("sha256_fingerprints", "Fingerprints of its signing certificates", "SHA-256, one per line. In the Play Console they are under App integrity: take the app signing key’s and the upload key’s.").required(),
        ]
    } else {
        vec![
            Field::line("bundle_id", "Bundle id", "").required().up_to(MAX_BUNDLE_ID).such_as("com.example.app"),
            Field::line(
                "team_id",
                "Team id",
                "10 capital letters and digits, under Membership in your Apple developer account.",
            )
            .required()
            .up_to(10)
            .such_as("ABCDE12345"),
        ]
    };
    let face = vec![
        Field::line("app_name", "Name", "").up_to(MAX_APP_NAME),
        Field::address("icon_url", "Icon", "The https address of a square image."),
        Field::line("theme_color", "Colour of its button", "").up_to(7).such_as("#2e7d4f"),
    ];
    let mut groups = vec![
        Group::of("", "", identity),
        Group::of("How it looks", "Shown on the pages of your links. All of it can be left out.", face),
    ];
    let elsewhere = fill(&mut groups, form, trouble);
    let title = if is_android { "Android app" } else { "iOS app" };
    let frame = Frame::of(app, person, Section::APPS, title).failed(trouble.is_some());
    let page = FormPage {
        frame: &frame,
        lead: "Links on your domains open in this app where it is installed. An app that is here already is replaced.",
        groups,
        trouble: elsewhere,
        action: "/account/new-app",
        hidden: vec![("form", draw_id(app)), ("platform", platform.to_string())],
        submit: "Save the app",
        back: "/account/apps",
    };
    answer(app, status_of(trouble), &frame, &page)
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let found = Shown::from(api::apps::find(&app, &person.caller, &id).await?);
    let action = format!("/account/apps/{id}/delete");
    let name = format!("{} for {}", found.name, found.platform);
    let question = Question {
        section: Section::APPS,
        title: "Delete this app?",
        name: &name,
        lead: "Your links no longer open in it once a phone asks again which apps they belong to, which can take some days.",
        action: &action,
        submit: "Delete the app",
        back: "/account/apps",
    };
    Ok(question.ask(&app, &person, None))
}

/// Removes an app.
pub(super) async fn delete(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    let deleted = api::apps::delete_for(Arc::clone(&app), Arc::clone(&person.caller), &id).await;
    after_deletion(deleted, "/account/apps", "app-deleted")
}
