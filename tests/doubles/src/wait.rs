//! Concurrent callers, and waiting for conditions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::time::sleep;

/// Far longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The interval between two checks of a condition.
const PAUSE: Duration = Duration::from_millis(20);
/// The most that one check of a condition counts.
const LONGEST: Duration = Duration::from_millis(500);

/// Runs `n` callers that start at one instant; the results are in the order of their numbers.
pub async fn at_once<T, F>(n: usize, act: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(n));
    let callers: Vec<_> = (0..n)
        .map(|number| {
            let (barrier, act) = (Arc::clone(&barrier), act(number));
            tokio::spawn(async move {
                barrier.wait().await;
                act.await
            })
        })
        .collect();
    let mut results = Vec::with_capacity(n);
    for caller in callers {
        results.push(caller.await.expect("a caller finishes"));
    }
    results
}

/// What a condition says: `true`, or `Ok` where it can say why it does not hold yet.
pub trait Condition {
    /// Why it does not hold.
    fn why_not(self) -> Option<String>;
}

impl Condition for bool {
    fn why_not(self) -> Option<String> {
        (!self).then(String::new)
    }
}

impl Condition for Result<(), String> {
    fn why_not(self) -> Option<String> {
        self.err()
    }
}

/// Counts the time of the checks, each as a pause at least and as [`LONGEST`] at most: a machine that stalls for a
/// while costs at most that, and the time that a condition itself takes counts.
struct Patience<'a> {
    what: &'a str,
    limit: Duration,
    left: Duration,
}

impl<'a> Patience<'a> {
    fn new(what: &'a str, limit: Duration) -> Self {
        Self { what, limit, left: limit }
    }

    /// Counts a failed check that started at this moment, with its reason.
    fn spend(&mut self, began: Instant, why: &str) {
        assert!(!self.left.is_zero(), "not within {:?}: {} {why}", self.limit, self.what);
        self.left = self.left.saturating_sub(began.elapsed().clamp(PAUSE, LONGEST));
    }
}

/// Checks until `condition` holds and returns how long that took; after `limit` the test fails with the last reason.
pub async fn eventually<F>(what: &str, limit: Duration, mut condition: impl FnMut() -> F) -> Duration
where
    F: Future<Output: Condition>,
{
    let began = Instant::now();
    let mut patience = Patience::new(what, limit);
    let mut looked = began;
    while let Some(why) = condition().await.why_not() {
        patience.spend(looked, &why);
        sleep(PAUSE).await;
        looked = Instant::now();
    }
    began.elapsed()
}

/// The same on a thread that may block.
pub fn eventually_blocking<C: Condition>(what: &str, limit: Duration, mut condition: impl FnMut() -> C) {
    let mut patience = Patience::new(what, limit);
    let mut looked = Instant::now();
    while let Some(why) = condition().why_not() {
        patience.spend(looked, &why);
        std::thread::sleep(PAUSE);
        looked = Instant::now();
    }
}
