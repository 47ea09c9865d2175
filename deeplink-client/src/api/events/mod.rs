//! Events: those of the log, and new ones as they happen for as long as the stream is polled.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use deeplink_core::event::{Event, EventFilter, EventKind, StoredEvent};
use deeplink_core::id::EventId;
use deeplink_core::routes;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use http::HeaderValue;
use tokio::time::{Instant, sleep, timeout};

use crate::call::{self, Draft, Target};
use crate::connection::Connection;
use crate::error::{Error, Kind, Result};
use crate::page::EventPages;
use crate::path;
use crate::send;
use crate::transport::BodyStream;

use frames::{Frame, Frames};

mod frames;

/// Timeout for the next bytes: the service sends something every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// The upper bound of the random wait before a reconnect starts at this …
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// … and doubles up to this.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A connection that lasts this long counts as a success and resets the backoff.
const LASTING: Duration = Duration::from_secs(10);
/// Attempts before a stream that never connected fails.
const FIRST_ATTEMPTS: u32 = 3;

/// Events of the account; see [`crate::Client::events`].
#[derive(Debug, Clone)]
pub struct Events(pub(crate) Connection);

impl Events {
    /// The events of the log, oldest first: those that are still kept, in the order in which the service stored them.
    ///
    /// A page may be short or empty and still have a next one; [`Pages::pages`](crate::Pages::pages) and
    /// [`Pages::items`](crate::Pages::items) continue automatically.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{EventFilter, EventKind};
    /// use futures_util::StreamExt;
    /// let mut events = dl.events().list(&EventFilter::new().kind(EventKind::Conversion)).items();
    /// while let Some(event) = events.next().await {
    ///     let event = event?;
    ///     println!("{} {}", event.id, event.event.timestamp);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn list(&self, filter: &EventFilter) -> EventPages {
        EventPages::new(self.0.clone(), filter.clone())
    }

    /// All events from now on, one by one. Nothing is sent before the stream is polled.
    ///
    /// Once connected, the stream reconnects whenever its connection breaks or is silent for 45 seconds: after a random
    /// wait of up to one second at first and up to 30 seconds later, continuing after the last event. So it yields each
    /// event once, in the service's order, and loses none as long as it reconnects within 24 hours. It ends with an
    /// error if the service rejects it, for example because the key was deleted, or if it never connected.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use futures_util::StreamExt;
    /// let mut events = dl.events().stream();
    /// while let Some(event) = events.next().await {
    ///     let event = event?;
    ///     println!("{} {}", event.id, event.event.kind);
    /// #   break;
    /// }
    /// # Ok(()) });
    /// ```
    pub fn stream(&self) -> EventStream {
        EventStream { connection: self.0.clone(), kinds: Vec::new(), last: None, watch: None, messages: None }
    }
}

/// The state of a stream's connection; see [`EventStream::watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamState {
    /// Connected for the first time.
    Connected,
    /// The connection broke or was silent for too long; the stream reconnects automatically.
    Disconnected,
    /// Connected again, continuing after the last event.
    Reconnected,
}

type Watch = Arc<dyn Fn(StreamState) + Send + Sync>;

/// Events as they happen; see [`Events::stream`]. Configure it before polling.
#[must_use = "nothing is sent before a stream is polled"]
pub struct EventStream {
    connection: Connection,
    kinds: Vec<EventKind>,
    last: Option<EventId>,
    watch: Option<Watch>,
    messages: Option<Pin<Box<dyn Stream<Item = Result<Message>> + Send>>>,
}

/// A message of the service.
enum Message {
    Event(StoredEvent),
    /// No event, but the position after which the next ones come.
    Position(EventId),
}

impl EventStream {
    /// Only events of these kinds; if none are given, events of all kinds.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Continues after this event, at most 24 hours back.
    pub fn after(mut self, id: EventId) -> Self {
        self.last = Some(id);
        self
    }

    /// Calls this whenever the stream connects, disconnects or reconnects. For display only: no event is lost either way.
    pub fn watch(mut self, watch: impl Fn(StreamState) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// The id of the last event, or of a later position that the service sent: a later stream that continues
    /// [`after`](Self::after) it misses no events.
    pub fn last_id(&self) -> Option<&EventId> {
        self.last.as_ref()
    }
}

impl Stream for EventStream {
    type Item = Result<StoredEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let me = &mut *self;
        let messages = me.messages.get_or_insert_with(|| {
            let reading = Reading::new(&me.connection, &me.kinds, me.last.clone(), me.watch.clone());
            stream::unfold(reading, Reading::next).boxed()
        });
        loop {
            match ready!(messages.as_mut().poll_next(cx)) {
                Some(Ok(Message::Position(position))) => me.last = Some(position),
                Some(Ok(Message::Event(event))) => {
                    me.last = Some(event.id.clone());
                    return Poll::Ready(Some(Ok(event)));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("kinds", &self.kinds).field("last", &self.last).finish_non_exhaustive()
    }
}

/// A running stream.
struct Reading {
    connection: Connection,
    kinds: Vec<EventKind>,
    /// The last event, or the last position sent without one.
    last: Option<EventId>,
    watch: Option<Watch>,
    body: Option<BodyStream>,
    /// When `body` was opened.
    opened: Instant,
    frames: Frames,
    /// It was connected at least once.
    has_begun: bool,
    /// Attempts in a row without an event or a lasting connection.
    failed: u32,
    is_over: bool,
}

fn draft(kinds: &[EventKind]) -> Result<Draft> {
    if kinds.iter().any(|kind| kind.code().is_none()) {
        return Err(Error::validation("events", "this version does not support this kind of event"));
    }
    let mut draft = call::draft(&routes::EVENT_STREAM, &[])?;
    if let (Target::Path(path), false) = (&mut draft.target, kinds.is_empty()) {
        let names: Vec<&str> = kinds.iter().map(EventKind::as_str).collect();
        path::append_query(path, &[("events".to_owned(), names.join(","))]);
    }
    Ok(draft)
}

impl Reading {
    fn new(connection: &Connection, kinds: &[EventKind], last: Option<EventId>, watch: Option<Watch>) -> Self {
        Self {
            connection: connection.clone(),
            kinds: kinds.to_vec(),
            last,
            watch,
            body: None,
            opened: Instant::now(),
            frames: Frames::default(),
            has_begun: false,
            failed: 0,
            is_over: false,
        }
    }

    async fn next(mut self) -> Option<(Result<Message>, Self)> {
        if self.is_over {
            return None;
        }
        let message = self.read().await;
        // After an error the caller decides whether to start again.
        self.is_over = message.is_err();
        Some((message, self))
    }

    async fn read(&mut self) -> Result<Message> {
        loop {
            match self.frames.next() {
                Some(frame) if frame.data.is_empty() => match frame.id.parse::<EventId>() {
                    Ok(position) => {
                        self.last = Some(position.clone());
                        return Ok(Message::Position(position));
                    }
                    Err(_) => continue,
                },
                Some(frame) => return self.event(&frame).map(Message::Event),
                None => {}
            }
            let Some(body) = &mut self.body else {
                self.open().await?;
                continue;
            };
            match timeout(SILENCE, body.next()).await {
                Ok(Some(Ok(bytes))) => {
                    // The service sends a greeting before it reads anything, so the first bytes prove little.
                    if self.opened.elapsed() >= LASTING {
                        self.failed = 0;
                    }
                    self.frames.feed(&bytes)?;
                }
                // The body ended, failed, or timed out.
                ended => {
                    // A connection that is cut between two messages may have lasted long.
                    if ended.is_ok() && self.opened.elapsed() >= LASTING {
                        self.failed = 0;
                    }
                    self.body = None;
                    self.frames = Frames::default();
                    self.notify(StreamState::Disconnected);
                    self.wait(None).await;
                }
            }
        }
    }

    fn notify(&self, state: StreamState) {
        if let Some(watch) = &self.watch {
            watch(state);
        }
    }

    fn event(&mut self, frame: &Frame) -> Result<StoredEvent> {
        let wrong = |why: &str| Error::from_source(Kind::Decode, format!("not an event: {why}"), why.to_owned());
        let id: EventId = frame.id.parse().map_err(|_| wrong("its id is malformed"))?;
        let event = Event::parse(frame.data.as_bytes()).map_err(|why| wrong(&why.to_string()))?;
        self.last = Some(id.clone());
        self.failed = 0;
        Ok(StoredEvent::new(id, event))
    }

    /// Opens the stream after the last position, or waits before the next attempt.
    async fn open(&mut self) -> Result<()> {
        let mut draft = draft(&self.kinds)?;
        if let Some(value) = self.last.as_ref().and_then(|id| HeaderValue::from_str(id.as_str()).ok()) {
            draft.headers.insert("last-event-id", value);
        }
        match send::open(&self.connection, &draft).await {
            Ok(body) => {
                self.body = Some(body);
                self.opened = Instant::now();
                let has_begun = std::mem::replace(&mut self.has_begun, true);
                self.notify(if has_begun { StreamState::Reconnected } else { StreamState::Connected });
                Ok(())
            }
            Err(error) if !error.is_retryable() || (!self.has_begun && self.failed + 1 >= FIRST_ATTEMPTS) => Err(error),
            Err(error) => {
                self.wait(error.retry_after()).await;
                Ok(())
            }
        }
    }

    /// Waits a random time that grows with each failure, but at least what the service asked for.
    async fn wait(&mut self, asked: Option<Duration>) {
        let most = MIN_BACKOFF.saturating_mul(1_u32.checked_shl(self.failed).unwrap_or(u32::MAX)).min(MAX_BACKOFF);
        self.failed = self.failed.saturating_add(1);
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let drawn = self.connection.inner().shared.random(|random| random.below(millis.saturating_add(1)));
        sleep(Duration::from_millis(drawn).max(asked.unwrap_or_default())).await;
    }
}
