//! The buffer of an account's latest frames, and what a reader gets from the database when it is behind the buffer.

use futures_util::future::{join, join_all};

use super::*;
use crate::db::tests::Scratch;

fn frame(position: i64, bytes: usize) -> Frame {
    Frame { position, kind: EventKind::Click, text: vec![b'x'; bytes].into() }
}

fn tenants() -> [TenantId; 2] {
    ["tnt_0123456789abcdef01234567", "tnt_0123456789abcdef01234568"].map(|id| id.parse().expect("an id"))
}

#[test]
fn a_ring_knows_which_frames_it_does_not_have() {
    let mut ring = Ring::new();
    assert_eq!(ring.after(i64::MAX), None, "before the tail has started it");
    ring.start = Some(10);
    assert_eq!(ring.after(9), None);
    assert_eq!(ring.after(10), Some(vec![]));
    for position in 11..=15 {
        ring.add(frame(position, MAX_BUFFERED / 4));
    }
    assert_eq!(ring.start, Some(11));
    assert_eq!(ring.after(10), None);
    let positions = |frames: Option<Vec<Frame>>| frames.map(|frames| frames.iter().map(|f| f.position).collect());
    assert_eq!(positions(ring.after(11)), Some(vec![12]), "at least one frame, whatever its size");
    assert_eq!(positions(ring.after(15)), Some(vec![]));
}

#[test]
fn an_account_has_at_most_ten_readers() {
    let streams = Arc::new(Streams::new());
    let [a, b] = tenants();
    let mut readers: Vec<StreamReader> = (0..MAX_READERS).map(|_| streams.open(&a).expect("a reader")).collect();
    assert!(streams.open(&a).is_none());
    assert!(streams.open(&b).is_some(), "other accounts are not affected");
    readers.pop();
    readers.extend(streams.open(&a));
    assert_eq!((readers.len(), streams.readers()), (MAX_READERS, MAX_READERS));
    readers.clear();
    assert!(lock(&streams.feeds).is_empty());
}

/// A click log with these numbers of clicks of [`tenants`], one tenant after the other, with this `User-Agent`.
async fn log(clicks: [i64; 2], agent: &str) -> Scratch {
    let scratch = Scratch::new().await;
    let hash = if scratch.db.is_sqlite() { "X'01'" } else { "'\\x01'::bytea" };
    scratch.execute(format!("INSERT INTO visitor_texts (hash, text, used_at) VALUES ({hash}, '{agent}', 0)")).await;
    let mut first = 0;
    for ((link, tenant), count) in (1..).zip(tenants()).zip(clicks) {
        let insert = "INSERT INTO deleted_links (position, tenant_id, link_id, deleted_at)";
        scratch.execute(format!("{insert} VALUES ({link}, '{tenant}', 'spring-42', 0)")).await;
        let some = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
            INSERT INTO clicks (position, link, at, kind, platform, agent)
                SELECT {first} + n, {link}, n, 0, 4, {hash} FROM n"
        );
        scratch.execute(some).await;
        first += count;
    }
    scratch
}

/// However many events of other accounts lie between, the reader returns after each page, so that heartbeats are sent and
/// the key is checked.
#[tokio::test]
async fn a_reader_catches_up_page_by_page() {
    let scratch = log([10_000, 1], "x").await;
    let streams = Arc::new(Streams::new());
    let mut reader = streams.open(&tenants()[1]).expect("a reader");
    let mut after = 0;
    for position in [4_096, 8_192] {
        let chunk = reader.next(&scratch.db, after, EventKind::ALL).await.expect("a chunk");
        assert_eq!(chunk, Chunk { frames: Vec::new(), position, has_more: true });
        after = position;
    }
    let chunk = reader.next(&scratch.db, after, EventKind::ALL).await.expect("a chunk");
    assert_eq!((chunk.frames.len(), chunk.position, chunk.has_more), (1, 10_001, false));
    // A reader without clicks skips the click log.
    let chunk = reader.next(&scratch.db, 0, &EventKind::ALL[1..]).await.expect("a chunk");
    assert_eq!(chunk, Chunk { frames: Vec::new(), position: 10_001, has_more: false });
}

/// Chunks are small, however long the texts are and however far behind the reader is.
#[tokio::test]
async fn chunks_from_the_database_are_small() {
    let scratch = log([300, 0], &"\u{1d538}".repeat(512)).await;
    let streams = Arc::new(Streams::new());
    let mut reader = streams.open(&tenants()[0]).expect("a reader");
    let (mut after, mut positions) = (0, Vec::new());
    loop {
        let chunk = reader.next(&scratch.db, after, EventKind::ALL).await.expect("a chunk");
        assert!(chunk.frames.iter().map(|frame| frame.text.len()).sum::<usize>() <= CHUNK_BYTES);
        positions.extend(chunk.frames.iter().map(|frame| frame.position));
        after = chunk.position;
        if !chunk.has_more {
            break;
        }
    }
    assert_eq!(positions, (1..=300).collect::<Vec<i64>>());
}

/// One reader at a time catches up, and accounts take turns however many readers each has.
#[tokio::test]
async fn accounts_catch_up_in_turns() {
    let scratch = Scratch::new().await;
    let streams = Arc::new(Streams::new());
    let [a, b] = tenants();
    let order = Mutex::new(Vec::new());
    let busy = streams.catching_up.acquire().await.expect("a permit");
    let readers = [&a, &a, &b].map(|tenant| {
        let mut reader = streams.open(tenant).expect("a reader");
        let (order, db) = (&order, &scratch.db);
        async move {
            while reader.next(db, 0, EventKind::ALL).await.expect("a chunk").has_more {}
            lock(order).push(tenant);
        }
    });
    join(join_all(readers), async { drop(busy) }).await;
    assert_eq!(*lock(&order), [&a, &b, &a]);
}

/// A reader that waits for a permit returns regularly, so that heartbeats are sent and the key is checked, and keeps its
/// position in the queue until it leaves it.
#[tokio::test]
async fn waiting_for_a_permit_times_out_and_keeps_the_position_in_the_queue() {
    let scratch = Scratch::new().await;
    let streams = Arc::new(Streams::new());
    let [mut first, mut second] = tenants().map(|tenant| streams.open(&tenant).expect("a reader"));
    let busy = Arc::clone(&streams.catching_up).acquire_owned().await.expect("a permit");
    let nothing = Chunk { frames: Vec::new(), position: 7, has_more: true };
    for reader in [&mut first, &mut second] {
        assert_eq!(reader.next(&scratch.db, 7, EventKind::ALL).await.expect("a chunk"), nothing);
    }
    drop(busy);
    // The first reader asked earlier, so it is next.
    assert_eq!(second.next(&scratch.db, 7, EventKind::ALL).await.expect("a chunk"), nothing);
    first.leave_queue();
    assert!(!second.next(&scratch.db, 7, EventKind::ALL).await.expect("a chunk").has_more);
    let _busy = Arc::clone(&streams.catching_up).acquire_owned().await.expect("a permit");
    streams.stop();
    assert_eq!(first.next(&scratch.db, 7, EventKind::ALL).await.expect("a chunk"), nothing);
    assert!(first.is_stopping());
}

/// The total size of all buffers is bounded, however many accounts have readers.
#[test]
fn buffers_shrink_when_many_accounts_have_readers() {
    let feed = Feed::new();
    feed.begin(10, MAX_BUFFERED);
    feed.add((11..=14).map(|position| frame(position, MAX_BUFFERED / 4)), 14);
    let buffered = || {
        let ring = lock(&feed.ring);
        (ring.bytes, ring.start)
    };
    assert_eq!(buffered(), (MAX_BUFFERED, Some(10)));
    feed.begin(14, MAX_BUFFERED / 4);
    assert_eq!(buffered(), (MAX_BUFFERED / 4, Some(13)));
    feed.begin(14, MAX_BUFFERED / 8);
    assert_eq!(buffered(), (0, Some(14)));
}
