//! Many at one instant, and things that take a moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::time::sleep;

use super::Reply;

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

/// Asks until the service takes it. A 503 says that nothing was done, which a busy machine may have to say.
pub(crate) async fn insist<F: Future<Output = Reply>>(ask: impl Fn() -> F) -> Reply {
    for _ in 0..100 {
        let reply = ask().await;
        if reply.status != 503 {
            return reply;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("refused a hundred times");
}

/// Asks again until `condition` holds; after `limit` the test has failed. The limit is counted in pauses, so that a
/// machine that stands still for a while costs one of them.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, limit: Duration, condition: impl Fn() -> F) {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut left = limit;
    while !condition().await {
        assert!(!left.is_zero(), "not within {limit:?}: {what}");
        sleep(PAUSE).await;
        left = left.saturating_sub(PAUSE);
    }
}
