//! A webhook's deliveries: the log, test events and replays.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::error::ErrorBody;
use deeplink_core::event::{EventKind, sample};
use deeplink_core::id::{DeliveryId, EventId, WebhookId};
use deeplink_core::page;
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::{DeliveryDetail, DeliveryList, DeliveryStatus, TestWebhook};
use futures_util::FutureExt;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::webhooks::{find, named, not_there as no_webhook};
use crate::caller::Caller;
use crate::db::Conn;
use crate::db::deliveries::{self, NewDelivery};
use crate::db::delivery_log::{self, StoredDelivery};
use crate::db::events;
use crate::db::webhooks::{self, StoredWebhook};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::cursor::Cursor;
use crate::http::documented::{FullKey, IdempotencyKey, KeyedBody, NotFound};
use crate::http::extract::{BODY_LIMIT, Path, Query, json_body, parse};
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::notifier::Notification;
use crate::state::{App, Shared};

/// The cursor of a list of deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DeliveryCursor {
    /// The last delivery shown.
    #[serde(rename = "p")]
    before: DeliveryId,
    #[serde(rename = "w")]
    webhook: WebhookId,
    #[serde(rename = "s")]
    status: Option<DeliveryStatus>,
}

impl Cursor for DeliveryCursor {
    const LIST: &'static str = "deliveries";
}

/// Lists a webhook's deliveries from the last 30 days, newest first.
///
/// A cursor contains the filter of its list and may be sent alone. The body of the endpoint's response is shown only
/// on the account pages.
#[utoipa::path(
    get, path = "/v1/webhooks/{webhook_id}/deliveries", operation_id = "list_deliveries", tag = "webhooks", security(("secret_key" = [])),
    params(
        ("webhook_id" = String, Path, description = "The webhook's ID", example = "wh_0123456789abcdef01234567"),
        ("limit" = Option<u32>, Query, description = "Deliveries per page", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the previous page"),
        ("status" = Option<DeliveryStatus>, Query, description = "Only deliveries with this status"),
    ),
    responses(
        (status = 200, description = "One page", body = DeliveryList),
        FullKey, NotFound,
        (status = 400, description = "A parameter is malformed, or the cursor belongs to a different list (`invalid_cursor`)", body = ErrorBody),
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<DeliveryList>, ApiError> {
    let id = named(&id)?;
    if caller.is_known() {
        find(&app, &caller, &id).await?;
    }
    let limit = page::limit(query.one("limit")?, page::DEFAULT_LIMIT)?;
    let status = query.parsed("status", "pending, delivered, failed, canceled or dropped", |text| {
        Some(DeliveryStatus::from(text)).filter(|status| DeliveryStatus::ALL.contains(status))
    })?;
    let cursor = query.one("cursor")?;
    caller.form_is_valid()?;
    let found = page_of(&app, &caller, &id, status, cursor, limit).await?;
    let shown = found.deliveries.into_iter().map(|delivery| delivery.detail).collect();
    Ok(Json(DeliveryList::new(shown, found.next_cursor)))
}

/// One page of a log, as stored.
pub(crate) struct DeliveryPage {
    pub(crate) deliveries: Vec<StoredDelivery>,
    /// Where the next page begins.
    pub(crate) next_cursor: Option<String>,
}

/// Reads one page of the log of a caller's webhook.
pub(crate) async fn page_of(
    app: &App,
    caller: &Caller,
    webhook: &WebhookId,
    asked: Option<DeliveryStatus>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<DeliveryPage, ApiError> {
    let after = cursor.map(|text| DeliveryCursor::read(text, &app.vault, caller)).transpose()?;
    let is_other = |after: &DeliveryCursor| after.webhook != *webhook || asked.is_some() && after.status != asked;
    if after.as_ref().is_some_and(is_other) {
        return Err(DeliveryCursor::filter_mismatch());
    }
    let (status, before) = match after {
        Some(after) => (after.status, Some(after.before)),
        None => (asked, None),
    };
    let (of, state) = (webhook.clone(), status.clone());
    let list = app.report(caller, move |mut db, tenant| {
        // One more than requested tells whether there is a next page.
        async move { delivery_log::list(&mut db, (&tenant, &of), state.as_ref(), before.as_ref(), limit + 1).await }
            .boxed()
    });
    let mut found = list.await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next_cursor = match found.last() {
        Some(last) if more => {
            let next = DeliveryCursor { before: last.detail.id.clone(), webhook: webhook.clone(), status };
            Some(next.write(&app.vault, caller)?)
        }
        _ => None,
    };
    Ok(DeliveryPage { deliveries: found, next_cursor })
}

/// The webhook has no such delivery, or belongs to another account.
fn not_there() -> ApiError {
    ApiError::not_found()
}

/// The webhook is switched off.
pub(super) fn not_active() -> ApiError {
    ApiError::bad_field("active", "the webhook is disabled or paused, so nothing is sent to it; enable it first")
}

/// One delivery of a caller's webhook.
pub(crate) async fn find_delivery(
    app: &App,
    caller: &Caller,
    webhook: &WebhookId,
    id: &str,
) -> Result<StoredDelivery, ApiError> {
    let id = delivery_named(id)?;
    let found = delivery_log::find(&mut app.db.read().await?.conn(), (&caller.tenant, webhook), &id).await?;
    found.ok_or_else(not_there)
}

fn delivery_named(path: &str) -> Result<DeliveryId, ApiError> {
    path.parse().map_err(|_| not_there())
}

/// Sends a test event to a webhook, like any other event: signed, with retries, and logged.
///
/// All IDs in it are made up, except the account's. It is marked by the header `X-Service-Test: true`, and by
/// `test` in the log. It does not appear in the event stream.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook_id}/test", operation_id = "test_webhook", tag = "webhooks", security(("secret_key" = [])),
    params(
        ("webhook_id" = String, Path, description = "The webhook's ID", example = "wh_0123456789abcdef01234567"),
        IdempotencyKey,
    ),
    request_body = TestWebhook,
    responses(
        (status = 200, description = "The delivery: pending and attempted immediately, or dropped if 100,000 deliveries of the webhook are already pending", body = DeliveryDetail, headers(("Idempotency-Replayed" = String))),
        FullKey, KeyedBody, NotFound,
        (status = 400, description = "No such kind of event (`invalid_event`), or the webhook is disabled or paused", body = ErrorBody),
    )
)]
pub(crate) async fn test(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(id): Path<String>,
    request: Request,
) -> Result<Answer<DeliveryDetail>, ApiError> {
    let id = named(&id)?;
    if caller.is_known() {
        find(&app, &caller, &id).await?;
    }
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, &format!("/v1/webhooks/{id}/test"), &body)?;
    let asked = parse::<TestWebhook>(&body)?.check()?;
    test_for(&app, caller, once, id, asked).await
}

/// Sends a sample event to one of an account's webhooks: of the first kind that it subscribes to, unless one is named.
pub(crate) async fn test_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    webhook: WebhookId,
    kind: Option<EventKind>,
) -> Result<Answer<DeliveryDetail>, ApiError> {
    send_on_request(app, caller, once, webhook, Requested::Sample(kind)).await
}

/// Sends a delivery's event again as a new delivery, with the same bytes and the same `webhook-id`.
///
/// `replay_of` is the ID of the original delivery. A replay of a test event is also a test event.
#[utoipa::path(
    post, path = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/replay", operation_id = "replay_delivery", tag = "webhooks", security(("secret_key" = [])),
    params(
        ("webhook_id" = String, Path, description = "The webhook's ID", example = "wh_0123456789abcdef01234567"),
        ("delivery_id" = String, Path, description = "The delivery's ID", example = "dlv_0123456789abcdef01234567"),
        IdempotencyKey,
    ),
    responses(
        (status = 200, description = "The new delivery: pending and attempted immediately, or dropped if 100,000 deliveries of the webhook are already pending", body = DeliveryDetail, headers(("Idempotency-Replayed" = String))),
        FullKey, NotFound,
        (status = 400, description = "The webhook is disabled or paused, or `Idempotency-Key` is malformed", body = ErrorBody),
    )
)]
pub(crate) async fn replay(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path((id, delivery)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Answer<DeliveryDetail>, ApiError> {
    let id = named(&id).map_err(|_| not_there())?;
    if caller.is_known() {
        find_delivery(&app, &caller, &id, &delivery).await?;
    }
    let path = format!("/v1/webhooks/{id}/deliveries/{delivery}/replay");
    let once = Once::read(&headers, &caller, &path, b"")?;
    replay_for(&app, caller, once, id, &delivery).await
}

/// Replays a delivery of one of an account's webhooks.
pub(crate) async fn replay_for(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    webhook: WebhookId,
    delivery: &str,
) -> Result<Answer<DeliveryDetail>, ApiError> {
    send_on_request(app, caller, once, webhook, Requested::Replay(delivery_named(delivery)?)).await
}

/// A delivery that a caller requested.
enum Requested {
    /// A sample event, of this kind if one is named.
    Sample(Option<EventKind>),
    /// The event of this delivery.
    Replay(DeliveryId),
}

struct SendOnRequest {
    app: Shared,
    caller: Arc<Caller>,
    webhook: WebhookId,
    what: Requested,
    now: Timestamp,
}

async fn send_on_request(
    app: &Shared,
    caller: Arc<Caller>,
    once: Once,
    webhook: WebhookId,
    what: Requested,
) -> Result<Answer<DeliveryDetail>, ApiError> {
    let now = app.clock.now();
    let work = SendOnRequest { app: Arc::clone(app), caller, webhook, what, now };
    app.once(once, work).await
}

impl Work for SendOnRequest {
    type Made = DeliveryDetail;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<DeliveryDetail>, ApiError> {
        let (tenant, now) = (&self.caller.tenant, self.now);
        let webhook = webhooks::find(tx, tenant, &self.webhook).await?.ok_or_else(no_webhook)?;
        let event = match &self.what {
            Requested::Sample(kind) => self.insert_sample(tx, &webhook, kind.as_ref()).await?,
            Requested::Replay(delivery) => {
                let of = (tenant, &webhook.id);
                let before = delivery_log::find(tx, of, delivery).await?.ok_or_else(not_there)?;
                before.detail.event_id
            }
        };
        if !webhook.active {
            return Err(not_active());
        }
        if !delivery_log::keep_event(tx, &event, self.app.kept_until(now)).await? {
            return Err(not_there());
        }
        let id = self.app.random(|random| DeliveryId::new(now, random));
        let StoredWebhook { turn, is_full: is_dropped, .. } = webhook;
        let new = NewDelivery { id: &id, tenant, webhook: &webhook.id, turn, event: &event, is_dropped, now };
        deliveries::insert(tx, &[new]).await?;
        if let Requested::Replay(before) = &self.what {
            delivery_log::note_replay(tx, &id, before).await?;
        }
        let stored = delivery_log::find(tx, (tenant, &webhook.id), &id).await?.ok_or_else(not_there)?;
        done(stored.detail)
    }

    fn committed(&self, app: &Shared, _: &DeliveryDetail) {
        app.notifier.notify(Notification::Deliveries(self.caller.tenant.clone()));
    }
}

impl SendOnRequest {
    /// Stores a sample event for the account.
    async fn insert_sample(
        &self,
        tx: &mut Conn<'_>,
        webhook: &StoredWebhook,
        kind: Option<&EventKind>,
    ) -> Result<EventId, ApiError> {
        let (tenant, now) = (&self.caller.tenant, self.now);
        let kind = kind.or(webhook.events.first()).unwrap_or(&EventKind::Click);
        let (id, event) =
            self.app.random(|random| (EventId::new(now, random), sample::sample_of(kind, tenant.clone(), now, random)));
        let event = event.ok_or_else(|| ApiError::Internal(format!("there is no sample of {kind}")))?;
        // A conversion carries its own id.
        let id = event.event_id().cloned().unwrap_or(id);
        events::insert_sample(tx, tenant, &id, &event, self.app.kept_until(now)).await?;
        Ok(id)
    }
}
