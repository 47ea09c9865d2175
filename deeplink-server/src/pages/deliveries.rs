//! Webhook deliveries: the log, and one delivery with its attempts and the last response.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{Attempt, DeliveryDetail, DeliveryStatus};
use http::StatusCode;

use super::PageResult;
use super::chart::Count;
use super::form::{Form, View, draw_id};
use super::frame::{Frame, Pager, Section, answer};
use super::headers::see_other;
use super::person::Person;
use super::webhooks::{WebhookView, named, words_of};
use crate::api;
use crate::db::delivery_log::StoredDelivery;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::Shared;

/// Deliveries per page of the log.
const PAGE_SIZE: u32 = 25;

/// A delivery as the pages show it.
pub(super) struct DeliveryView {
    pub(super) id: String,
    /// The kind of its event in words, such as `conversion`.
    event: String,
    pub(super) event_id: String,
    /// Set if it is a test or a manual replay.
    pub(super) label: Option<&'static str>,
    /// The delivery that it replays.
    replay_of: Option<String>,
    class: &'static str,
    status: &'static str,
    body: String,
    pub(super) attempts: Vec<AttemptRow>,
    next: Option<Timestamp>,
    pub(super) created: Timestamp,
}

pub(super) struct AttemptRow {
    at: Timestamp,
    milliseconds: Count,
    /// The HTTP status, or why there is none.
    pub(super) outcome: String,
}

impl From<Attempt> for AttemptRow {
    fn from(attempt: Attempt) -> Self {
        let outcome = match (attempt.status, attempt.error) {
            (Some(status), _) => format!("HTTP {status}"),
            (None, Some(error)) => capitalised(error.strip_prefix("there was ").unwrap_or(&error)),
            (None, None) => "No response".to_owned(),
        };
        Self { at: attempt.at, milliseconds: attempt.duration_ms.into(), outcome }
    }
}

impl DeliveryView {
    /// The kind of its event at the start of a line.
    pub(super) fn event(&self) -> String {
        capitalised(&self.event)
    }
}

/// A text with its first letter as a capital.
pub(super) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// The class of a status's badge, and its text.
fn badge(status: &DeliveryStatus) -> (&'static str, &'static str) {
    match status {
        DeliveryStatus::Delivered => ("good", "Delivered"),
        DeliveryStatus::Failed => ("bad", "Failed"),
        DeliveryStatus::Canceled => ("over", "Canceled"),
        DeliveryStatus::Dropped => ("bad", "Dropped"),
        _ => ("wait", "Pending"),
    }
}

impl From<DeliveryDetail> for DeliveryView {
    fn from(delivery: DeliveryDetail) -> Self {
        let (class, status) = badge(&delivery.status);
        let label = match (delivery.test, &delivery.replay_of) {
            (true, None) => Some("Test"),
            (true, Some(_)) => Some("Test, resent"),
            (false, Some(_)) => Some("Resent"),
            (false, None) => None,
        };
        Self {
            id: delivery.id.to_string(),
            event: words_of(&delivery.event).0.to_owned(),
            event_id: delivery.event_id.to_string(),
            label,
            replay_of: delivery.replay_of.map(|id| id.to_string()),
            class,
            status,
            body: delivery.request_body,
            attempts: delivery.attempts.into_iter().map(AttemptRow::from).collect(),
            next: delivery.next_attempt_at,
            created: delivery.created_at,
        }
    }
}

#[derive(Template)]
#[template(path = "pages/deliveries.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    webhook: WebhookView,
    deliveries: Vec<DeliveryView>,
    /// The status filters, starting with "all": the query's value, and its label.
    filters: Vec<(&'static str, &'static str)>,
    /// The active filter.
    filter: &'static str,
    pager: Pager,
    form_id: String,
}

/// The status to filter by; `None` if the query names no status.
fn filter(value: Option<&str>) -> Option<&'static DeliveryStatus> {
    DeliveryStatus::ALL.iter().find(|status| Some(status.as_str()) == value)
}

/// The log, newest first.
pub(super) async fn list(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    let webhook = named(&app, &person, &id).await?;
    let (cursor, status) = (query.one("cursor")?, filter(query.one("status")?));
    let found = api::deliveries::page_of(&app, &person.caller, &webhook.id, status.cloned(), cursor, PAGE_SIZE).await?;
    let deliveries = found.deliveries.into_iter().map(|delivery| delivery.detail.into()).collect();
    let frame = Frame::of(&app, &person, Section::WEBHOOKS, "Deliveries").after(&query);
    let filtered = status.map(|status| format!("?status={}", status.as_str())).unwrap_or_default();
    let first = format!("/account/webhooks/{}/deliveries{filtered}", webhook.id);
    let page = ListPage {
        frame: &frame,
        webhook: webhook.into(),
        deliveries,
        filters: std::iter::once(("", "All"))
            .chain(DeliveryStatus::ALL.iter().map(|status| (status.as_str(), badge(status).1)))
            .collect(),
        filter: status.map_or("", DeliveryStatus::as_str),
        pager: Pager::new(first, cursor, found.next_cursor),
        form_id: draw_id(&app),
    };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}

#[derive(Template)]
#[template(path = "pages/delivery.html")]
struct DeliveryPage<'a> {
    frame: &'a Frame,
    webhook: WebhookView,
    delivery: DeliveryView,
    /// The last response's body.
    response: Option<String>,
    form_id: String,
    error: Option<String>,
}

/// One delivery.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path((id, delivery)): Path<(String, String)>,
    query: Query,
) -> PageResult {
    page(&app, &person, (&id, &delivery), View::Opened(Some(&query))).await
}

async fn page(app: &Shared, person: &Person, (id, delivery): (&str, &str), view: View<'_>) -> PageResult {
    let webhook = named(app, person, id).await?;
    let found = api::deliveries::find_delivery(app, &person.caller, &webhook.id, delivery).await?;
    let StoredDelivery { detail, answer: response } = found;
    let frame = Frame::of(app, person, Section::WEBHOOKS, "Delivery").showing(&view);
    let page = DeliveryPage {
        frame: &frame,
        webhook: webhook.into(),
        delivery: detail.into(),
        response: response.filter(|text| !text.is_empty()),
        form_id: draw_id(app),
        error: view.error().map(|error| error.text.clone()),
    };
    Ok(answer(app, view.outcome(), &frame, &page))
}

/// Sends the event again and redirects to the new delivery.
pub(super) async fn replay(
    State(app): State<Shared>,
    person: Person,
    Path((id, delivery)): Path<(String, String)>,
    form: Form,
) -> PageResult {
    let webhook = named(&app, &person, &id).await?.id;
    let list = format!("/account/webhooks/{id}/deliveries");
    let once = Once::form(&person.caller, &format!("{list}/{delivery}"), form.value("form"), "");
    match api::deliveries::replay_for(&app, Arc::clone(&person.caller), once, webhook, &delivery).await {
        Ok(made) => {
            let delivery = made.into_made()?.id;
            Ok(see_other(&format!("{list}/{delivery}?done=event-sent")))
        }
        Err(error) => page(&app, &person, (&id, &delivery), View::refused(None, error)?).await,
    }
}
