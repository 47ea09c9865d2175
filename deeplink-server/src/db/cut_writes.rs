//! F26: writes whose callers go away in the middle, on SQLite or, with `TEST_DATABASE_URL`, on PostgreSQL. There a
//! `begin()` that is dropped midway would hand its open transaction to the next borrower of the connection.

use std::time::Duration;

use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::config::BUSY_MACHINE;

const OPEN: &str = "SELECT COUNT(*) FROM pg_stat_activity
    WHERE datname = current_database() AND starts_with(state, 'idle in transaction')";

async fn database(folder: &std::path::Path) -> Db {
    #[expect(clippy::disallowed_methods, reason = "which database tests run on is no setting of the service")]
    let server = std::env::var("TEST_DATABASE_URL").ok().filter(|url| !url.is_empty());
    let url = match server {
        None => format!("sqlite://{}", folder.join("test.db").display()),
        Some(server) => {
            let mut url: url::Url = server.parse().expect("TEST_DATABASE_URL is a URL");
            url.set_path(&format!("cut_{}", hex::encode(Random::system().bytes::<8>())));
            url.into()
        }
    };
    Db::open(&url, Access::Serve, BUSY_MACHINE).await.expect("a database")
}

async fn number(db: &Db, sql: &'static str) -> i64 {
    let mut reader = db.read().await.expect("a reader");
    on!(&mut reader.conn(), c => sqlx::query_scalar(sql).fetch_one(c).await).expect("a number")
}

/// Stores a tenant and moves its counter.
async fn open(db: &Db, id: TenantId) -> Result<(), DbError> {
    let now = Timestamp::from_millis(1_795_167_000_000);
    db.write(move |mut tx| {
        let id = id.clone();
        async move {
            tenants::insert(&mut tx, &id, now).await?;
            tenants::count_links(&mut tx, &id, 1, false).await?;
            Ok(())
        }
        .boxed()
    })
    .await
}

/// Three hundred writes are cut after 0 to 295 µs. None leaves a transaction open, and each is done as a whole or not
/// at all; what is acknowledged afterwards is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_a_cut_write_leaves_no_transaction_open() {
    let folder = tempfile::tempdir().expect("a directory");
    let db = database(folder.path()).await;
    let mut random = Random::system();
    let mut new_id = || TenantId::new(Timestamp::from_millis(1_795_167_000_000), &mut random);
    for number_of_cut in 0..300 {
        // Whether it was cut or done does not matter.
        drop(timeout(Duration::from_micros(number_of_cut % 60 * 5), open(&db, new_id())).await);
        let end = Instant::now() + Duration::from_mins(1);
        while !db.is_sqlite() && number(&db, OPEN).await > 0 {
            assert!(Instant::now() < end, "a transaction stayed open after cut {number_of_cut}");
            sleep(Duration::from_millis(1)).await;
        }
    }
    // A cut write that was taken on still runs to its end, before any that comes later.
    open(&db, new_id()).await.expect("a write");
    let before = number(&db, "SELECT COUNT(*) FROM tenants").await;
    for _ in 0..20 {
        open(&db, new_id()).await.expect("a write");
    }
    // A cut write that was still on its way may have come between.
    assert!(number(&db, "SELECT COUNT(*) FROM tenants").await >= before + 20, "what was acknowledged is there");
    assert_eq!(number(&db, "SELECT COUNT(*) FROM tenants WHERE link_count <> 1").await, 0, "none was done by half");
}
