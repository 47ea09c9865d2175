//! Writes share the writer fairly, on SQLite or, with `TEST_DATABASE_URL`, on PostgreSQL. Jobs report when they run and
//! wait until they may end; where time matters it is paused, and the test advances it.

use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use futures_util::FutureExt;
use futures_util::future::{join_all, try_join_all};

use super::tests::{Scratch, now};
use super::*;
use crate::config::TEST_DATABASE_TIMEOUT;

type Write<'a> = Pin<Box<dyn Future<Output = Result<(), DbError>> + Send + 'a>>;

/// Two accounts that write to one database.
struct Scene {
    scratch: Scratch,
    a: TenantId,
    b: TenantId,
    /// Whose jobs have run, in order.
    ran: Arc<Mutex<Vec<TenantId>>>,
    /// How many jobs wait at the gate, and who may pass it.
    arrived: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Scene {
    async fn new() -> Self {
        let mut random = Random::system();
        let [a, b] = [(); 2].map(|()| TenantId::new(now(), &mut random));
        let [arrived, gate] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
        Self { scratch: Scratch::new().await, a, b, ran: Arc::default(), arrived, gate }
    }

    /// How many writes of one account are under way at once.
    fn at_once(&self) -> usize {
        if self.scratch.db.is_sqlite() { 1 } else { 4 }
    }

    /// A write that records that it ran. It is queued, or refused at once.
    fn write<'a>(&'a self, of: &'a TenantId) -> Result<Write<'a>, DbError> {
        self.batch(of, 1)
    }

    /// The same for a batch of rows.
    fn batch<'a>(&'a self, of: &'a TenantId, rows: usize) -> Result<Write<'a>, DbError> {
        let job = (Arc::clone(&self.ran), of.clone());
        let turn = Turn::from(of).of_rows(rows);
        let mut write: Write<'a> = Box::pin(self.scratch.db.write(turn, job, |_, (ran, of)| {
            async move {
                ran.lock().expect("the order").push(of.clone());
                Ok(())
            }
            .boxed()
        }));
        match (&mut write).now_or_never() {
            None => Ok(write),
            Some(Err(refusal)) => Err(refusal),
            Some(Ok(())) => Ok(async { Ok(()) }.boxed()),
        }
    }

    /// Starts as many writes of an account as can be under way; they stay so until the gate is opened.
    async fn hold(&self, of: &TenantId) -> Vec<tokio::task::JoinHandle<Result<(), DbError>>> {
        let held = (0..self.at_once()).map(|_| {
            let (db, of) = (self.scratch.db.clone(), of.clone());
            let job = (Arc::clone(&self.arrived), Arc::clone(&self.gate));
            tokio::spawn(async move {
                let write = db.write(&of, job, |_, (arrived, gate)| {
                    async move {
                        arrived.add_permits(1);
                        gate.acquire().await.expect("a gate").forget();
                        Ok(())
                    }
                    .boxed()
                });
                write.await
            })
        });
        let held = held.collect();
        let arrived = u32::try_from(self.at_once()).expect("a number");
        self.arrived.acquire_many(arrived).await.expect("a gate").forget();
        held
    }

    fn open_gate(&self) {
        self.gate.add_permits(self.at_once());
    }

    fn ran(&self, of: &TenantId) -> usize {
        self.ran.lock().expect("the order").iter().filter(|ran| *ran == of).count()
    }
}

/// However much one account writes, 256 of its writes wait and the others are refused at once. Another account's write
/// does not wait behind them: on SQLite it is in the next batch, and on PostgreSQL, where one account has 4 writers, it
/// runs beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_an_account_has_a_share_of_the_writers_and_others_keep_their_turn() {
    let scene = Scene::new().await;
    let held = scene.hold(&scene.a).await;
    let (waiting, refused): (Vec<_>, Vec<_>) = (0..300).map(|_| scene.write(&scene.a)).partition(Result::is_ok);
    assert_eq!((waiting.len(), refused.len()), (256, 44));
    assert!(refused.iter().all(|refused| matches!(refused, Err(DbError::ShareUsedUp))));
    let of_b = scene.write(&scene.b).expect("there is room for others");
    if scene.scratch.db.is_sqlite() {
        scene.open_gate();
        of_b.await.expect("a write");
        let place = scene.ran.lock().expect("the order").iter().position(|of| *of == scene.b);
        assert!(place.expect("it ran") <= 1, "the accounts take turns: {place:?}");
    } else {
        of_b.await.expect("a write beside the held ones");
        assert_eq!(scene.ran(&scene.a), 0, "no fifth writer");
        scene.open_gate();
    }
    try_join_all(waiting.into_iter().map(Result::unwrap)).await.expect("all that waited are done");
    for held in held {
        held.await.expect("a task").expect("a write");
    }
    assert_eq!((scene.ran(&scene.a), scene.ran(&scene.b)), (256, 1), "what was refused did not run");
    scene.write(&scene.a).expect("its share is free again").await.expect("a write");
}

/// Callers without an account have their own shares and take turns too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_writes_without_an_account_keep_their_turn() {
    let scene = Scene::new().await;
    let held = scene.hold(&scene.a).await;
    let of_a: Vec<_> = (0..200).map(|_| scene.write(&scene.a).expect("room")).collect();
    let order = Arc::<Mutex<Vec<Share>>>::default();
    let shares = [Share::SignUps, Share::SignIns, Share::Payments, Share::Clicks, Share::Service];
    let others = shares.iter().map(|share| {
        let job = (Arc::clone(&order), Arc::clone(&scene.ran), share.clone());
        let write = scene.scratch.db.write(share.clone(), job, |_, (order, ran, share)| {
            async move {
                order.lock().expect("the order").push(share.clone());
                Ok::<_, DbError>(ran.lock().expect("the order").len())
            }
            .boxed()
        });
        let mut write = Box::pin(write);
        assert!((&mut write).now_or_never().is_none());
        write
    });
    let others: Vec<_> = others.collect();
    if scene.scratch.db.is_sqlite() {
        scene.open_gate();
    }
    for after in try_join_all(others).await.expect("writes") {
        assert!(after <= 1, "{after} of the account's were before it");
    }
    if !scene.scratch.db.is_sqlite() {
        scene.open_gate();
    }
    try_join_all(of_a).await.expect("writes");
    join_all(held).await;
    assert_eq!(order.lock().expect("the order").len(), shares.len());
}

/// Pauses time: a blocking task keeps the runtime from advancing it. The task ends when the result is dropped.
pub(super) fn stop_time() -> std::sync::mpsc::Sender<()> {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || ended.recv());
    tokio::time::pause();
    end
}

/// A write that has waited past its deadline is refused and does not run, whatever kept it waiting. If the account had
/// many writes of its own ahead of it, the error says so.
#[tokio::test]
async fn r2_what_has_waited_too_long_is_refused_and_does_not_run() {
    let scene = Scene::new().await;
    let _time = stop_time();
    let held = scene.hold(&scene.a).await;
    let waiting: Vec<_> = (0..100).map(|_| scene.write(&scene.a).expect("room")).collect();
    let alone = scene.scratch.db.is_sqlite().then(|| scene.write(&scene.b).expect("room"));
    // The write under way takes longer than any write may wait.
    tokio::time::advance(TEST_DATABASE_TIMEOUT + Duration::from_secs(1)).await;
    let in_time = scene.scratch.db.is_sqlite().then(|| scene.write(&scene.b).expect("room"));
    scene.open_gate();
    for (nth, outcome) in join_all(waiting).await.into_iter().enumerate() {
        let is_behind_many = nth >= 16 || !scene.scratch.db.is_sqlite();
        match outcome {
            Err(DbError::Overloaded) if !is_behind_many => {}
            Err(DbError::ShareUsedUp) if is_behind_many => {}
            outcome => panic!("{nth}: {outcome:?}"),
        }
    }
    if let Some(alone) = alone {
        let outcome = alone.await;
        assert!(matches!(outcome, Err(DbError::Overloaded)), "{outcome:?}");
    }
    if let Some(in_time) = in_time {
        in_time.await.expect("its time has not passed");
    }
    join_all(held).await;
    assert_eq!(scene.ran(&scene.a), 0, "503 means: not applied");
    scene.write(&scene.a).expect("room").await.expect("later writes work");
}

/// R2: a batch that waits too long behind two batches of the same account gets the error that says so.
#[tokio::test]
async fn r2_batches_behind_two_of_their_account_are_told_so() {
    let scene = Scene::new().await;
    let _time = stop_time();
    let held = scene.hold(&scene.a).await;
    let waiting: Vec<_> = (0..20).map(|_| scene.batch(&scene.a, 100).expect("room")).collect();
    tokio::time::advance(TEST_DATABASE_TIMEOUT + Duration::from_secs(1)).await;
    scene.open_gate();
    for (nth, outcome) in join_all(waiting).await.into_iter().enumerate() {
        let is_behind_own = nth >= 2 || !scene.scratch.db.is_sqlite();
        assert_eq!(matches!(outcome, Err(DbError::ShareUsedUp)), is_behind_own, "{nth}: {outcome:?}");
    }
    join_all(held).await;
}

/// However long the queue is, overdue writes are refused before SQLite's next batch, not when their turn comes.
#[tokio::test]
async fn r2_what_is_overdue_is_refused_before_the_next_batch() {
    let scene = Scene::new().await;
    if !scene.scratch.db.is_sqlite() {
        // On PostgreSQL each write waits by itself.
        return;
    }
    let _time = stop_time();
    let held = scene.hold(&scene.a).await;
    let mut overdue: Vec<_> = (0..100).map(|_| scene.write(&scene.a).expect("room")).collect();
    tokio::time::advance(TEST_DATABASE_TIMEOUT + Duration::from_secs(1)).await;
    let in_time: Vec<_> = (0..100).map(|_| scene.write(&scene.b).expect("room")).collect();
    scene.open_gate();
    let mut in_time = in_time.into_iter();
    in_time.next().expect("a write").await.expect("its time has not passed");
    for write in &mut overdue {
        let outcome = write.now_or_never().expect("an answer before a later batch");
        assert!(matches!(outcome, Err(DbError::Overloaded | DbError::ShareUsedUp)), "{outcome:?}");
    }
    try_join_all(in_time).await.expect("writes");
    join_all(held).await;
    assert_eq!((scene.ran(&scene.a), scene.ran(&scene.b)), (0, 100));
}

/// A SQLite batch takes no more writes once its writes have taken 50 ms. The others stay queued for the next one.
#[tokio::test]
async fn r2_a_batch_ends_after_50_ms_of_work() {
    let scene = Scene::new().await;
    if !scene.scratch.db.is_sqlite() {
        // On PostgreSQL each write is a separate transaction.
        return;
    }
    let _time = stop_time();
    let held = scene.hold(&scene.b).await;
    let (ran, committed) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<Vec<usize>>>::default());
    let writes = (0..10).map(|_| {
        let committed = Arc::clone(&committed);
        let write = scene.scratch.db.write_then(
            &scene.a,
            Arc::clone(&ran),
            |_, ran| {
                async move {
                    tokio::time::advance(Duration::from_millis(20)).await;
                    ran.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, DbError>(())
                }
                .boxed()
            },
            move |ran: &Arc<AtomicUsize>, ()| {
                committed.lock().expect("a list").push(ran.load(Ordering::SeqCst));
            },
        );
        let mut write = Box::pin(write);
        assert!((&mut write).now_or_never().is_none());
        write
    });
    let writes: Vec<_> = writes.collect();
    scene.open_gate();
    try_join_all(writes).await.expect("writes");
    join_all(held).await;
    let committed = committed.lock().expect("a list");
    assert_eq!(*committed, [3, 3, 3, 6, 6, 6, 9, 9, 9, 10], "each commits with those that ran in its batch");
}

/// R2: an account's own writes do not wait behind all of those with credentials that it gives away: of those that run
/// next, half are its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_restricted_credentials_leave_their_account_its_writes() {
    let scene = Scene::new().await;
    let held = scene.hold(&scene.a).await;
    let own = Arc::<AtomicUsize>::default();
    let write = |is_restricted| {
        let turn = Turn::from(&scene.a).restricted(is_restricted);
        let job = (Arc::clone(&scene.arrived), Arc::clone(&scene.gate), Arc::clone(&own), is_restricted);
        let write = scene.scratch.db.write(turn, job, |_, (arrived, gate, own, is_restricted)| {
            async move {
                own.fetch_add(usize::from(!*is_restricted), Ordering::SeqCst);
                arrived.add_permits(1);
                gate.acquire().await.expect("a gate").forget();
                Ok::<_, DbError>(())
            }
            .boxed()
        });
        let mut write = Box::pin(write);
        assert!((&mut write).now_or_never().is_none());
        write
    };
    let all: Vec<_> = (0..103).map(|number| write(number < 100)).collect();
    scene.open_gate();
    let next = async {
        let at_once = u32::try_from(scene.at_once()).expect("a number");
        scene.arrived.acquire_many(at_once).await.expect("a gate").forget();
        assert_eq!(own.load(Ordering::SeqCst), scene.at_once().div_ceil(2));
        scene.gate.add_permits(103);
    };
    let (all, ()) = tokio::join!(try_join_all(all), next);
    all.expect("writes");
    join_all(held).await;
}
