//! The stream of events (`text/event-stream`).

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

use crate::caller::{Actor, Caller};
use crate::db::events::{ReaderPosition, find};
use crate::db::{DbError, clicks, keys};
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::http::auth::FullScope;
use crate::http::documented::FullKey;
use crate::http::extract::Query;
use crate::state::{App, Shared};
use crate::stream::StreamReader;

/// Milliseconds without an event after which a comment is sent.
const HEARTBEAT_MILLIS: u64 = 15_000;
/// Milliseconds between checks that the key still exists.
const KEY_CHECK_MILLIS: u64 = 2_000;
/// `Retry-After` when the account has the maximum number of readers.
const RETRY_SECS: u64 = 15;
const FULL: &str = "this account already has 10 open streams on this node";

/// Streams events as they happen.
///
/// Server-sent events: the account's clicks, touches, bindings and conversions, each as a frame with `id`,
/// `event` (the kind) and `data` (the body that webhooks receive, on one line), in the same order for all
/// readers. The stream starts now, or after the event in `Last-Event-ID`, at most 24 hours back. A comment
/// without data is sent at the start and after every 15 seconds without an event; its `id` is the current
/// position. Maximum 10 streams per account per node. The stream ends when the service shuts down, and within 5
/// seconds after its key is deleted; reconnect with the last ID.
#[utoipa::path(
    get, path = "/v1/events/stream", operation_id = "event_stream", tag = "events", security(("secret_key" = [])),
    params(
        ("events" = Option<String>, Query, description = "Only these kinds, separated by commas: `click`, `attribute`, `identify`, `conversion`"),
        ("Last-Event-ID" = Option<String>, Header, description = "ID of the last event that was read"),
    ),
    responses(
        (status = 200, description = "The events, in an open-ended stream", content_type = "text/event-stream", body = String),
        FullKey,
        (status = 400, description = "`Last-Event-ID` is not an event from the last 24 hours (`bad_request`), or `events` contains an unknown kind (`invalid_event`)", body = ErrorBody),
        (status = 429, description = "The account already has 10 open streams on this node", body = ErrorBody, headers(("Retry-After" = u64))),
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
    let stream = app.streams.open(&caller.tenant).ok_or_else(|| ApiError::limited(FULL)(RETRY_SECS))?;
    let after = {
        let mut reader = app.db.read().await?;
        match last {
            None => clicks::head(&mut reader.conn()).await?,
            Some(id) => match find(&mut reader.conn(), &caller.tenant, &id, app.clock.now()).await? {
                ReaderPosition::At(position) => position,
                ReaderPosition::Unknown => return Err(unknown()),
            },
        }
    };
    let now = app.clock.monotonic_millis();
    let reader = Reader { app, caller, stream, kinds, after, checked: now, sent: now, stage: Stage::New };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        NO_STORE,
        // Proxies that buffer responses would delay events.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::from_stream(stream::unfold(reader, Reader::next))).into_response())
}

/// The requested kinds; all by default.
fn wanted(query: &Query) -> Result<Vec<EventKind>, ApiError> {
    let Some(list) = query.one("events")? else { return Ok(EventKind::ALL.to_vec()) };
    let kind = |name: &str| match EventKind::named(name.trim()) {
        EventKind::Unknown(_) => {
            let message = "events must be click, attribute, identify or conversion, separated by commas";
            Err(ApiError::Invalid(Invalid::field(ErrorCode::InvalidEvent, "events", message)))
        }
        kind => Ok(kind),
    };
    list.split(',').map(kind).collect()
}

fn unknown() -> ApiError {
    ApiError::bad_field("Last-Event-ID", "Last-Event-ID is not the ID of an event from the last 24 hours")
}

/// The event in `Last-Event-ID`.
fn last_seen(headers: &HeaderMap) -> Result<Option<EventId>, ApiError> {
    let mut values = headers.get_all("last-event-id").iter();
    let Some(value) = values.next().filter(|value| !value.is_empty()) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| text.parse().ok());
    if values.next().is_some() { Err(unknown()) } else { id.map(Some).ok_or_else(unknown) }
}

/// The progress of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent.
    New,
    Reading,
    /// Everything was sent.
    Ended,
}

/// A stream and its reader. It buffers nothing while the client does not read.
struct Reader {
    app: Shared,
    caller: Arc<Caller>,
    stream: StreamReader,
    kinds: Vec<EventKind>,
    /// The position of the last event that was read.
    after: i64,
    /// When the key was last checked and when something was last sent, by the monotonic clock.
    checked: u64,
    sent: u64,
    stage: Stage,
}

impl Reader {
    /// The next bytes, as soon as there are some.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let bytes = match self.stage {
            // So that the client and proxies see at once that the stream has started.
            Stage::New => {
                self.stage = Stage::Reading;
                self.comment("stream started")
            }
            Stage::Reading => {
                let bytes = self.read().await?;
                self.stream.leave_queue();
                bytes
            }
            Stage::Ended => return None,
        };
        self.sent = self.app.clock.monotonic_millis();
        Some((Ok(bytes), self))
    }

    /// A comment with the id of the position reached and no data: a reader that reconnects misses nothing, even before
    /// its first event.
    fn comment(&self, text: &str) -> Bytes {
        format!(": {text}\nid: {}\n\n", click_event_id(self.after)).into()
    }

    /// Waits for something to send. `None`: the stream ends.
    async fn read(&mut self) -> Option<Bytes> {
        loop {
            if self.stream.is_stopping() {
                self.stage = Stage::Ended;
                return Some(Bytes::from_static(b": the service is stopping\n\n"));
            }
            let (since, now) = (self.app.clock.now(), self.app.clock.monotonic_millis());
            if now >= self.checked + KEY_CHECK_MILLIS && !self.is_known().await {
                return None;
            }
            let next = match self.stream.next(&self.app.db, self.after, &self.kinds).await {
                Ok(next) => next,
                Err(error) => {
                    // The client reconnects.
                    tracing::warn!(%error, "events could not be read; stream closed");
                    return None;
                }
            };
            self.after = next.position;
            let mut text = BytesMut::new();
            for frame in next.frames.iter().filter(|frame| self.kinds.contains(&frame.kind)) {
                text.extend_from_slice(&frame.text);
            }
            if !text.is_empty() {
                return Some(text.freeze());
            }
            // Also while reading through a long log without events for this reader.
            if now >= self.sent + HEARTBEAT_MILLIS {
                return Some(self.comment("keep-alive"));
            }
            if !next.has_more {
                let until = (self.sent + HEARTBEAT_MILLIS).min(self.checked + KEY_CHECK_MILLIS);
                tokio::select! {
                    () = self.stream.wait() => {}
                    () = self.app.clock.pause(Duration::from_millis(until.saturating_sub(now)), since) => {}
                }
            }
        }
    }

    /// Whether the key still exists. While the database cannot be read, no key can be deleted either.
    async fn is_known(&mut self) -> bool {
        self.checked = self.app.clock.monotonic_millis();
        has_key(&self.app, &self.caller).await.unwrap_or(true)
    }
}

async fn has_key(app: &App, caller: &Caller) -> Result<bool, DbError> {
    match &caller.by {
        Actor::Key(id) => keys::exists(&mut app.db.read().await?.conn(), &caller.tenant, id).await,
        Actor::Page(_) | Actor::User(_) | Actor::Wallet(_) => Ok(false),
    }
}
