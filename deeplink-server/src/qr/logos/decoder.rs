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

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use deeplink_core::id::TenantId;
    use futures_util::future::join_all;

    use super::super::MAX_FETCHES_PER_TENANT;
    use super::*;

    pub(in super::super) fn turn(tenant: u32) -> Turn {
        let id: TenantId = format!("tnt_{tenant:024x}").parse().expect("an id");
        Turn::from(&id)
    }

    /// Runs a task at a decoder when its turn comes.
    pub(in super::super) async fn run<T: Send + 'static>(
        decoder: &Decoder,
        turn: Turn,
        end: Instant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DecoderError> {
        let turn = decoder.turn(turn, end).await?;
        decoder.run(turn, end, work).await
    }

    /// The wait for the decoder times out, and a task without waiters does not run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_wait_for_the_decoder_times_out() {
        let decoder = Decoder::new();
        let (go, going) = std::sync::mpsc::channel::<()>();
        let busy = run(&decoder, turn(1), Instant::now() + Duration::from_secs(5), move || going.recv());
        let late = async {
            let ran = Arc::new(std::sync::atomic::AtomicBool::new(false));
            for (tenant, whose) in [(1, UsedUp::Own), (2, UsedUp::All)] {
                let runs = Arc::clone(&ran);
                let end = Instant::now() + Duration::from_millis(50);
                let outcome = run(&decoder, turn(tenant), end, move || runs.store(true, Ordering::SeqCst)).await;
                assert_eq!(outcome, Err(DecoderError::UsedUp(whose)));
            }
            go.send(()).expect("a receiver");
            ran
        };
        let (busy, ran) = tokio::join!(busy, late);
        assert_eq!(busy, Ok(Ok(())));
        let (go, going) = std::sync::mpsc::channel::<()>();
        let late = run(&decoder, turn(1), Instant::now() + Duration::from_millis(50), move || going.recv()).await;
        assert_eq!(late, Err(DecoderError::Late), "it has begun");
        go.send(()).expect("a receiver");
        let end = Instant::now() + Duration::from_secs(5);
        assert_eq!(run(&decoder, turn(1), end, || ()).await, Ok(()), "the next one has its turn");
        assert!(!ran.load(Ordering::SeqCst));
    }

    /// Many images of one tenant do not delay another tenant's.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_tenants_take_turns_at_the_decoder() {
        let (decoder, order) = (Decoder::new(), Arc::<Mutex<Vec<u32>>>::default());
        let (go, going) = std::sync::mpsc::channel::<()>();
        let end = Instant::now() + Duration::from_secs(5);
        let busy = run(&decoder, turn(0), end, move || going.recv());
        let decode = |tenant: u32| {
            let order = Arc::clone(&order);
            run(&decoder, turn(tenant), end, move || order.lock().expect("the order").push(tenant))
        };
        let many = join_all((0..MAX_FETCHES_PER_TENANT).map(|_| decode(1)));
        let release = async { go.send(()).expect("a receiver") };
        let (busy, many, other, ()) = tokio::join!(busy, many, decode(2), release);
        assert!(busy == Ok(Ok(())) && many.iter().all(Result::is_ok) && other.is_ok());
        assert_eq!(order.lock().expect("the order")[..2], [1, 2]);
    }

    /// Q2: small images do not wait for the large ones of many others.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn q2_the_decoder_takes_small_tasks_first() {
        let (decoder, order) = (Decoder::new(), Arc::<Mutex<Vec<u32>>>::default());
        let (go, going) = std::sync::mpsc::channel::<()>();
        let end = Instant::now() + Duration::from_secs(5);
        let busy = run(&decoder, turn(0), end, move || going.recv());
        let decode = |tenant: u32, rows: usize| {
            let order = Arc::clone(&order);
            run(&decoder, turn(tenant).of_rows(rows), end, move || order.lock().expect("the order").push(tenant))
        };
        let large = join_all((1..=20).map(|tenant| decode(tenant, 464)));
        let release = async { go.send(()).expect("a receiver") };
        let (busy, large, small, ()) = tokio::join!(busy, large, decode(99, 1), release);
        assert!(busy == Ok(Ok(())) && large.iter().all(Result::is_ok) && small.is_ok());
        assert_eq!(order.lock().expect("the order")[0], 99);
    }
}
