//! Many at one instant, and things that take a moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::time::{Instant, sleep};

/// Runs `n` callers that are let go at one instant; the results come in the order of their numbers.
pub(crate) async fn at_once<T, F>(n: usize, act: impl Fn(usize) -> F) -> Vec<T>
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

/// Asks again until `condition` holds; after `limit` the test has failed.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, limit: Duration, condition: impl Fn() -> F) {
    let end = Instant::now() + limit;
    while !condition().await {
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
