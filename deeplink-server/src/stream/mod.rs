//! The readers of the event stream on this node.
//!
//! One task (`work::tail`) follows the click log and the events for all readers and buffers the latest frames of each
//! account that has a reader. A reader that has just connected, or that is slow, may be further behind than the buffer; it
//! pages through the database until it has caught up. Accounts without readers cost nothing, and the log is read once
//! however many readers there are.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::event::EventKind;
use deeplink_core::id::TenantId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use crate::db::events::{StreamEvent, Wanted, page};
use crate::db::{Db, DbError, clicks};

/// Maximum readers per account on a node.
pub(crate) const MAX_READERS: usize = 10;
/// Bytes of frames buffered per account, and for all accounts together.
pub(crate) const MAX_BUFFERED: usize = 256 * 1024;
pub(crate) const MAX_BUFFERED_TOTAL: usize = 32 * 1024 * 1024;
/// Approximate bytes of frames that a reader takes at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Readers that may page through the database at the same time. One, because reports can occupy half of SQLite's few read
/// connections, and single rows need the rest. A permit is good for one page.
const MAX_CATCHING_UP: usize = 1;
/// How long a reader waits for a permit before it gets control again, to check its key and to send a heartbeat.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);

/// An event as it is sent to readers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) position: i64,
    pub(crate) kind: EventKind,
    /// The server-sent event.
    pub(crate) text: Bytes,
}

impl From<&StreamEvent> for Frame {
    fn from(event: &StreamEvent) -> Self {
        // A body is compact JSON, so it has no line breaks.
        let text = format!("id: {}\nevent: {}\ndata: {}\n\n", event.id, event.kind, event.body);
        Self { position: event.position, kind: event.kind.clone(), text: text.into() }
    }
}

/// All readers on this node.
#[derive(Debug)]
pub(crate) struct Streams {
    feeds: Mutex<HashMap<TenantId, Arc<Feed>>>,
    /// Notified when a reader connects.
    pub(crate) opened: Notify,
    stopping: watch::Sender<bool>,
    catching_up: Arc<Semaphore>,
}

/// The events of one account that has readers.
#[derive(Debug)]
pub(crate) struct Feed {
    ring: Mutex<Ring>,
    /// Changes when frames are added.
    added: watch::Sender<()>,
    /// One of its readers at a time queues for the database, so that accounts take turns.
    catching_up: Arc<Semaphore>,
}

impl Feed {
    fn new() -> Self {
        Self { ring: Mutex::new(Ring::new()), added: watch::Sender::new(()), catching_up: Arc::new(Semaphore::new(1)) }
    }
}

impl Feed {
    /// Sets the size of the buffer, and starts buffering at a position if that has not happened yet.
    pub(crate) fn begin(&self, from: i64, max_bytes: usize) {
        let mut ring = lock(&self.ring);
        ring.max_bytes = max_bytes;
        ring.shrink();
        if ring.start.is_none() {
            (ring.start, ring.end) = (Some(from), from);
            self.added.send_replace(());
        }
    }

    /// Adds the frames up to a position, except those it has already.
    pub(crate) fn add(&self, frames: impl Iterator<Item = Frame>, read_to: i64) {
        let mut ring = lock(&self.ring);
        let (before, mut is_new) = (ring.end, false);
        for frame in frames.filter(|frame| frame.position > before) {
            ring.add(frame);
            is_new = true;
        }
        ring.end = before.max(read_to);
        drop(ring);
        if is_new {
            self.added.send_replace(());
        }
    }
}

/// A buffer of the latest frames of an account.
#[derive(Debug)]
struct Ring {
    readers: usize,
    /// All frames after this position are buffered; `None` until the tail has started this feed.
    start: Option<i64>,
    /// The log has been read up to this position.
    end: i64,
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Smaller when many accounts have readers.
    max_bytes: usize,
}

impl Ring {
    fn new() -> Self {
        Self { readers: 0, start: None, end: 0, frames: VecDeque::new(), bytes: 0, max_bytes: MAX_BUFFERED }
    }

    fn add(&mut self, frame: Frame) {
        self.bytes += frame.text.len();
        self.frames.push_back(frame);
        self.shrink();
    }

    /// Drops the oldest frames until the rest fits.
    fn shrink(&mut self) {
        while self.bytes > self.max_bytes
            && let Some(oldest) = self.frames.pop_front()
        {
            self.bytes -= oldest.text.len();
            self.start = Some(oldest.position);
        }
    }

    /// The frames after a position, at most a chunk; `None` if some of them are not buffered.
    fn after(&self, position: i64) -> Option<Vec<Frame>> {
        if self.start.is_none_or(|start| position < start) {
            return None;
        }
        let first = self.frames.partition_point(|frame| frame.position <= position);
        Some(chunk(self.frames.range(first..).cloned()))
    }
}

/// As many frames as fit into a chunk, but at least one.
fn chunk(frames: impl Iterator<Item = Frame>) -> Vec<Frame> {
    let mut bytes = 0;
    let fits = |frame: &Frame| {
        bytes += frame.text.len();
        bytes <= CHUNK_BYTES || bytes == frame.text.len()
    };
    frames.take_while(fits).collect()
}

/// The next frames of a reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) frames: Vec<Frame>,
    /// With these frames the reader has everything up to this position.
    pub(crate) position: i64,
    /// Whether there may be more frames already.
    pub(crate) has_more: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            feeds: Mutex::default(),
            opened: Notify::new(),
            stopping: watch::Sender::new(false),
            catching_up: Arc::new(Semaphore::new(MAX_CATCHING_UP)),
        }
    }

    /// A new reader, unless the account has the maximum already.
    pub(crate) fn open(self: &Arc<Self>, tenant: &TenantId) -> Option<StreamReader> {
        let mut feeds = lock(&self.feeds);
        let feed = feeds.entry(tenant.clone()).or_insert_with(|| Arc::new(Feed::new()));
        let mut ring = lock(&feed.ring);
        if ring.readers >= MAX_READERS {
            return None;
        }
        ring.readers += 1;
        drop(ring);
        let (added, stopping) = (feed.added.subscribe(), self.stopping.subscribe());
        let (streams, tenant, feed) = (Arc::clone(self), tenant.clone(), Arc::clone(feed));
        self.opened.notify_one();
        Some(StreamReader { streams, tenant, feed, added, stopping, queued: None })
    }

    /// Ends all streams because the server is stopping.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// The number of readers.
    pub(crate) fn readers(&self) -> usize {
        lock(&self.feeds).values().map(|feed| lock(&feed.ring).readers).sum()
    }

    /// The accounts that have readers.
    pub(crate) fn feeds(&self) -> Vec<(TenantId, Arc<Feed>)> {
        lock(&self.feeds).iter().map(|(tenant, feed)| (tenant.clone(), Arc::clone(feed))).collect()
    }
}

/// Permission to read a page of the database: from the account's queue, and from that of all accounts.
type Permits = [OwnedSemaphorePermit; 2];

async fn permits([account, all]: [Arc<Semaphore>; 2]) -> Option<Permits> {
    Some([account.acquire_owned().await.ok()?, all.acquire_owned().await.ok()?])
}

/// A reader of one account's events; counted until it is dropped.
pub(crate) struct StreamReader {
    streams: Arc<Streams>,
    tenant: TenantId,
    feed: Arc<Feed>,
    added: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
    /// Keeps its position in the queues for the database between calls.
    queued: Option<Pin<Box<dyn Future<Output = Option<Permits>> + Send>>>,
}

impl StreamReader {
    /// Whether the server is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// The events after a position, at most a page of the database. Frames added later end [`StreamReader::wait`]. Others than
    /// of these kinds may be left out.
    pub(crate) async fn next(&mut self, db: &Db, after: i64, kinds: &[EventKind]) -> Result<Chunk, DbError> {
        self.added.borrow_and_update();
        let buffered = lock(&self.feed.ring).after(after);
        if let Some(frames) = buffered {
            let position = frames.last().map_or(after, |frame| frame.position);
            return Ok(Chunk { has_more: !frames.is_empty(), frames, position });
        }
        let Some(_permits) = self.permits().await else {
            return Ok(Chunk { frames: Vec::new(), position: after, has_more: true });
        };
        let mut reader = db.read().await?;
        let end = clicks::head(&mut reader.conn()).await?;
        let wanted = Wanted { tenants: &[&self.tenant], kinds, clicked: None };
        let (events, read_to) = page(&mut reader.conn(), wanted, (after, end)).await?;
        drop(reader);
        let frames = chunk(events.iter().map(Frame::from));
        // Events that did not fit are read again.
        let is_cut = frames.len() < events.len();
        let position = frames.last().filter(|_| is_cut).map_or(read_to.max(after), |last| last.position);
        Ok(Chunk { frames, position, has_more: position < end })
    }

    /// Permission to read the database; `None` if there is none in time, or the server is stopping. Keeps its position in the
    /// queue.
    async fn permits(&mut self) -> Option<Permits> {
        let queues = [&self.feed.catching_up, &self.streams.catching_up].map(Arc::clone);
        let queued = self.queued.get_or_insert_with(|| Box::pin(permits(queues)));
        let permits = tokio::select! {
            permits = queued => permits,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
            () = sleep(PERMIT_TIMEOUT) => return None,
        };
        self.queued = None;
        permits
    }

    /// Leaves the queue for the database, so that no other reader waits for one that may not read for a while.
    pub(crate) fn leave_queue(&mut self) {
        self.queued = None;
    }

    /// Waits until there may be more events, or the server is stopping.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.added.changed() => {}
            _ = self.stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut feeds = lock(&self.streams.feeds);
        let mut ring = lock(&self.feed.ring);
        ring.readers -= 1;
        if ring.readers == 0 {
            feeds.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests;
