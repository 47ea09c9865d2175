//! The last frames of an account, and what a reader gets from the database when it is behind them.

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
fn a_ring_says_when_something_is_not_in_it() {
    let mut ring = Ring::new();
    assert_eq!(ring.behind(i64::MAX), None, "before the tail has come by");
    ring.since = Some(10);
    assert_eq!(ring.behind(9), None);
    assert_eq!(ring.behind(10), Some(vec![]));
    for position in 11..=15 {
        ring.add(frame(position, MAX_KEPT / 4));
    }
    assert_eq!(ring.since, Some(11));
    assert_eq!(ring.behind(10), None);
    let positions = |frames: Option<Vec<Frame>>| frames.map(|frames| frames.iter().map(|f| f.position).collect());
    assert_eq!(positions(ring.behind(11)), Some(vec![12]), "one at least, whatever its size");
    assert_eq!(positions(ring.behind(15)), Some(vec![]));
}

#[test]
fn the_eleventh_reader_of_an_account_waits_for_one_to_leave() {
    let streams = Arc::new(Streams::new());
    let [a, b] = tenants();
    let mut seats: Vec<Seat> = (0..MAX_READERS).map(|_| streams.open(&a).expect("a place")).collect();
    assert!(streams.open(&a).is_none());
    assert!(streams.open(&b).is_some(), "others have their own");
    seats.pop();
    seats.extend(streams.open(&a));
    assert_eq!((seats.len(), streams.readers()), (MAX_READERS, MAX_READERS));
    seats.clear();
    assert!(lock(&streams.audiences).is_empty());
}

/// A log with so many clicks of each of [`tenants`], one after the other, by a browser that says this.
async fn log(clicks: [i64; 2], agent: &str) -> Scratch {
    let scratch = Scratch::new().await;
    let hash = if scratch.db.is_sqlite() { "X'01'" } else { "'\\x01'::bytea" };
    scratch.execute(format!("INSERT INTO visitor_texts (hash, text, used_at) VALUES ({hash}, '{agent}', 0)")).await;
    let mut first = 0;
    for ((link, tenant), count) in (1..).zip(tenants()).zip(clicks) {
        let gone = "INSERT INTO deleted_links (position, tenant_id, link_id, deleted_at)";
        scratch.execute(format!("{gone} VALUES ({link}, '{tenant}', 'spring-42', 0)")).await;
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

/// However much of others lies between, a reader gets control after each page: so it can be told that it is not forgotten,
/// and its key is looked at.
#[tokio::test]
async fn a_long_way_is_gone_page_by_page() {
    let scratch = log([10_000, 1], "x").await;
    let streams = Arc::new(Streams::new());
    let mut seat = streams.open(&tenants()[1]).expect("a place");
    let mut after = 0;
    for reached in [4_096, 8_192] {
        let piece = seat.next(&scratch.db, after, true).await.expect("a piece");
        assert_eq!(piece, Piece { frames: Vec::new(), reached, has_more: true });
        after = reached;
    }
    let piece = seat.next(&scratch.db, after, true).await.expect("a piece");
    assert_eq!((piece.frames.len(), piece.reached, piece.has_more), (1, 10_001, false));
    // Who wants no clicks is not led through them.
    let piece = seat.next(&scratch.db, 0, false).await.expect("a piece");
    assert_eq!(piece, Piece { frames: Vec::new(), reached: 10_001, has_more: false });
}

/// What a reader takes at one time is small, however long the texts are and however far behind it is.
#[tokio::test]
async fn a_piece_of_what_was_missed_is_small() {
    let scratch = log([300, 0], &"\u{1d538}".repeat(512)).await;
    let streams = Arc::new(Streams::new());
    let mut seat = streams.open(&tenants()[0]).expect("a place");
    let (mut after, mut positions) = (0, Vec::new());
    loop {
        let piece = seat.next(&scratch.db, after, true).await.expect("a piece");
        assert!(piece.frames.iter().map(|frame| frame.text.len()).sum::<usize>() <= PIECE);
        positions.extend(piece.frames.iter().map(|frame| frame.position));
        after = piece.reached;
        if !piece.has_more {
            break;
        }
    }
    assert_eq!(positions, (1..=300).collect::<Vec<i64>>());
}

/// Of those who catch up one reads at a time, and accounts take turns, however many readers each has.
#[tokio::test]
async fn accounts_catch_up_in_turns() {
    let scratch = Scratch::new().await;
    let streams = Arc::new(Streams::new());
    let [a, b] = tenants();
    let order = Mutex::new(Vec::new());
    let busy = streams.catching_up.acquire().await.expect("a turn");
    let readers = [&a, &a, &b].map(|tenant| {
        let mut seat = streams.open(tenant).expect("a place");
        let (order, db) = (&order, &scratch.db);
        async move {
            while seat.next(db, 0, true).await.expect("a piece").has_more {}
            lock(order).push(tenant);
        }
    });
    join(join_all(readers), async { drop(busy) }).await;
    assert_eq!(*lock(&order), [&a, &b, &a]);
}

/// Whoever waits for a turn gets control again and again, so that it is told that it is not forgotten and its key is looked
/// at; and keeps its place meanwhile, until it has something to say.
#[tokio::test]
async fn who_waits_for_a_turn_is_not_stuck_in_it() {
    let scratch = Scratch::new().await;
    let streams = Arc::new(Streams::new());
    let [mut first, mut second] = tenants().map(|tenant| streams.open(&tenant).expect("a place"));
    let busy = Arc::clone(&streams.catching_up).acquire_owned().await.expect("a turn");
    let nothing = Piece { frames: Vec::new(), reached: 7, has_more: true };
    for seat in [&mut first, &mut second] {
        assert_eq!(seat.next(&scratch.db, 7, true).await.expect("a piece"), nothing);
    }
    drop(busy);
    // It is the first one's turn, which asked before.
    assert_eq!(second.next(&scratch.db, 7, true).await.expect("a piece"), nothing);
    first.step_back();
    assert!(!second.next(&scratch.db, 7, true).await.expect("a piece").has_more);
    let _busy = Arc::clone(&streams.catching_up).acquire_owned().await.expect("a turn");
    streams.stop();
    assert_eq!(first.next(&scratch.db, 7, true).await.expect("a piece"), nothing);
    assert!(first.is_over());
}

/// However many accounts are read, what is kept for all of them together is bounded.
#[test]
fn many_accounts_keep_less_each() {
    let audience = Audience::new();
    audience.begin(10, MAX_KEPT);
    audience.add((11..=14).map(|position| frame(position, MAX_KEPT / 4)), 14);
    let kept = || {
        let ring = lock(&audience.ring);
        (ring.bytes, ring.since)
    };
    assert_eq!(kept(), (MAX_KEPT, Some(10)));
    audience.begin(14, MAX_KEPT / 4);
    assert_eq!(kept(), (MAX_KEPT / 4, Some(13)));
    audience.begin(14, MAX_KEPT / 8);
    assert_eq!(kept(), (0, Some(14)));
}
