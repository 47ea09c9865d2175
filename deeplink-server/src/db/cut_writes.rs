//! F26: writes whose callers are canceled, on SQLite or, with `TEST_DATABASE_URL`, on PostgreSQL. There a `begin()` that is
//! dropped midway would leave its open transaction to the next user of the connection.

use std::time::Duration;

use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_doubles::machine;
use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::config::TEST_DATABASE_TIMEOUT;

const OPEN: &str = "SELECT COUNT(*) FROM pg_stat_activity
    WHERE datname = current_database() AND starts_with(state, 'idle in transaction')";

async fn database(folder: &std::path::Path) -> Db {
    let url = machine::new_database("cut", folder);
    Db::open(&url, Access::Serve, TEST_DATABASE_TIMEOUT).await.expect("a database")
}

async fn number(db: &Db, sql: &'static str) -> i64 {
    let mut reader = db.read().await.expect("a reader");
    on!(&mut reader.conn(), c => sqlx::query_scalar(sql).fetch_one(c).await).expect("a number")
}

/// Stores a tenant and raises its counter.
async fn open(db: &Db, id: TenantId) -> Result<(), DbError> {
    let now = Timestamp::from_millis(1_795_167_000_000);
    db.write(Share::Service, id, move |tx, id| {
        async move {
            tenants::insert(tx, id, now).await?;
            tenants::count_links(tx, id, 1, None).await
        }
        .boxed()
    })
    .await
    .map(drop)
}

/// Three hundred writes are canceled after 0 to 295 µs. None leaves a transaction open, each is done completely or not at
/// all, and later acknowledged writes are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_a_cancelled_write_leaves_no_transaction_open() {
    let folder = tempfile::tempdir().expect("a directory");
    let db = database(folder.path()).await;
    let mut random = Random::system();
    let mut new_id = || TenantId::new(Timestamp::from_millis(1_795_167_000_000), &mut random);
    for attempt in 0..300 {
        // Whether it was canceled or completed does not matter.
        drop(timeout(Duration::from_micros(attempt % 60 * 5), open(&db, new_id())).await);
        let end = Instant::now() + Duration::from_mins(1);
        while !db.is_sqlite() && number(&db, OPEN).await > 0 {
            assert!(Instant::now() < end, "a transaction stayed open after attempt {attempt}");
            sleep(Duration::from_millis(1)).await;
        }
    }
    // Canceled writes that were accepted still complete, before any later one.
    open(&db, new_id()).await.expect("a write");
    let before = number(&db, "SELECT COUNT(*) FROM tenants").await;
    for _ in 0..20 {
        open(&db, new_id()).await.expect("a write");
    }
    // Canceled writes may have completed in between.
    assert!(number(&db, "SELECT COUNT(*) FROM tenants").await >= before + 20, "acknowledged writes are stored");
    assert_eq!(number(&db, "SELECT COUNT(*) FROM tenants WHERE link_count <> 1").await, 0, "no write is partial");
}

/// The follow-up of a commit runs even if the caller no longer waits, and a panic there undoes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_commit_does_not_need_its_caller() {
    let folder = tempfile::tempdir().expect("a directory");
    let db = database(folder.path()).await;
    let now = Timestamp::from_millis(1_795_167_000_000);
    let mut random = Random::system();
    let mut new_id = || TenantId::new(now, &mut random);
    let (follows, followed) = tokio::sync::oneshot::channel();
    let gate = Arc::new(Semaphore::new(0));
    let write = db.write_then(
        Share::Service,
        (new_id(), Arc::clone(&gate)),
        move |tx, (id, gate)| {
            async move {
                gate.acquire().await.expect("a gate").forget();
                tenants::insert(tx, id, now).await
            }
            .boxed()
        },
        move |_, ()| follows.send(()).expect("the test receives"),
    );
    // The first poll starts the write; it is not polled again.
    assert!(write.now_or_never().is_none(), "it cannot be done before the gate opens");
    gate.add_permits(1);
    timeout(TEST_DATABASE_TIMEOUT, followed).await.expect("in time").expect("it follows");
    assert_eq!(number(&db, "SELECT COUNT(*) FROM tenants").await, 1, "the commit came first");
    let panicked = db.write_then(
        Share::Service,
        new_id(),
        move |tx, id| tenants::insert(tx, id, now).boxed(),
        |_: &TenantId, ()| panic!("on purpose"),
    );
    assert!(matches!(panicked.await, Err(DbError::Unknown(_))));
    open(&db, new_id()).await.expect("later writes work");
    assert_eq!(number(&db, "SELECT COUNT(*) FROM tenants").await, 3);
}
