//! Webhooks: the list with the form for one more, a secret that is shown once, and one webhook with what can be done to it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::event::EventKind;
use deeplink_core::id::WebhookId;
use deeplink_core::signature::WebhookSecret;
use deeplink_core::webhook::{
    CreateWebhook, CreatedWebhook, DeliveryDetail, MAX_WEBHOOKS, RotatedSecret, UpdateWebhook, WebhookDetail,
    WebhookFilters, WebhookStatus,
};
use http::StatusCode;

use super::confirm::Question;
use super::form::{Field, Form, Group, Kind, Trouble, draw_id, fill, secret_of, status_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::secret::{Carrier, Secret};
use super::when::When;
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::{App, Shared};

const LIST: &str = "/account/webhooks";

/// The fields that stand for kinds of events.
const KINDS: [(&str, EventKind, &str); 4] = [
    ("event_click", EventKind::Click, "Clicks: a person or an agent followed a link"),
    ("event_attribute", EventKind::Attribute, "Touches: a link opened an install"),
    ("event_identify", EventKind::Identify, "Users: an install belongs to a user"),
    ("event_conversion", EventKind::Conversion, "Conversions: a user did something that counts"),
];

/// A webhook as the pages show it.
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) url: String,
    events: String,
    pub(super) active: bool,
    class: &'static str,
    status: &'static str,
    /// When it began to fail, or delivered last.
    since: Option<When>,
    dropped: i64,
    created: When,
}

impl From<WebhookDetail> for Shown {
    fn from(webhook: WebhookDetail) -> Self {
        let health = webhook.health;
        let (class, status, since) = match (&health.status, webhook.active) {
            (WebhookStatus::Paused, _) => ("bad", "Paused after three days of failures", health.failing_since),
            (_, false) => ("over", "Switched off", None),
            (WebhookStatus::Failing, true) => ("bad", "Fails", health.failing_since),
            (WebhookStatus::Healthy, true) => ("good", "Delivers", health.delivered_at),
            _ => ("wait", "Nothing delivered yet", None),
        };
        let events: Vec<_> = webhook.events.iter().map(EventKind::as_str).collect();
        Self {
            id: webhook.id.to_string(),
            url: webhook.url,
            events: events.join(", "),
            active: webhook.active,
            class,
            status,
            since: since.map(When::from),
            dropped: health.dropped,
            created: webhook.created_at.into(),
        }
    }
}

/// The field that narrows conversions.
const WHOSE: &str = "filters.affiliate_id";

/// The fields of a webhook, whose conversions may be narrowed to an affiliate already.
async fn groups(app: &App, person: &Person, narrowed_to: Option<&str>) -> Result<Vec<Group>, ApiError> {
    let hint = "A public address of yours that starts with https://.";
    let url = Field::address("url", "Address", hint).required().such_as("https://hooks.example.com/deeplink");
    let kinds = KINDS.iter().map(|(name, _, label)| Field::tick(name, label)).collect();
    let affiliates = api::affiliates::list_for(app, &person.caller).await?.affiliates;
    let all = [(String::new(), "Everybody’s".to_owned())];
    // One that is deleted still narrows; a form without it would silently widen what is sent.
    let deleted = narrowed_to.filter(|id| affiliates.iter().all(|one| one.id.as_str() != *id));
    let deleted = deleted.map(|id| (id.to_owned(), "An affiliate that is deleted".to_owned()));
    let there = affiliates.into_iter().map(|one| (one.id.to_string(), one.name));
    let choices = all.into_iter().chain(there).chain(deleted);
    let whose = Field::choice(WHOSE, "Conversions", "By whose links.", choices);
    Ok(vec![
        Group::of("", "", vec![url]),
        Group::of("Events", "What it is told of.", kinds),
        Group::of("", "", vec![whose]),
    ])
}

fn kinds_in(form: &Form) -> Vec<EventKind> {
    KINDS.iter().filter(|(name, ..)| form.has(name)).map(|(_, kind, _)| kind.clone()).collect()
}

fn filters_in(form: &Form) -> WebhookFilters {
    form.filled(WHOSE).into_iter().fold(WebhookFilters::new(), WebhookFilters::affiliate_id)
}

#[derive(Template)]
#[template(path = "pages/webhooks.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    webhooks: Vec<Shown>,
    /// Whether there can be one more.
    has_room: bool,
    groups: Vec<Group>,
    form_id: String,
    trouble: Option<String>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    let usual = Form::with([("event_conversion", Some("yes"))]);
    list_page(&app, &person, Some(&query), &usual, None).await
}

async fn list_page(
    app: &Shared,
    person: &Person,
    query: Option<&Query>,
    form: &Form,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let all = api::webhooks::list_for(app, &person.caller).await?.webhooks;
    let has_room = i64::try_from(all.len()).is_ok_and(|count| count < MAX_WEBHOOKS);
    let mut groups = groups(app, person, None).await?;
    let elsewhere = fill(&mut groups, form, trouble);
    let frame = Frame::of(app, person, Section::WEBHOOKS, "Webhooks").failed(trouble.is_some()).after(query);
    let webhooks = all.into_iter().map(Shown::from).collect();
    let page = ListPage { frame: &frame, webhooks, has_room, groups, form_id: draw_id(app), trouble: elsewhere };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

/// Makes a webhook and shows its secret, this once.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    let once = secret_of(&person, LIST, &form);
    let asked = CreateWebhook::new(form.value("url"), kinds_in(&form)).filters(filters_in(&form));
    match api::webhooks::create_for(&app, Arc::clone(&person.caller), once, asked).await {
        Ok(made) if made.replayed => Ok(see_other(&format!("{LIST}?done=webhook-secret-shown"))),
        Ok(made) => {
            let made: CreatedWebhook = made.said()?;
            Ok(secret_page(&app, &person, ("The new webhook’s secret", FIRST), &made.webhook.id, &made.secret))
        }
        Err(error) => list_page(&app, &person, None, &form, Some(&Trouble::of(error)?)).await,
    }
}

/// What is said of a webhook's first secret, and of a later one.
const FIRST: &str =
    "Your receiver verifies with it that an event comes from here. Keep it where only your receiver finds it.";
const LATER: &str = "X-Service-Signature is made with it from now on. In webhook-signature the secret before signs beside it for 24 hours. Keep it where only your receiver finds it.";

fn secret_page(
    app: &App,
    person: &Person,
    (title, lead): (&str, &str),
    id: &WebhookId,
    secret: &WebhookSecret,
) -> Response {
    let frame = Frame::of(app, person, Section::WEBHOOKS, title);
    let page = Secret {
        frame: &frame,
        lead,
        secret: secret.expose(),
        base: app.public_url.as_str().trim_end_matches('/'),
        carried_by: Carrier::Receivers,
        back: &format!("{LIST}/{id}"),
    };
    answer(app, StatusCode::OK, &frame, &page)
}

#[derive(Template)]
#[template(path = "pages/webhook.html")]
struct WebhookPage<'a> {
    frame: &'a Frame,
    webhook: Shown,
    /// What may not be meant.
    notes: Vec<&'static str>,
    groups: Vec<Group>,
    form_id: String,
    trouble: Option<String>,
}

/// What may not be meant of a webhook, though it is allowed.
fn notes(webhook: &WebhookDetail, all: &[WebhookDetail]) -> Vec<&'static str> {
    let filters_nothing = !webhook.filters.is_empty() && !webhook.events.contains(&EventKind::Conversion);
    let is_twin = |other: &WebhookDetail| other.id != webhook.id && other.url == webhook.url && other.active;
    let notes = [
        (filters_nothing, "It is narrowed to the conversions of one affiliate, and conversions are not sent to it."),
        (
            webhook.active && all.iter().any(is_twin),
            "Your other webhook has the same address: what both are told of comes there twice, signed with two secrets.",
        ),
    ];
    notes.into_iter().filter_map(|(applies, note)| applies.then_some(note)).collect()
}

/// One webhook.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> Result<Response, ApiError> {
    page(&app, &person, &id, Some(&query), None, None).await
}

/// A webhook of whoever looks.
pub(super) async fn named(app: &App, person: &Person, id: &str) -> Result<WebhookDetail, ApiError> {
    Ok(api::webhooks::find(app, &person.caller, &api::webhooks::named(id)?).await?.detail())
}

async fn page(
    app: &Shared,
    person: &Person,
    id: &str,
    query: Option<&Query>,
    form: Option<&Form>,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let webhook = named(app, person, id).await?;
    let kinds = KINDS.iter().map(|(name, kind, _)| (*name, webhook.events.contains(kind).then_some("yes")));
    let narrowed_to = webhook.filters.affiliate_id.as_deref();
    let rest = [("url", Some(&*webhook.url)), (WHOSE, narrowed_to)];
    let stored = Form::with(kinds.chain(rest));
    let mut groups = groups(app, person, narrowed_to).await?;
    let elsewhere = fill(&mut groups, form.unwrap_or(&stored), trouble);
    let frame = Frame::of(app, person, Section::WEBHOOKS, "Webhook").failed(trouble.is_some()).after(query);
    let notes = notes(&webhook, &api::webhooks::list_for(app, &person.caller).await?.webhooks);
    let form_id = draw_id(app);
    let page = WebhookPage { frame: &frame, webhook: webhook.into(), notes, groups, form_id, trouble: elsewhere };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

/// Changes a webhook: what the form has, which is its fields or whether it is on.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, ApiError> {
    let named = api::webhooks::named(&id)?;
    let stored = api::webhooks::find(&app, &person.caller, &named).await?.detail();
    let (asked, done) = match form.value("active") {
        "yes" => (UpdateWebhook::new().active(true), "webhook-on"),
        "no" => (UpdateWebhook::new().active(false), "webhook-off"),
        _ => {
            let asked = UpdateWebhook::new().url(form.value("url")).events(kinds_in(&form));
            let filters = filters_in(&form);
            // What is stored may be an affiliate that is deleted, which can be kept and not chosen.
            let asked = if filters == stored.filters { asked } else { asked.filters(filters) };
            (asked, "webhook-saved")
        }
    };
    match api::webhooks::update_for(Arc::clone(&app), Arc::clone(&person.caller), named, asked).await {
        Ok(_) => Ok(see_other(&format!("{LIST}/{id}?done={done}"))),
        Err(error) => page(&app, &person, &id, None, Some(&form), Some(&Trouble::of(error)?)).await,
    }
}

/// Asks once more before there is a new secret.
pub(super) async fn confirm_rotate(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let webhook = named(&app, &person, &id).await?;
    Ok(ask_rotate(&app, &person, &webhook, None))
}

fn ask_rotate(app: &App, person: &Person, webhook: &WebhookDetail, trouble: Option<&Trouble>) -> Response {
    let back = format!("{LIST}/{}", webhook.id);
    let question = Question {
        section: Section::WEBHOOKS,
        title: "Make a new secret?",
        name: &webhook.url,
        lead: "X-Service-Signature is made with it at once. In webhook-signature the secret of now goes on signing beside it for 24 hours; if one more is made within that time, the secret of now is over with it. This cannot be taken back.",
        action: &format!("{back}/secret"),
        submit: "Make a new secret",
        back: &back,
    };
    question.ask(app, person, trouble)
}

/// Gives a webhook a new secret and shows it, this once.
pub(super) async fn rotate(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, ApiError> {
    let webhook = named(&app, &person, &id).await?;
    let once = secret_of(&person, &format!("{LIST}/{id}/secret"), &form);
    match api::webhooks::rotate_for(&app, Arc::clone(&person.caller), once, webhook.id.clone()).await {
        Ok(made) if made.replayed => Ok(see_other(&format!("{LIST}/{id}?done=webhook-secret-shown"))),
        Ok(made) => {
            let made: RotatedSecret = made.said()?;
            Ok(secret_page(&app, &person, ("The webhook’s new secret", LATER), &made.id, &made.secret))
        }
        Err(error) => Ok(ask_rotate(&app, &person, &webhook, Some(&Trouble::of(error)?))),
    }
}

/// Sends a made-up event and leads to what becomes of it.
pub(super) async fn test(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, ApiError> {
    let webhook = named(&app, &person, &id).await?.id;
    let once = Once::form(&person.caller, &format!("{LIST}/{id}/test"), form.value("form"), "");
    match api::deliveries::test_for(Arc::clone(&app), Arc::clone(&person.caller), once, webhook, None).await {
        Ok(made) => {
            let delivery: DeliveryDetail = made.said()?;
            Ok(see_other(&format!("{LIST}/{id}/deliveries/{}?done=event-sent", delivery.id)))
        }
        Err(error) => page(&app, &person, &id, None, None, Some(&Trouble::of(error)?)).await,
    }
}

/// Leads to the webhook: a bookmark or a sign-in comes back without the form.
pub(super) async fn back(Path(id): Path<String>) -> Result<Response, ApiError> {
    Ok(see_other(&format!("{LIST}/{}", api::webhooks::named(&id)?)))
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let webhook = named(&app, &person, &id).await?;
    let back = format!("{LIST}/{id}");
    let action = format!("{back}/delete");
    let question = Question {
        section: Section::WEBHOOKS,
        title: "Delete this webhook?",
        name: &webhook.url,
        lead: "Nothing more is sent to it, what waits is given up, and the log of its deliveries goes with it. This cannot be taken back.",
        action: &action,
        submit: "Delete the webhook",
        back: &back,
    };
    Ok(question.ask(&app, &person, None))
}

/// Deletes a webhook.
pub(super) async fn delete(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    after_deletion(api::webhooks::delete_for(app, person.caller, &id).await, LIST, "webhook-deleted")
}
