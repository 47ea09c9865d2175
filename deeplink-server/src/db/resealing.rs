//! Tests of sealed values as they are stored, on both databases.

use std::collections::BTreeSet;

use deeplink_core::secret::Random;
use futures_util::FutureExt;
use sqlx::{AssertSqlSafe, Row};

use super::Conn;
use super::sealed::{self, COLUMNS, PAGE, SealedColumn};
use super::tests::Scratch;
use crate::vault::{MasterKey, Vault};

fn column(table: &str, name: &str) -> &'static SealedColumn {
    COLUMNS.iter().find(|column| (column.table, column.name) == (table, name)).expect("it is listed")
}

fn vault(first: u64, older: &[u64]) -> Vault {
    let key = |seed: &u64| MasterKey::generate(&mut Random::seeded(*seed));
    Vault::of(&key(&first), &older.iter().map(key).collect::<Vec<_>>())
}

async fn texts(scratch: &Scratch, sql: &str) -> Vec<String> {
    let mut reader = scratch.db.read().await.expect("a reader");
    on!(&mut reader.conn(), c => sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(c).await).expect("texts")
}

/// Every column whose name says that it is sealed is in the list. Every test of the whole service checks at its end
/// that no other column holds sealed values.
#[tokio::test]
async fn r10_every_sealed_column_is_listed() {
    let scratch = Scratch::new().await;
    let names = if scratch.db.is_sqlite() {
        "SELECT t.name || '.' || c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    } else {
        "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'"
    };
    let all: BTreeSet<_> = texts(&scratch, names).await.into_iter().collect();
    let listed: BTreeSet<_> = COLUMNS.iter().map(|column| format!("{}.{}", column.table, column.name)).collect();
    let named: BTreeSet<_> = all.iter().filter(|name| name.contains("sealed")).cloned().collect();
    assert!(named.is_subset(&listed) && listed.is_subset(&all), "{named:?} {listed:?}");
    // Each of the statements runs.
    let mut reader = scratch.db.read().await.expect("a reader");
    assert!(sealed::survey(&mut reader.conn()).await.expect("counts").counts.is_some_and(|counts| counts.is_empty()));
    vault(2, &[1]).reseal(&scratch.db).await.expect("nothing to do");
}

/// Counting and resealing read only sealed replies: there are as many others as requests in a day.
#[tokio::test]
async fn r10_other_replies_are_not_read() {
    let scratch = Scratch::new().await;
    let replies = column("replies", "body");
    for sql in [replies.count_sql(), replies.page_sql()] {
        let (explain, first) = if scratch.db.is_sqlite() { ("EXPLAIN QUERY PLAN", 3) } else { ("EXPLAIN", 0) };
        let sql = format!("{explain} {}", sql.replace("$1", "'x'").replace("$2", "''").replace("$3", "1"));
        let mut reader = scratch.db.read().await.expect("a reader");
        let plan = match &mut reader.conn() {
            Conn::Sqlite(conn) => {
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut **conn).await.expect("a plan");
                rows.iter().map(|row| row.get::<String, _>(first)).collect::<Vec<_>>()
            }
            Conn::Postgres(conn) => {
                sqlx::query("SET enable_seqscan = off").execute(&mut **conn).await.expect("set");
                let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut **conn).await.expect("a plan");
                rows.iter().map(|row| row.get::<String, _>(first)).collect()
            }
        };
        assert!(plan.iter().any(|line| line.contains("replies_sealed")), "{plan:?}");
    }
}

/// Values are counted by the key that they name, resealed with the first key page by page, and left alone if they do
/// not open or need another key.
#[tokio::test]
async fn r10_values_of_older_keys_are_counted_and_sealed_anew() {
    let scratch = Scratch::new().await;
    let (old, new, other) = (vault(1, &[]), vault(2, &[1]), vault(3, &[]));
    let insert = async |id: &str, body: &str| {
        let sql = format!(
            "INSERT INTO replies (id, request, expires_at, status, body) VALUES ('{id}', '', 1, 200, '{body}')"
        );
        scratch.execute(sql).await;
    };
    let count = PAGE * 2 + 1;
    for at in 0..count {
        let id = format!("r{at:04}");
        insert(&id, &format!("sealed {}", old.seal("replies", &id, id.as_bytes()))).await;
    }
    insert("plain", "{}").await;
    let foreign = format!("sealed {}", other.seal("replies", "foreign", b"x"));
    let moved = format!("sealed {}", old.seal("replies", "elsewhere", b"x"));
    for (id, body) in [("foreign", &*foreign), ("moved", &moved), ("damaged", "sealed nothing")] {
        insert(id, body).await;
    }
    let counts = async || {
        let mut reader = scratch.db.read().await.expect("a reader");
        let counts = sealed::survey(&mut reader.conn()).await.expect("counts").counts.expect("they are counted");
        counts.into_iter().map(|count| (count.key, count.column.in_words(count.values))).collect::<BTreeSet<_>>()
    };
    let id_of = |vault: &Vault| vault.key_ids().next().map(str::to_owned);
    let words =
        |count: usize| if count == 1 { "1 stored response".to_owned() } else { format!("{count} stored responses") };
    let rest = [(id_of(&other), words(1)), (None, words(1))];
    assert_eq!(counts().await, [(id_of(&old), words(count + 1))].into_iter().chain(rest.clone()).collect());
    new.reseal(&scratch.db).await.expect("sealed anew");
    let left = [(id_of(&new), words(count)), (id_of(&old), words(1))];
    assert_eq!(counts().await, left.into_iter().chain(rest).collect(), "what does not open stays");
    assert_eq!(new.unopened(), [("unknown_key", 0), ("invalid", 1)]);
    let alone = vault(2, &[]);
    let bodies = texts(&scratch, "SELECT body FROM replies WHERE substr(id, 1, 1) = 'r' ORDER BY id").await;
    for (at, body) in bodies.iter().enumerate() {
        let (id, sealed) = (format!("r{at:04}"), body.strip_prefix("sealed ").expect("the prefix"));
        assert_eq!(alone.open("replies", &id, sealed).as_deref(), Ok(id.as_bytes()));
    }
    let kept = texts(&scratch, "SELECT body FROM replies WHERE id IN ('foreign', 'moved', 'plain') ORDER BY id").await;
    assert_eq!(kept, [foreign, moved, "{}".to_owned()]);
}

/// A value that was changed since it was read is not replaced.
#[tokio::test]
async fn r10_a_value_that_was_changed_meanwhile_stays() {
    let scratch = Scratch::new().await;
    scratch
        .execute("INSERT INTO mails (id, sealed, due_at, expires_at) VALUES ('one', 'newer', 1, 1)".to_owned())
        .await;
    let replace = async |old: &'static str, new: &'static str| {
        let mails = column("mails", "sealed");
        scratch.write(move |tx| async move { sealed::replace(tx, mails, "one", old, new).await }.boxed()).await
    };
    assert!(!replace("older", "older, sealed anew").await);
    assert_eq!(texts(&scratch, "SELECT sealed FROM mails").await, ["newer"]);
    assert!(replace("newer", "newer, sealed anew").await);
    assert_eq!(texts(&scratch, "SELECT sealed FROM mails").await, ["newer, sealed anew"]);
}
