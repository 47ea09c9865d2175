//! A write that panics fails alone.

use futures_util::FutureExt;

use super::tests::Scratch;
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_continue_after_relaxed_ones_that_panic() {
    let scratch = Scratch::new().await;
    for _ in 0..3 {
        let write = scratch.db.write_relaxed(Share::Service, (), |_, ()| async { panic!("deliberate panic") }.boxed());
        let outcome: Result<(), DbError> = write.await;
        assert!(outcome.is_err());
    }
    scratch.execute("CREATE TABLE afterwards (id BIGINT)".into()).await;
}
