//! The thread that decodes images, one at a time, because each may need all the memory for decoding. It is always the
//! same thread, because the allocator keeps freed memory per thread. Tenants take turns by cost, so that small images do not
//! wait for the large ones of many others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::shares::Turn;
use crate::shares::limit::{Permit, ShareLimit, UsedUp};

/// Tasks of a tenant that wait for their turn; this suffices, because each holds a fetch permit.
const MAX_WAITING: usize = super::MAX_FETCHES_PER_TENANT;

type Work = Box<dyn FnOnce() + Send>;

/// Why a task did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecoderError {
    /// Its turn did not come in time.
    #[error("the decoder was busy")]
    UsedUp(UsedUp),
    /// It was not done in time.
    #[error("too late")]
    Late,
    /// It panicked.
    #[error("the decoder panicked")]
    Panicked,
    /// The thread could not be started, or its queue is full.
    #[error("no thread for decoding images")]
    NoThread,
}

/// The thread, which is started on demand, and again if it has ended.
#[derive(Debug)]
pub(super) struct Decoder {
    thread: Mutex<Option<SyncSender<Work>>>,
    /// One at a time: the next is chosen when the thread is free.
    turns: Arc<ShareLimit>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { thread: Mutex::default(), turns: ShareLimit::new(1, 1) }
    }

    /// Waits for a turn at the thread.
    pub(super) async fn turn(&self, turn: Turn, end: Instant) -> Result<Permit, DecoderError> {
        self.turns.acquire_until(turn, MAX_WAITING, end).await.map_err(DecoderError::UsedUp)
    }

    /// Runs a task in its turn; drops it if that is too late.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        turn: Permit,
        end: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DecoderError> {
        let (sender, receiver) = oneshot::channel();
        self.send(Box::new(move || {
            // Held until the task is done or dropped, even if its caller has gone.
            let _turn = turn;
            if !sender.is_closed() {
                // The caller may have gone.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(work)).ok());
            }
        }))?;
        match timeout_at(end, receiver).await {
            Ok(Ok(result)) => result.ok_or(DecoderError::Panicked),
            Ok(Err(_)) => Err(DecoderError::NoThread),
            Err(_) => Err(DecoderError::Late),
        }
    }

    fn send(&self, mut work: Work) -> Result<(), DecoderError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*thread {
            work = match sender.try_send(work) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(DecoderError::NoThread),
                Err(TrySendError::Disconnected(work)) => work,
            };
        }
        let sender = start()?;
        let sent = sender.try_send(work).map_err(|_| DecoderError::NoThread);
        *thread = Some(sender);
        sent
    }

    /// Whether tasks of a share wait for their turn.
    #[cfg(test)]
    pub(super) fn is_waiting(&self, turn: &Turn) -> bool {
        self.turns.is_waiting(turn)
    }

    /// Replaces the thread with one that has ended.
    #[cfg(test)]
    pub(super) fn disconnect(&self) {
        let (sender, _) = sync_channel(1);
        *self.thread.lock().expect("the thread") = Some(sender);
    }
}

fn start() -> Result<SyncSender<Work>, DecoderError> {
    let (sender, receiver): (_, Receiver<Work>) = sync_channel(1);
    let thread = std::thread::Builder::new().name("logos".to_owned());
    let started = thread.spawn(move || receiver.into_iter().for_each(|work| work()));
    started.map(|_| sender).map_err(|error| {
        tracing::warn!(%error, "logo decoder thread could not be started");
        DecoderError::NoThread
    })
}
