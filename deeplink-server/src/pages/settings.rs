//! Settings: what the account sets for itself, what programs and support ask for, and who is signed in.

use std::borrow::Cow;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::account::{Account, DeleteAccount, MAX_ACCOUNT_NAME, UpdateAccount};
use deeplink_core::colour::Rgb;
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;

use super::PageResult;
use super::confirm::Question;
use super::form::{Field, Form, FormError, FormView, Group, Kind, View};
use super::frame::{Frame, Section, answer};
use super::headers::see_other;
use super::notice::has_hidden_icon;
use super::person::Person;
use crate::api;
use crate::http::extract::Query;
use crate::state::{App, Shared};

#[derive(Template)]
#[template(path = "pages/settings.html")]
struct SettingsPage<'a> {
    frame: &'a Frame,
    account: &'a str,
    created: Timestamp,
    email: &'a str,
    is_owner: bool,
    /// The service's URL.
    base: &'a str,
    form: FormView,
}

/// The settings.
pub(super) async fn show(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let account = api::account::find(&app, &person.caller).await?;
    Ok(page(&app, &person, &account, &View::Opened(Some(&query))))
}

fn page(app: &App, person: &Person, account: &Account, view: &View<'_>) -> Response {
    let stored = Form::with([
        ("name", account.name.as_deref()),
        ("time_zone", account.time_zone.as_deref()),
        ("icon_url", account.icon_url.as_deref()),
        ("theme_color", account.theme_color.as_deref()),
    ]);
    let form = FormView::new(app, groups(account), &stored, view);
    let frame = Frame::of(app, person, Section::SETTINGS, "Settings").showing(view);
    let page = SettingsPage {
        frame: &frame,
        account: person.who.tenant.as_str(),
        created: person.who.tenant_created_at,
        email: &person.who.email,
        is_owner: person.who.is_owner,
        base: app.public_url.as_str().trim_end_matches('/'),
        form,
    };
    answer(app, view.outcome(), &frame, &page)
}

fn groups(account: &Account) -> Vec<Group> {
    let general = vec![
        Field::line("name", "Name", "Only your team sees it.").max_length(MAX_ACCOUNT_NAME),
        Field::choice("time_zone", "Time zone", "Used for times and charts on these pages.", zones(account)),
    ];
    let branding = vec![
        Field::url("icon_url", "Icon URL", "A square image, served over HTTPS."),
        Field::line("theme_color", "Button color", "").max_length(7).placeholder("#2e7d4f"),
    ];
    let hint = "Optional. Shown on landing pages of links whose app has no icon or color.";
    vec![Group::plain(general), Group::new("Branding", hint, branding)]
}

/// Each time zone with its name: UTC, the one that is set, and places.
fn zones(account: &Account) -> Vec<(Cow<'static, str>, Cow<'static, str>)> {
    let set = account.time_zone.iter().filter(|name| !Zone::places().contains(name));
    let set = set.map(|name| (Cow::from(name.clone()), Cow::from(name.clone())));
    let places = Zone::places().iter().map(|name| (Cow::from(&**name), Cow::from(name.replace('_', " "))));
    std::iter::once((Cow::from(""), Cow::from("UTC"))).chain(set).chain(places).collect()
}

/// Changes the settings.
pub(super) async fn update(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let asked_in = |form: &Form| {
        let mut asked = UpdateAccount::new();
        asked.name = form.filled("name").into();
        asked.time_zone = form.filled("time_zone").into();
        asked.icon_url = form.filled("icon_url").into();
        asked.theme_color = form.filled("theme_color").map(Rgb::with_hash).into();
        asked
    };
    let view = match View::checked(&form, |_| None, |form| asked_in(form).check().map(drop)) {
        Some(refused) => refused,
        None => match api::account::update_for(&app, Arc::clone(&person.caller), asked_in(&form)).await {
            Ok(_) if has_hidden_icon(&form) => {
                return Ok(see_other("/account/settings?done=settings-saved-without-icon"));
            }
            Ok(_) => return Ok(see_other("/account/settings?done=settings-saved")),
            Err(error) => View::refused(&form, error)?,
        },
    };
    let account = api::account::find(&app, &person.caller).await?;
    Ok(page(&app, &person, &account, &view))
}

/// Asks for confirmation, with the account's ID.
pub(super) async fn confirm(State(app): State<Shared>, person: Person) -> PageResult {
    Ok(question(&app, &person, None))
}

fn question(app: &App, person: &Person, error: Option<&FormError>) -> Response {
    let question = Question {
        is_typed: true,
        ..Question::delete(
            Section::SETTINGS,
            "account",
            person.who.tenant.as_str(),
            "7 days from now, everything in the account will be permanently deleted: links (which will then stop working), clicks and reports, domains, apps, keys and the team. Until then, everything will keep working as usual, and you can cancel the deletion on any page.",
            Section::SETTINGS.back(),
        )
    };
    question.ask(app, person, error)
}

/// Schedules the deletion of the account.
pub(super) async fn delete(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let asked = DeleteAccount::new(form.value("confirm"));
    match api::account::delete_for(&app, Arc::clone(&person.caller), &asked).await {
        Ok(_) => Ok(see_other("/account/settings")),
        Err(error) => Ok(question(&app, &person, Some(&FormError::of(error)?))),
    }
}

/// Cancels the deletion of the account.
pub(super) async fn cancel_deletion(State(app): State<Shared>, person: Person, _: Form) -> PageResult {
    let kept = api::account::cancel_deletion_for(&app, Arc::clone(&person.caller)).await?;
    let is_canceled = person.who.tenant_deletes_at.is_some() && kept.deletes_at.is_none();
    Ok(see_other(if is_canceled { "/account/settings?done=deletion-canceled" } else { "/account/settings" }))
}

/// Redirects to the settings: a bookmark or a sign-in comes back without the form.
pub(super) async fn back() -> PageResult {
    Ok(see_other("/account/settings"))
}
