//! The thread that decodes, one picture at a time: each may take as much memory as all may. It is always the same one,
//! because the allocator keeps what was freed for the thread that asked for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

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
#[derive(Debug, Default)]
pub(super) struct Decoder(Mutex<Option<SyncSender<Work>>>);

impl Decoder {
    /// Runs this when its turn comes; if that is too late, it is dropped without having run.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        end: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        let (sender, receiver) = oneshot::channel();
        self.send(Box::new(move || {
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
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        *self.0.lock().expect("the thread") = Some(sender);
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
