//! The thread that decodes, one picture at a time: each may take as much memory as all may. It is always the same one,
//! because the allocator keeps what was freed for the thread that asked for it. The tenants take turns.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use deeplink_core::id::TenantId;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::outbound::places::Places;

/// Pictures that wait for the thread. There are never more, because each has a place.
const WAITING: usize = super::PLACES.0;

type Work = Box<dyn FnOnce() + Send>;

/// Why nothing was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotDone {
    /// The time was over before it was done.
    #[error("too late")]
    Late,
    /// The picture made the decoder panic.
    #[error("the decoder panicked")]
    Panicked,
    /// There is no thread, or too much waits for it.
    #[error("no thread for decoding images")]
    NoThread,
}

/// The thread, which is started when there is work, and again if it has ended.
#[derive(Debug)]
pub(super) struct Decoder {
    thread: Mutex<Option<SyncSender<Work>>>,
    /// One for each tenant, so that one whose pictures take long keeps nobody else waiting for more than one of them.
    turns: Arc<Places>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { thread: Mutex::default(), turns: Places::new(WAITING, 1) }
    }

    /// Runs this when the tenant's turn comes; if that is too late, it is dropped without having run.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        end: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let turn = self.turns.wait(tenant, WAITING).ok_or(NotDone::NoThread)?;
        let turn = timeout_at(end, turn).await.map_err(|_| NotDone::Late)?;
        let (sender, receiver) = oneshot::channel();
        self.send(Box::new(move || {
            // Over when this is done, or dropped, and not when nobody waits for it any more.
            let _turn = turn;
            if !sender.is_closed() {
                // Whoever has gone does not want it any more.
                let _ = sender.send(catch_unwind(AssertUnwindSafe(work)).ok());
            }
        }))?;
        match timeout_at(end, receiver).await {
            Ok(Ok(result)) => result.ok_or(NotDone::Panicked),
            Ok(Err(_)) => Err(NotDone::NoThread),
            Err(_) => Err(NotDone::Late),
        }
    }

    fn send(&self, mut work: Work) -> Result<(), NotDone> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*thread {
            work = match sender.try_send(work) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(NotDone::NoThread),
                Err(TrySendError::Disconnected(work)) => work,
            };
        }
        let sender = start()?;
        let sent = sender.try_send(work).map_err(|_| NotDone::NoThread);
        *thread = Some(sender);
        sent
    }

    /// Another thread in the place of this one, which does not take work any more.
    #[cfg(test)]
    pub(super) fn end(&self) {
        let (sender, _) = sync_channel(1);
        *self.thread.lock().expect("the thread") = Some(sender);
    }
}

fn start() -> Result<SyncSender<Work>, NotDone> {
    let (sender, receiver): (_, Receiver<Work>) = sync_channel(WAITING);
    let thread = std::thread::Builder::new().name("logos".to_owned());
    let started = thread.spawn(move || receiver.into_iter().for_each(|work| work()));
    started.map(|_| sender).map_err(|error| {
        tracing::warn!(%error, "no thread for decoding images");
        NotDone::NoThread
    })
}
