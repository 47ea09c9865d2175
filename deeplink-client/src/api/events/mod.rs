//! Events as they happen, for as long as somebody reads.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use deeplink_core::event::{Event, EventKind};
use deeplink_core::id::EventId;
use deeplink_core::routes;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use http::HeaderValue;
use tokio::time::{Instant, sleep, timeout};

use crate::call::{self, Draft, Target};
use crate::client::Client;
use crate::error::{Error, Kind, Result};
use crate::place;
use crate::send;
use crate::transport::BodyStream;

use frames::{Frame, Frames};

mod frames;

/// How long the service may be silent: it says something every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// The longest wait before coming again is drawn from this …
const SHORTEST: Duration = Duration::from_secs(1);
/// … up to this.
const LONGEST: Duration = Duration::from_secs(30);
/// A connection that lasts as long as this has been worth it: what comes after it is no greeting.
const LASTING: Duration = Duration::from_secs(10);
/// Attempts before a stream that has never begun fails.
const FIRST_ATTEMPTS: u32 = 3;

/// Events of the account; see [`Client::events`].
#[derive(Debug, Clone)]
pub struct Events(pub(crate) Client);

impl Events {
    /// Everything that happens from now on, event by event. Nothing is asked before the stream is polled.
    ///
    /// A stream that has begun comes again whenever its connection breaks or is silent for 45 seconds: after a random wait of up
    /// to one second at first, and up to 30 when that brings nothing, behind the place that it had reached. So it gives each
    /// event once, in the service's order, and loses none as long as it is back within 24 hours. It ends with an error when the
    /// service refuses it, such as for a key that was deleted, or when it never began.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use futures_util::StreamExt;
    /// let mut events = dl.events().stream();
    /// while let Some(told) = events.next().await {
    ///     let told = told?;
    ///     println!("{} {}", told.id, told.event.kind);
    /// #   break;
    /// }
    /// # Ok(()) });
    /// ```
    pub fn stream(&self) -> EventStream {
        EventStream { client: self.0.clone(), kinds: Vec::new(), last: None, watch: None, told: None }
    }
}

/// An event and its id, which webhooks call `webhook-id`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamedEvent {
    /// The event's id.
    pub id: EventId,
    /// What happened; [`Event::raw`] is the body that webhooks get, to the byte.
    pub event: Event,
}

/// What became of a stream's connection; see [`EventStream::watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamState {
    /// The service gives events, for the first time.
    Begun,
    /// It broke or was silent for too long; the stream comes again by itself.
    Lost,
    /// It is there again, and goes on behind the place that was reached.
    Again,
}

type Watch = Arc<dyn Fn(StreamState) + Send + Sync>;

/// Events as they happen; see [`Events::stream`]. It is refined before it is polled.
#[must_use = "nothing is asked before a stream is polled"]
pub struct EventStream {
    client: Client,
    kinds: Vec<EventKind>,
    last: Option<EventId>,
    watch: Option<Watch>,
    told: Option<Pin<Box<dyn Stream<Item = Result<Told>> + Send>>>,
}

/// What the service says.
enum Told {
    Event(StreamedEvent),
    /// No event, but the place behind which the next ones come.
    Place(EventId),
}

impl EventStream {
    /// Only events of these kinds; all of them, when none is named.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Goes on behind this event, as far back as 24 hours.
    pub fn after(mut self, id: EventId) -> Self {
        self.last = Some(id);
        self
    }

    /// Calls this whenever the connection comes, is lost, or comes again. For people who watch; a program needs none of it, since
    /// nothing is lost.
    pub fn watch(mut self, watch: impl Fn(StreamState) + Send + Sync + 'static) -> Self {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// The last event that was given, or the place that the service has named since, such as where it began: a later stream that
    /// goes on [`after`](Self::after) it misses nothing.
    pub fn last_id(&self) -> Option<&EventId> {
        self.last.as_ref()
    }
}

impl Stream for EventStream {
    type Item = Result<StreamedEvent>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let me = &mut *self;
        let told = me.told.get_or_insert_with(|| {
            let reading = Reading::new(&me.client, &me.kinds, me.last.clone(), me.watch.clone());
            stream::unfold(reading, Reading::next).boxed()
        });
        loop {
            match ready!(told.as_mut().poll_next(cx)) {
                Some(Ok(Told::Place(place))) => me.last = Some(place),
                Some(Ok(Told::Event(told))) => {
                    me.last = Some(told.id.clone());
                    return Poll::Ready(Some(Ok(told)));
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

/// A stream under way.
struct Reading {
    client: Client,
    kinds: Vec<EventKind>,
    /// The last event, or the last place that was said without one.
    last: Option<EventId>,
    watch: Option<Watch>,
    body: Option<BodyStream>,
    /// When that was opened.
    opened: Instant,
    frames: Frames,
    /// It has been open once.
    has_begun: bool,
    /// Times in a row that it was tried and brought nothing: no event, and no connection that lasted.
    failed: u32,
    is_over: bool,
}

fn draft(kinds: &[EventKind]) -> Result<Draft> {
    if kinds.iter().any(|kind| kind.code().is_none()) {
        return Err(Error::validation("events", "not a kind of event that this version knows"));
    }
    let mut draft = call::draft(&routes::EVENT_STREAM, &[])?;
    if let (Target::Path(path), false) = (&mut draft.target, kinds.is_empty()) {
        let names: Vec<&str> = kinds.iter().map(EventKind::as_str).collect();
        place::append_query(path, &[("events".to_owned(), names.join(","))]);
    }
    Ok(draft)
}

impl Reading {
    fn new(client: &Client, kinds: &[EventKind], last: Option<EventId>, watch: Option<Watch>) -> Self {
        Self {
            client: client.clone(),
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

    async fn next(mut self) -> Option<(Result<Told>, Self)> {
        if self.is_over {
            return None;
        }
        let told = self.read().await;
        // Whoever gets an error decides whether to begin again.
        self.is_over = told.is_err();
        Some((told, self))
    }

    async fn read(&mut self) -> Result<Told> {
        loop {
            match self.frames.next() {
                Some(frame) if frame.data.is_empty() => match frame.id.parse::<EventId>() {
                    Ok(place) => {
                        self.last = Some(place.clone());
                        return Ok(Told::Place(place));
                    }
                    Err(_) => continue,
                },
                Some(frame) => return self.told(&frame).map(Told::Event),
                None => {}
            }
            let Some(body) = &mut self.body else {
                self.open().await?;
                continue;
            };
            match timeout(SILENCE, body.next()).await {
                Ok(Some(Ok(bytes))) => {
                    // The service speaks before it reads anything, so that it speaks at all says little.
                    if self.opened.elapsed() >= LASTING {
                        self.failed = 0;
                    }
                    self.frames.feed(&bytes)?;
                }
                // It ended, it broke, or nothing came.
                ended => {
                    // A connection that is cut before the service's next word may have been there for long.
                    if ended.is_ok() && self.opened.elapsed() >= LASTING {
                        self.failed = 0;
                    }
                    self.body = None;
                    self.frames = Frames::default();
                    self.tell(StreamState::Lost);
                    self.wait(None).await;
                }
            }
        }
    }

    fn tell(&self, state: StreamState) {
        if let Some(watch) = &self.watch {
            watch(state);
        }
    }

    fn told(&mut self, frame: &Frame) -> Result<StreamedEvent> {
        let wrong = |why: &str| Error::from_source(Kind::Decode, format!("not an event: {why}"), why.to_owned());
        let id: EventId = frame.id.parse().map_err(|_| wrong("its id is none"))?;
        let event = Event::parse(frame.data.as_bytes()).map_err(|why| wrong(&why.to_string()))?;
        self.last = Some(id.clone());
        self.failed = 0;
        Ok(StreamedEvent { id, event })
    }

    /// Opens the stream behind the place that was reached, or waits to try it again.
    async fn open(&mut self) -> Result<()> {
        let mut draft = draft(&self.kinds)?;
        if let Some(value) = self.last.as_ref().and_then(|id| HeaderValue::from_str(id.as_str()).ok()) {
            draft.headers.insert("last-event-id", value);
        }
        match send::open(&self.client, &draft).await {
            Ok(body) => {
                self.body = Some(body);
                self.opened = Instant::now();
                let has_begun = std::mem::replace(&mut self.has_begun, true);
                self.tell(if has_begun { StreamState::Again } else { StreamState::Begun });
                Ok(())
            }
            Err(error) if !error.is_retryable() || (!self.has_begun && self.failed + 1 >= FIRST_ATTEMPTS) => Err(error),
            Err(error) => {
                self.wait(error.retry_after()).await;
                Ok(())
            }
        }
    }

    /// Waits at random, longer from time to time; what the service asked for is a floor.
    async fn wait(&mut self, asked: Option<Duration>) {
        let most = SHORTEST.saturating_mul(1_u32.checked_shl(self.failed).unwrap_or(u32::MAX)).min(LONGEST);
        self.failed = self.failed.saturating_add(1);
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let drawn = self.client.inner().shared.random(|random| random.below(millis.saturating_add(1)));
        sleep(Duration::from_millis(drawn).max(asked.unwrap_or_default())).await;
    }
}
