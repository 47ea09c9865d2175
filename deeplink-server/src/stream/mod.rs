//! Whoever reads the event stream on this node.
//!
//! One task (`tail`) follows the log and the events for all of them and keeps the last frames of each account that somebody
//! reads. A reader takes from there what comes behind the place that it has reached; one that is further behind, because it
//! has just come or reads slowly, asks the database for the next page. So nothing is kept for anybody who does not read, and
//! the log is read once, however many do.

pub(crate) mod tail;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::event::EventKind;
use deeplink_core::id::TenantId;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use crate::db::events::{Told, page};
use crate::db::{Db, DbError, clicks};

/// Most readers of an account on a node.
pub(crate) const MAX_READERS: usize = 10;
/// Bytes of frames that are kept for an account's readers, and for those of all accounts together.
const MAX_KEPT: usize = 256 * 1024;
const MAX_KEPT_OF_ALL: usize = 32 * 1024 * 1024;
/// Bytes of frames that a reader takes at one time, about.
const PIECE: usize = 64 * 1024;
/// Readers that ask the database for what they missed at one time: one, for reports may have half of the few connections
/// that read SQLite, and links and keys need the others. It has one page at its turn.
const CATCHING_UP: usize = 1;
/// How long a reader waits for its turn, before it looks at what else concerns it: its key, and that it says something.
const TURN: Duration = Duration::from_secs(1);

/// An event as a reader gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) position: i64,
    pub(crate) kind: EventKind,
    /// In the form of server-sent events.
    pub(crate) text: Bytes,
}

impl From<&Told> for Frame {
    fn from(told: &Told) -> Self {
        // A body has no line breaks: white space between tokens is never written.
        let text = format!("id: {}\nevent: {}\ndata: {}\n\n", told.id, told.kind, told.body);
        Self { position: told.position, kind: told.kind.clone(), text: text.into() }
    }
}

/// Everybody who reads.
#[derive(Debug)]
pub(crate) struct Streams {
    audiences: Mutex<HashMap<TenantId, Arc<Audience>>>,
    /// Somebody has come.
    opened: Notify,
    stopping: watch::Sender<bool>,
    catching_up: Arc<Semaphore>,
}

/// Those who read one account's events.
#[derive(Debug)]
struct Audience {
    ring: Mutex<Ring>,
    /// Something was added.
    news: watch::Sender<()>,
    /// One of its readers stands in the queue of those that catch up, so that accounts take turns.
    catching_up: Arc<Semaphore>,
}

impl Audience {
    fn new() -> Self {
        Self { ring: Mutex::new(Ring::new()), news: watch::Sender::new(()), catching_up: Arc::new(Semaphore::new(1)) }
    }
}

/// The last frames of an account.
#[derive(Debug)]
struct Ring {
    readers: usize,
    /// Every frame behind this place is here; `None` until the tail has come by.
    since: Option<i64>,
    /// Nothing up to this place is missing any more.
    upto: i64,
    frames: VecDeque<Frame>,
    bytes: usize,
    /// How many may be kept: less where many accounts are read.
    most: usize,
}

impl Ring {
    fn new() -> Self {
        Self { readers: 0, since: None, upto: 0, frames: VecDeque::new(), bytes: 0, most: MAX_KEPT }
    }

    fn add(&mut self, frame: Frame) {
        self.bytes += frame.text.len();
        self.frames.push_back(frame);
        self.shrink();
    }

    /// Lets go of the oldest frames, until no more than may be kept are left.
    fn shrink(&mut self) {
        while self.bytes > self.most
            && let Some(oldest) = self.frames.pop_front()
        {
            self.bytes -= oldest.text.len();
            self.since = Some(oldest.position);
        }
    }

    /// The frames behind a place, as many as are taken at one time; `None` when some of them are not here.
    fn behind(&self, place: i64) -> Option<Vec<Frame>> {
        if self.since.is_none_or(|since| place < since) {
            return None;
        }
        let first = self.frames.partition_point(|frame| frame.position <= place);
        Some(piece(self.frames.range(first..).cloned()))
    }
}

/// As many frames as are taken at one time: one at least, whatever its size.
fn piece(frames: impl Iterator<Item = Frame>) -> Vec<Frame> {
    let mut bytes = 0;
    let fits = |frame: &Frame| {
        bytes += frame.text.len();
        bytes <= PIECE || bytes == frame.text.len()
    };
    frames.take_while(fits).collect()
}

/// What a reader gets at one time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) frames: Vec<Frame>,
    /// The reader has everything up to here.
    pub(crate) reached: i64,
    /// Whether there may be more behind it already.
    pub(crate) has_more: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            audiences: Mutex::default(),
            opened: Notify::new(),
            stopping: watch::Sender::new(false),
            catching_up: Arc::new(Semaphore::new(CATCHING_UP)),
        }
    }

    /// A reader's place, unless the account has as many readers as it may.
    pub(crate) fn open(self: &Arc<Self>, tenant: &TenantId) -> Option<Seat> {
        let mut audiences = lock(&self.audiences);
        let audience = audiences.entry(tenant.clone()).or_insert_with(|| Arc::new(Audience::new()));
        let mut ring = lock(&audience.ring);
        if ring.readers >= MAX_READERS {
            return None;
        }
        ring.readers += 1;
        drop(ring);
        let (news, stopping) = (audience.news.subscribe(), self.stopping.subscribe());
        let (streams, tenant, audience) = (Arc::clone(self), tenant.clone(), Arc::clone(audience));
        self.opened.notify_one();
        Some(Seat { streams, tenant, audience, news, stopping, queued: None })
    }

    /// Lets every reader go, and nobody in.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// How many read.
    pub(crate) fn readers(&self) -> usize {
        lock(&self.audiences).values().map(|audience| lock(&audience.ring).readers).sum()
    }

    /// Whose events are read.
    fn audiences(&self) -> Vec<(TenantId, Arc<Audience>)> {
        lock(&self.audiences).iter().map(|(tenant, audience)| (tenant.clone(), Arc::clone(audience))).collect()
    }
}

/// A turn at the database: in the account's queue, and in that of all accounts.
type Turn = [OwnedSemaphorePermit; 2];

async fn turn([account, all]: [Arc<Semaphore>; 2]) -> Option<Turn> {
    Some([account.acquire_owned().await.ok()?, all.acquire_owned().await.ok()?])
}

/// A reader's place; given back when it is dropped.
pub(crate) struct Seat {
    streams: Arc<Streams>,
    tenant: TenantId,
    audience: Arc<Audience>,
    news: watch::Receiver<()>,
    stopping: watch::Receiver<bool>,
    /// Its place in the queues for the database, while it waits for its turn.
    queued: Option<Pin<Box<dyn Future<Output = Option<Turn>> + Send>>>,
}

impl Seat {
    /// Whether the service stops.
    pub(crate) fn is_over(&self) -> bool {
        *self.stopping.borrow()
    }

    /// What comes behind a place, at most a page of the database. What is added from here on ends [`Seat::wait`]. Without
    /// `has_clicks` clicks may be left out.
    pub(crate) async fn next(&mut self, db: &Db, after: i64, has_clicks: bool) -> Result<Piece, DbError> {
        self.news.borrow_and_update();
        let kept = lock(&self.audience.ring).behind(after);
        if let Some(frames) = kept {
            let reached = frames.last().map_or(after, |frame| frame.position);
            return Ok(Piece { has_more: !frames.is_empty(), frames, reached });
        }
        let Some(_turns) = self.turn().await else {
            return Ok(Piece { frames: Vec::new(), reached: after, has_more: true });
        };
        let mut reader = db.read().await?;
        let end = clicks::head(&mut reader.conn()).await?;
        let (told, upto) = page(&mut reader.conn(), &[&self.tenant], (after, end), has_clicks).await?;
        drop(reader);
        let frames = piece(told.iter().map(Frame::from));
        // What was not taken is read again.
        let is_cut = frames.len() < told.len();
        let reached = frames.last().filter(|_| is_cut).map_or(upto.max(after), |last| last.position);
        Ok(Piece { frames, reached, has_more: reached < end })
    }

    /// Its turn at the database; `None` where it has not come soon, or the service stops. Its place in the queue it keeps.
    async fn turn(&mut self) -> Option<Turn> {
        let queues = [&self.audience.catching_up, &self.streams.catching_up].map(Arc::clone);
        let queued = self.queued.get_or_insert_with(|| Box::pin(turn(queues)));
        let turn = tokio::select! {
            turn = queued => turn,
            _ = self.stopping.wait_for(|stopping| *stopping) => return None,
            () = sleep(TURN) => return None,
        };
        self.queued = None;
        turn
    }

    /// Leaves the queue for the database: nobody waits for a reader that may take nothing for a while.
    pub(crate) fn step_back(&mut self) {
        self.queued = None;
    }

    /// Waits until there may be more, or the service stops.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.news.changed() => {}
            _ = self.stopping.wait_for(|stopping| *stopping) => {}
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut audiences = lock(&self.streams.audiences);
        let mut ring = lock(&self.audience.ring);
        ring.readers -= 1;
        if ring.readers == 0 {
            audiences.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests;
