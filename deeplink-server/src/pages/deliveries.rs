//! What was sent to a webhook: the log, and one delivery with all its attempts and what the receiver said last.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::webhook::{Attempt, DeliveryDetail, DeliveryStatus};
use http::StatusCode;

use super::form::{Form, Trouble, draw_id, status_of};
use super::frame::{Frame, Section, answer};
use super::headers::see_other;
use super::person::Person;
use super::webhooks::{Shown as Webhook, named};
use super::when::When;
use crate::api;
use crate::db::delivery_log::StoredDelivery;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::Shared;

/// Deliveries of one page of the log.
const OF_A_PAGE: u32 = 25;

/// A delivery as the pages show it.
struct Shown {
    id: String,
    event: String,
    event_id: String,
    /// Why it is sent, if not because something happened.
    mark: Option<&'static str>,
    /// The delivery whose event is sent once more.
    replay_of: Option<String>,
    class: &'static str,
    status: &'static str,
    body: String,
    attempts: Vec<ShownAttempt>,
    next: Option<When>,
    created: When,
}

/// One attempt.
struct ShownAttempt {
    at: When,
    milliseconds: i64,
    /// The status, or why there is none.
    outcome: String,
}

impl From<Attempt> for ShownAttempt {
    fn from(attempt: Attempt) -> Self {
        let outcome = match (attempt.status, attempt.error) {
            (Some(status), _) => format!("Status {status}"),
            (None, Some(error)) => capitalised(error.strip_prefix("there was ").unwrap_or(&error)),
            (None, None) => "No answer".to_owned(),
        };
        Self { at: attempt.at.into(), milliseconds: attempt.duration_ms, outcome }
    }
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

/// A status as a sign and in words.
fn words(status: &DeliveryStatus) -> (&'static str, &'static str) {
    match status {
        DeliveryStatus::Delivered => ("good", "Delivered"),
        DeliveryStatus::Failed => ("bad", "Failed"),
        DeliveryStatus::Canceled => ("over", "Given up"),
        DeliveryStatus::Dropped => ("bad", "Dropped"),
        _ => ("wait", "On its way"),
    }
}

impl From<DeliveryDetail> for Shown {
    fn from(delivery: DeliveryDetail) -> Self {
        let (class, status) = words(&delivery.status);
        let mark = match (delivery.test, &delivery.replay_of) {
            (true, None) => Some("Test"),
            (true, Some(_)) => Some("Test, sent again"),
            (false, Some(_)) => Some("Sent again"),
            (false, None) => None,
        };
        Self {
            id: delivery.id.to_string(),
            event: delivery.event.to_string(),
            event_id: delivery.event_id.to_string(),
            mark,
            replay_of: delivery.replay_of.map(|id| id.to_string()),
            class,
            status,
            body: delivery.request_body,
            attempts: delivery.attempts.into_iter().map(ShownAttempt::from).collect(),
            next: delivery.next_attempt_at.map(When::from),
            created: delivery.created_at.into(),
        }
    }
}

#[derive(Template)]
#[template(path = "pages/deliveries.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    webhook: Webhook,
    deliveries: Vec<Shown>,
    /// Which deliveries can be shown, the first being all: what the address says, and in words.
    choices: Vec<(&'static str, &'static str)>,
    /// Which are.
    chosen: &'static str,
    is_first: bool,
    next: Option<String>,
}

/// The deliveries that can be shown; all, when the address says something else.
fn chosen(word: Option<&str>) -> Option<&'static DeliveryStatus> {
    DeliveryStatus::ALL.iter().find(|status| Some(status.as_str()) == word)
}

/// The log, newest first.
pub(super) async fn list(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> Result<Response, ApiError> {
    let webhook = named(&app, &person, &id).await?;
    let (cursor, status) = (query.one("cursor")?, chosen(query.one("status")?));
    let found = api::deliveries::page_of(&app, &person.caller, &webhook.id, status.cloned(), cursor, OF_A_PAGE).await?;
    let deliveries = found.deliveries.into_iter().map(|delivery| delivery.detail.into()).collect();
    let frame = Frame::of(&app, &person, Section::WEBHOOKS, "Deliveries").after(&query);
    let page = ListPage {
        frame: &frame,
        webhook: webhook.into(),
        deliveries,
        choices: std::iter::once(("", "All"))
            .chain(DeliveryStatus::ALL.iter().map(|status| (status.as_str(), words(status).1)))
            .collect(),
        chosen: status.map_or("", DeliveryStatus::as_str),
        is_first: cursor.is_none(),
        next: found.next_cursor,
    };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}

#[derive(Template)]
#[template(path = "pages/delivery.html")]
struct DeliveryPage<'a> {
    frame: &'a Frame,
    webhook: Webhook,
    delivery: Shown,
    /// What the receiver answered last.
    answer: Option<String>,
    form_id: String,
    trouble: Option<String>,
}

/// One delivery.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path((id, delivery)): Path<(String, String)>,
    query: Query,
) -> Result<Response, ApiError> {
    page(&app, &person, (&id, &delivery), Some(&query), None).await
}

async fn page(
    app: &Shared,
    person: &Person,
    (id, delivery): (&str, &str),
    query: Option<&Query>,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let webhook = named(app, person, id).await?;
    let found = api::deliveries::find_delivery(app, &person.caller, &webhook.id, delivery).await?;
    let StoredDelivery { detail, answer: said } = found;
    let frame = Frame::of(app, person, Section::WEBHOOKS, "Delivery").failed(trouble.is_some()).after(query);
    let page = DeliveryPage {
        frame: &frame,
        webhook: webhook.into(),
        delivery: detail.into(),
        answer: said.filter(|text| !text.is_empty()),
        form_id: draw_id(app),
        trouble: trouble.map(|trouble| trouble.text.clone()),
    };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

/// Sends the event once more and leads to what becomes of it.
pub(super) async fn replay(
    State(app): State<Shared>,
    person: Person,
    Path((id, delivery)): Path<(String, String)>,
    form: Form,
) -> Result<Response, ApiError> {
    let webhook = named(&app, &person, &id).await?.id;
    let list = format!("/account/webhooks/{id}/deliveries");
    let once = Once::form(&person.caller, &format!("{list}/{delivery}"), form.value("form"), "");
    match api::deliveries::replay_for(Arc::clone(&app), Arc::clone(&person.caller), once, webhook, &delivery).await {
        Ok(made) => {
            let new: DeliveryDetail = made.said()?;
            Ok(see_other(&format!("{list}/{}?done=event-sent", new.id)))
        }
        Err(error) => page(&app, &person, (&id, &delivery), None, Some(&Trouble::of(error)?)).await,
    }
}
