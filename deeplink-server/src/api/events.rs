//! Events as they happen, for programs that read along.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::event::{EventKind, click_event_id};
use deeplink_core::id::EventId;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::db::events::{Found, find};
use crate::db::{DbError, clicks, keys};
use crate::error::ApiError;
use crate::http::auth::{Actor, Caller, FullScope};
use crate::http::extract::Query;
use crate::state::{App, Shared};
use crate::stream::Seat;

/// How long a reader hears nothing, before it hears that there is nothing, in milliseconds.
const HEARTBEAT: u64 = 15_000;
/// How often it is looked whether the key is still there, in milliseconds.
const CHECK: u64 = 2_000;
/// When to come again where all places are taken.
const LATER_SECS: u64 = 15;

/// Tells events as they happen.
///
/// Server-sent events: the account's clicks, touches, bindings and conversions, each as a frame with `id`, `event` (the kind)
/// and `data` (the body that webhooks get, on one line), in one order for all readers. It begins with what happens from now
/// on, or behind the event that `Last-Event-ID` names, as far back as 24 hours; an older one begins there. A comment comes
/// at the beginning, and every 15 seconds in which nothing happens; it has an `id` and no data, for the place that was
/// reached. An account has 10 readers at most on one node. The stream ends within 5 seconds when its key is deleted, and
/// when the service stops; come again with the last id.
#[utoipa::path(
    get, path = "/v1/events/stream", operation_id = "event_stream", tag = "events", security(("secret_key" = [])),
    params(
        ("events" = Option<String>, Query, description = "Only these kinds, separated by commas: `click`, `attribute`, `identify`, `conversion`"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was read"),
    ),
    responses(
        (status = 200, description = "The events, without end", content_type = "text/event-stream", body = String),
        (status = 400, description = "`Last-Event-ID` names no event of the last day (`bad_request`), or `events` no kind (`invalid_event`)", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 429, description = "The account has 10 readers here already", body = ErrorBody, headers(("Retry-After" = u64))),
        (status = 503, description = "Repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn stream(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, ApiError> {
    let kinds = wanted(&query)?;
    let last = last_seen(&headers)?;
    let seat = app.streams.open(&caller.tenant).ok_or(ApiError::RateLimited(LATER_SECS))?;
    let after = {
        let mut reader = app.db.read().await?;
        match last {
            None => clicks::head(&mut reader.conn()).await?,
            Some(id) => match find(&mut reader.conn(), &caller.tenant, &id, app.clock.now()).await? {
                Found::At(position) => position,
                Found::Unknown => return Err(unknown()),
            },
        }
    };
    let now = app.clock.monotonic_millis();
    let reader = Reader { app, caller, seat, kinds, after, checked: now, spoken: now, stage: Stage::New };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Proxies that gather answers would hold events back.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::from_stream(stream::unfold(reader, Reader::next))).into_response())
}

/// The kinds that are asked for: all, when nothing is said.
fn wanted(query: &Query) -> Result<Vec<EventKind>, ApiError> {
    let Some(list) = query.one("events")? else { return Ok(EventKind::ALL.to_vec()) };
    let kind = |name: &str| match EventKind::named(name.trim()) {
        EventKind::Unknown(_) => {
            let message = "events are click, attribute, identify and conversion, separated by commas";
            Err(ApiError::Invalid(Invalid::field(ErrorCode::InvalidEvent, "events", message)))
        }
        kind => Ok(kind),
    };
    list.split(',').map(kind).collect()
}

fn unknown() -> ApiError {
    ApiError::bad_field("Last-Event-ID", "Last-Event-ID names no event of the last 24 hours")
}

/// The event that was read last, if the reader says so.
fn last_seen(headers: &HeaderMap) -> Result<Option<EventId>, ApiError> {
    let mut values = headers.get_all("last-event-id").iter();
    let Some(value) = values.next().filter(|value| !value.is_empty()) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    if values.next().is_some() { Err(unknown()) } else { id.map(Some).ok_or_else(unknown) }
}

/// How far a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was said.
    New,
    Reading,
    /// All was said.
    Over,
}

/// A stream that is read. It holds nothing while its reader takes nothing.
struct Reader {
    app: Shared,
    caller: Arc<Caller>,
    seat: Seat,
    kinds: Vec<EventKind>,
    /// The place in the order of events that was reached.
    after: i64,
    /// When the key was looked at, and something said, by the clock that only grows.
    checked: u64,
    spoken: u64,
    stage: Stage,
}

impl Reader {
    /// The next bytes, as soon as there are some.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let said = match self.stage {
            // So that the reader and the proxies between see at once that it has begun.
            Stage::New => {
                self.stage = Stage::Reading;
                self.comment("the events begin")
            }
            Stage::Reading => {
                let said = self.read().await?;
                self.seat.step_back();
                said
            }
            Stage::Over => return None,
        };
        self.spoken = self.app.clock.monotonic_millis();
        Some((Ok(said), self))
    }

    /// A comment, with the id of the place that was reached and no data: so a reader that comes again misses nothing, even
    /// if it has had no event yet.
    fn comment(&self, words: &str) -> Bytes {
        format!(": {words}\nid: {}\n\n", click_event_id(self.after)).into()
    }

    /// Waits for something to say. `None`: the stream ends without a word.
    async fn read(&mut self) -> Option<Bytes> {
        loop {
            if self.seat.is_over() {
                self.stage = Stage::Over;
                return Some(Bytes::from_static(b": the service stops\n\n"));
            }
            let (since, now) = (self.app.clock.now(), self.app.clock.monotonic_millis());
            if now >= self.checked + CHECK && !self.is_known().await {
                return None;
            }
            let has_clicks = self.kinds.contains(&EventKind::Click);
            let next = match self.seat.next(&self.app.db, self.after, has_clicks).await {
                Ok(next) => next,
                Err(error) => {
                    // Whoever reads comes again.
                    tracing::warn!(%error, "events cannot be read; a stream ends");
                    return None;
                }
            };
            self.after = next.reached;
            let mut text = BytesMut::new();
            for frame in next.frames.iter().filter(|frame| self.kinds.contains(&frame.kind)) {
                text.extend_from_slice(&frame.text);
            }
            if !text.is_empty() {
                return Some(text.freeze());
            }
            // On the way through a long log too, of which nothing is this reader's.
            if now >= self.spoken + HEARTBEAT {
                return Some(self.comment("nothing happened"));
            }
            if !next.has_more {
                let until = (self.spoken + HEARTBEAT).min(self.checked + CHECK);
                tokio::select! {
                    () = self.seat.wait() => {}
                    () = self.app.clock.pause(Duration::from_millis(until.saturating_sub(now)), since) => {}
                }
            }
        }
    }

    /// Whether the key is still there. While that cannot be asked, no key can be deleted either.
    async fn is_known(&mut self) -> bool {
        self.checked = self.app.clock.monotonic_millis();
        has_key(&self.app, &self.caller).await.unwrap_or(true)
    }
}

async fn has_key(app: &App, caller: &Caller) -> Result<bool, DbError> {
    match &caller.by {
        Actor::Key(id) => keys::exists(&mut app.db.read().await?.conn(), &caller.tenant, id).await,
        Actor::Page(_) | Actor::User(_) => Ok(false),
    }
}
