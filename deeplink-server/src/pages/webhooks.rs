//! Webhooks: the list with a form to add one, a secret that is shown once, and one webhook with its actions.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::event::EventKind;
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{
    CreateWebhook, DEFAULT_RETRY_SECS, DELIVERY_RETENTION_DAYS, DeliveryStatus, MAX_RETRY_SECS, UpdateWebhook,
    WebhookDetail, WebhookFilters, WebhookStatus,
};

use super::PageResult;
use super::chart::Count;
use super::confirm::Question;
use super::deliveries::{DeliveryView, capitalised};
use super::form::{Field, Form, FormError, FormView, Group, Kind, View, secret_of};
use super::frame::{Back, Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::secret::{Secret, SecretKind};
use crate::api;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::{Answer, Once};
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};
use crate::visit::page::host_of;

const LIST: &str = "/account/webhooks";
/// Failed deliveries on a webhook's page.
const SHOWN_FAILED: u32 = 5;
/// The longest time whose failures can be sent again: as long as deliveries are kept.
const MAX_HOURS: i64 = 24 * DELIVERY_RETENTION_DAYS;

/// The checkboxes for the kinds of events.
const KINDS: [(&str, EventKind, &str); 4] = [
    ("event_click", EventKind::Click, "Clicks: a person or an AI agent followed a link"),
    ("event_attribute", EventKind::Attribute, "Attributions: the app was opened from a link"),
    ("event_identify", EventKind::Identify, "Identified users: an install was linked to a user"),
    (
        "event_conversion",
        EventKind::Conversion,
        "Conversions: a user signed up, made a purchase, or took a similar action",
    ),
];

/// A kind of events in words: one, and many.
pub(super) fn words_of(kind: &EventKind) -> (&str, &str) {
    match kind {
        EventKind::Click => ("click", "clicks"),
        EventKind::Attribute => ("attribution", "attributions"),
        EventKind::Identify => ("identified user", "identified users"),
        EventKind::Conversion => ("conversion", "conversions"),
        unknown => (unknown.as_str(), unknown.as_str()),
    }
}

/// A webhook as the pages show it.
pub(super) struct WebhookView {
    pub(super) id: String,
    pub(super) url: String,
    pub(super) host: String,
    events: String,
    pub(super) active: bool,
    class: &'static str,
    status: &'static str,
    /// When it began to fail, or when a delivery last succeeded.
    since: Option<Timestamp>,
    dropped: Count,
    created: Timestamp,
}

impl From<WebhookDetail> for WebhookView {
    fn from(webhook: WebhookDetail) -> Self {
        let health = webhook.health;
        let (class, status, since) = match (&health.status, webhook.active) {
            (WebhookStatus::Paused, _) => ("bad", "Paused after three days of failures", health.failing_since),
            (_, false) => ("over", "Disabled", None),
            (WebhookStatus::Failing, true) => ("bad", "Failing", health.failing_since),
            (WebhookStatus::Healthy, true) => ("good", "Healthy", health.delivered_at),
            _ => ("over", "No live events yet", None),
        };
        let events: Vec<_> = webhook.events.iter().map(|kind| words_of(kind).1).collect();
        Self {
            id: webhook.id.to_string(),
            host: host_of(&webhook.url).to_owned(),
            url: webhook.url,
            events: capitalised(&events.join(", ")),
            active: webhook.active,
            class,
            status,
            since,
            dropped: health.dropped.into(),
            created: webhook.created_at,
        }
    }
}

/// Times for retries to choose from, in seconds.
const RETRY_TIMES: [(i64, &str); 5] = [
    (31, "31 seconds: four retries"),
    (3_600, "1 hour"),
    (6 * 3_600, "6 hours"),
    (24 * 3_600, "24 hours"),
    (MAX_RETRY_SECS, "3 days"),
];

/// The field for how long failed deliveries are retried.
fn retry_field(stored: i64) -> Field {
    let known = RETRY_TIMES.iter().any(|(secs, _)| *secs == stored);
    let other = (!known).then(|| (stored.to_string(), format!("{stored} seconds")));
    let choices = RETRY_TIMES.iter().map(|(secs, text)| (secs.to_string(), (*text).to_owned())).chain(other);
    let hint = "Later retries follow after 2, 10, 30 and 60 minutes, then every 3 hours.";
    Field::choice("retry_for", "Retry failed deliveries for", hint, choices)
}

fn retry_in(form: &Form) -> i64 {
    form.value("retry_for").parse().unwrap_or(DEFAULT_RETRY_SECS)
}

/// The field that filters conversions.
const AFFILIATE: &str = "filters.affiliate_id";

/// The fields of a webhook, whose conversions may already be filtered by an affiliate.
async fn groups(app: &App, person: &Person, filter: Option<&str>, retry_for: i64) -> Result<Vec<Group>, ApiError> {
    let hint = "The public URL of your endpoint, starting with https://.";
    let url = Field::url("url", "Endpoint URL", hint).required().placeholder("https://hooks.example.com/deeplink");
    let kinds = KINDS.iter().map(|(name, _, label)| Field::checkbox(name, label)).collect();
    let affiliates = api::affiliates::all_of(app, &person.caller).await?;
    let all = [(String::new(), "All conversions".to_owned())];
    // A deleted affiliate still filters; a form without it would silently send more.
    let deleted = filter.filter(|id| affiliates.iter().all(|one| one.id.as_str() != *id));
    let deleted = deleted.map(|id| (id.to_owned(), "Deleted affiliate".to_owned()));
    let existing = affiliates.into_iter().map(|one| (one.id.to_string(), one.name));
    let choices: Vec<_> = all.into_iter().chain(existing).chain(deleted).collect();
    let hint = "Choose an affiliate to send only conversions from its links.";
    let is_choice = choices.len() > 1;
    let affiliate = is_choice.then(|| Field::choice(AFFILIATE, "Which conversions", hint, choices));
    Ok(vec![
        Group::plain(vec![url]),
        Group::new("Events", "Choose which events to send.", kinds).standing_for("events"),
        Group::plain(affiliate.into_iter().chain([retry_field(retry_for)]).collect()),
    ])
}

fn kinds_in(form: &Form) -> Vec<EventKind> {
    KINDS.iter().filter(|(name, ..)| form.has(name)).map(|(_, kind, _)| kind.clone()).collect()
}

fn filters_in(form: &Form) -> WebhookFilters {
    form.filled(AFFILIATE).into_iter().fold(WebhookFilters::new(), WebhookFilters::affiliate_id)
}

/// A valid value for each required field.
fn stand_in(field: &str) -> Option<(&'static str, &'static str)> {
    match field {
        "url" => Some(("url", "https://hooks.example.com/")),
        "events" => Some(("event_click", "yes")),
        _ => None,
    }
}

#[derive(Template)]
#[template(path = "pages/webhooks.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    webhooks: Vec<WebhookView>,
    is_full: bool,
    form: FormView,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    list_page(&app, &person, View::Opened(Some(&query))).await
}

async fn list_page(app: &Shared, person: &Person, view: View<'_>) -> PageResult {
    let all = api::webhooks::list_for(app, &person.caller, PageRequest::at(None)).await?.webhooks;
    let is_full = i64::try_from(all.len()).is_ok_and(|count| count >= app.config.webhook_limit.into());
    let initial = Form::with([("event_conversion", Some("yes"))]);
    let groups = groups(app, person, None, DEFAULT_RETRY_SECS).await?;
    let form = FormView::new(app, groups, &initial, &view);
    let frame = Frame::list(app, person, Section::WEBHOOKS, &view);
    let webhooks = all.into_iter().map(WebhookView::from).collect();
    Ok(answer(app, view.outcome(), &frame, &ListPage { frame: &frame, webhooks, is_full, form }))
}

/// Creates a webhook and shows its secret once.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let asked_in = |form: &Form| {
        CreateWebhook::new(form.value("url"), kinds_in(form)).filters(filters_in(form)).retry_for(retry_in(form))
    };
    let allows = |address| app.config.outbound_allow.contains(address);
    if let Some(refused) = View::checked(&form, stand_in, |form| asked_in(form).check(allows).map(drop)) {
        return list_page(&app, &person, refused).await;
    }
    let once = secret_of(&person, LIST, &form);
    let asked = asked_in(&form);
    match api::webhooks::create_for(&app, Arc::clone(&person.caller), once, asked).await {
        Ok(Answer { made, .. }) => {
            let (secret, webhook) = made.as_ref().map(|made| (made.secret.expose(), &made.webhook)).unzip();
            let path = webhook.map_or(LIST.to_owned(), |webhook| format!("{LIST}/{}", webhook.id));
            let back = Back { path: &path, name: webhook.map_or("", |webhook| host_of(&webhook.url)) };
            Ok(secret_page("Webhook secret", CREATED, back).show(&app, &person, secret))
        }
        Err(error) => list_page(&app, &person, View::refused(&form, error)?).await,
    }
}

const CREATED: &str = "Your endpoint uses it to verify that events come from this service. Store it where only your endpoint can read it.";
const ROTATED: &str = "X-Service-Signature uses it from now on. For 24 hours, webhook-signature also includes a signature made with the previous secret. Store it where only your endpoint can read it.";

fn secret_page<'a>(title: &'a str, lead: &'a str, back: Back<'a>) -> Secret<'a> {
    let (section, kind) = (Section::WEBHOOKS, SecretKind::WebhookSecret);
    Secret { section, title, lead, kind, back, repeated: "webhook-secret-shown" }
}

#[derive(Template)]
#[template(path = "pages/webhook.html")]
struct WebhookPage<'a> {
    frame: &'a Frame,
    webhook: WebhookView,
    /// Settings that may be a mistake.
    warnings: Vec<&'static str>,
    /// The newest deliveries that failed.
    failed: Vec<DeliveryView>,
    form: FormView,
}

/// Allowed settings of a webhook that may be a mistake.
fn warnings(webhook: &WebhookDetail, all: &[WebhookDetail]) -> Vec<&'static str> {
    let filters_nothing = !webhook.filters.is_empty() && !webhook.events.contains(&EventKind::Conversion);
    let is_duplicate = |other: &WebhookDetail| other.id != webhook.id && other.url == webhook.url && other.active;
    let warnings = [
        (filters_nothing, "The affiliate filter has no effect, because conversion events are not sent."),
        (
            webhook.active && all.iter().any(is_duplicate),
            "Another webhook has the same URL, so the endpoint receives an event once from each of them, each time signed \
             with a different secret.",
        ),
    ];
    warnings.into_iter().filter_map(|(applies, text)| applies.then_some(text)).collect()
}

/// One webhook.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    page(&app, &person, &id, View::Opened(Some(&query))).await
}

/// A webhook of the person's account.
pub(super) async fn named(app: &App, person: &Person, id: &str) -> Result<WebhookDetail, ApiError> {
    Ok(api::webhooks::find(app, &person.caller, &api::webhooks::named(id)?).await?.detail())
}

async fn page(app: &Shared, person: &Person, id: &str, view: View<'_>) -> PageResult {
    let webhook = named(app, person, id).await?;
    let kinds = KINDS.iter().map(|(name, kind, _)| (*name, webhook.events.contains(kind).then_some("yes")));
    let filter = webhook.filters.affiliate_id.as_deref();
    let retry_for = webhook.retry_for.to_string();
    let others = [("url", Some(&*webhook.url)), (AFFILIATE, filter), ("retry_for", Some(&*retry_for))];
    let stored = Form::with(kinds.chain(others));
    let form = FormView::new(app, groups(app, person, filter, webhook.retry_for).await?, &stored, &view);
    let frame = Frame::of(app, person, Section::WEBHOOKS, host_of(&webhook.url)).showing(&view);
    let all = api::webhooks::list_for(app, &person.caller, PageRequest::at(None)).await?.webhooks;
    let warnings = warnings(&webhook, &all);
    let failed = Some(DeliveryStatus::Failed);
    let failed = api::deliveries::page_of(app, &person.caller, &webhook.id, failed, None, SHOWN_FAILED).await?;
    let failed = failed.deliveries.into_iter().map(|delivery| delivery.detail.into()).collect();
    let page = WebhookPage { frame: &frame, webhook: webhook.into(), warnings, failed, form };
    Ok(answer(app, view.outcome(), &frame, &page))
}

/// Changes a webhook: its fields, or only whether it is enabled.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    let named = api::webhooks::named(&id)?;
    let stored = api::webhooks::find(&app, &person.caller, &named).await?.detail();
    let (asked, done) = match form.value("active") {
        "yes" => (UpdateWebhook::new().active(true), "webhook-on"),
        "no" => (UpdateWebhook::new().active(false), "webhook-off"),
        _ => {
            let asked_in = |form: &Form| {
                UpdateWebhook::new().url(form.value("url")).events(kinds_in(form)).retry_for(retry_in(form))
            };
            let allows = |address| app.config.outbound_allow.contains(address);
            if let Some(refused) = View::checked(&form, stand_in, |form| asked_in(form).check(allows).map(drop)) {
                return page(&app, &person, &id, refused).await;
            }
            let asked = asked_in(&form);
            let filters = filters_in(&form);
            // A deleted affiliate that is stored can be kept, but not set. An account without affiliates has no field.
            let asked = if filters == stored.filters || !form.has(AFFILIATE) { asked } else { asked.filters(filters) };
            (asked, "webhook-saved")
        }
    };
    match api::webhooks::update_for(&app, Arc::clone(&person.caller), named, asked).await {
        Ok(_) => Ok(see_other(&format!("{LIST}/{id}?done={done}"))),
        Err(error) => page(&app, &person, &id, View::refused(&form, error)?).await,
    }
}

/// Asks for confirmation before the secret is rotated.
pub(super) async fn confirm_rotate(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let webhook = named(&app, &person, &id).await?;
    Ok(rotate_page(&app, &person, &webhook, None))
}

fn rotate_page(app: &App, person: &Person, webhook: &WebhookDetail, error: Option<&FormError>) -> Response {
    let question = Question {
        section: Section::WEBHOOKS,
        title: "Rotate the secret?".to_owned(),
        subject: &webhook.url,
        lead: "X-Service-Signature uses the new secret immediately. For 24 hours, webhook-signature also includes a signature made with the current secret. Rotating again within 24 hours invalidates the current secret immediately. This cannot be undone.",
        submit: "Rotate secret".to_owned(),
        is_typed: false,
        keep: "Cancel",
        back: Back { path: &format!("{LIST}/{}", webhook.id), name: host_of(&webhook.url) },
    };
    question.ask(app, person, error)
}

/// Rotates a webhook's secret and shows the new one once.
pub(super) async fn rotate(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    let webhook = named(&app, &person, &id).await?;
    let once = secret_of(&person, &format!("{LIST}/{id}/secret"), &form);
    match api::webhooks::rotate_for(&app, Arc::clone(&person.caller), once, webhook.id.clone()).await {
        Ok(Answer { made, .. }) => {
            let back = Back { path: &format!("{LIST}/{id}"), name: host_of(&webhook.url) };
            let secret = made.as_ref().map(|made| made.secret.expose());
            Ok(secret_page("New webhook secret", ROTATED, back).show(&app, &person, secret))
        }
        Err(error) => Ok(rotate_page(&app, &person, &webhook, Some(&FormError::of(error)?))),
    }
}

/// Sends a test event and redirects to its delivery.
pub(super) async fn test(State(app): State<Shared>, person: Person, Path(id): Path<String>, form: Form) -> PageResult {
    let webhook = named(&app, &person, &id).await?.id;
    let once = Once::form(&person.caller, &format!("{LIST}/{id}/test"), form.value("form"), "");
    match api::deliveries::test_for(&app, Arc::clone(&person.caller), once, webhook, None).await {
        Ok(made) => {
            let delivery = made.into_made()?.id;
            Ok(see_other(&format!("{LIST}/{id}/deliveries/{delivery}?done=event-sent")))
        }
        Err(error) => page(&app, &person, &id, View::refused(None, error)?).await,
    }
}

/// Sends what failed in the last hours again.
pub(super) async fn replay(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    let webhook = named(&app, &person, &id).await?.id;
    let hours = form.value("hours").parse::<i64>().ok().filter(|hours| (1..=MAX_HOURS).contains(hours)).unwrap_or(24);
    let since = app.clock.now().plus_millis(-hours * 3_600_000);
    let once = Once::form(&person.caller, &format!("{LIST}/{id}/replay"), form.value("form"), &form.whole());
    match api::failed_deliveries::replay_for(&app, Arc::clone(&person.caller), once, webhook, since).await {
        Ok(made) => {
            let made = made.into_made()?;
            let done = match made.count {
                0 => "replayed-none",
                _ if made.has_more => "replayed-many",
                _ => "replayed",
            };
            Ok(see_other(&format!("{LIST}/{id}?done={done}")))
        }
        Err(error) => page(&app, &person, &id, View::refused(None, error)?).await,
    }
}

/// Redirects to the webhook: a bookmark or a sign-in comes back without the form.
pub(super) async fn back(Path(id): Path<String>) -> PageResult {
    Ok(see_other(&format!("{LIST}/{}", api::webhooks::named(&id)?)))
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let webhook = named(&app, &person, &id).await?;
    let lead = "No more events will be sent to it, pending deliveries will be canceled, and its delivery log will be deleted. This cannot be undone.";
    let back = Back { path: &format!("{LIST}/{id}"), name: host_of(&webhook.url) };
    Ok(Question::delete(Section::WEBHOOKS, "webhook", &webhook.url, lead, back).ask(&app, &person, None))
}

/// Deletes a webhook.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    after_deletion(api::webhooks::delete_for(&app, person.caller, &id).await, LIST, "webhook-deleted")
}
