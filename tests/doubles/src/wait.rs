//! Many at one instant, and things that take a moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use tokio::time::sleep;

/// Far longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(20);
/// What a look at a condition costs at most.
const LONGEST: Duration = Duration::from_millis(500);

/// Runs `n` callers that are let go at one instant; the results come in the order of their numbers.
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
        results.push(caller.await.expect("a caller comes to its end"));
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

/// Counts what the looks took, each as a pause at least and as [`LONGEST`] at most: a machine that stands still for a while
/// costs no more than that, and what a condition does by itself is not free.
struct Patience<'a> {
    what: &'a str,
    limit: Duration,
    left: Duration,
}

impl<'a> Patience<'a> {
    fn new(what: &'a str, limit: Duration) -> Self {
        Self { what, limit, left: limit }
    }

    /// Counts a look that began at a moment and found out why not.
    fn spend(&mut self, began: Instant, why: &str) {
        assert!(!self.left.is_zero(), "not within {:?}: {} {why}", self.limit, self.what);
        self.left = self.left.saturating_sub(began.elapsed().clamp(PAUSE, LONGEST));
    }
}

/// Asks again until `condition` holds, and says how long that took; after `limit` the test has failed with its last answer.
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
