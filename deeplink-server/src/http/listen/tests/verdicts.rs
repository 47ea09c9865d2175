//! What the sweep says of a connection, without waiting for it.

use super::super::deadline::{Shared, TICK, millis};
use super::super::watch::{ABANDONED, LINGER, Order, Watch};
use super::*;

fn watched() -> (Arc<Shared>, Watch) {
    let shared = Shared::new(Limits::default());
    (Arc::clone(&shared), Watch::new(shared))
}

fn answered(watch: &Watch) {
    watch.begin_exchange();
    watch.end_exchange();
}

/// What the sweep orders at a limit and a tick, having said nothing a millisecond before.
fn ordered_at(limit: Duration, story: impl Fn(&Watch)) -> Option<Order> {
    let (shared, watch) = watched();
    story(&watch);
    let due = shared.now_ms() + millis(limit + TICK);
    assert_eq!(watch.verdict(due - 1), None, "before {limit:?}");
    watch.verdict(due)
}

/// T1: each limit is enforced from one tick after it and never before: a stamp is at most a tick old.
#[test]
fn t1_verdicts_come_after_their_limit() {
    let Limits { first_byte, head, write_stall, keep_alive_idle, .. } = Limits::default();
    assert_eq!(ordered_at(first_byte, |_| {}), Some(Order::Cut));
    assert_eq!(ordered_at(head, |watch| watch.half_head(true)), Some(Order::Cut));
    assert_eq!(ordered_at(keep_alive_idle, answered), Some(Order::Retire));
    let half_the_next_head = |watch: &Watch| {
        watch.begin_exchange();
        watch.half_head(true);
        watch.end_exchange();
    };
    assert_eq!(ordered_at(head, half_the_next_head), Some(Order::Cut));
    let unread = |watch: &Watch| {
        watch.begin_exchange();
        watch.blocked(true);
    };
    assert_eq!(ordered_at(write_stall, unread), Some(Order::Cut));
    let closed_window = |watch: &Watch| {
        watch.begin_exchange();
        watch.piece_made();
    };
    assert_eq!(ordered_at(write_stall, closed_window), Some(Order::Cut));
    let shut = |watch: &Watch| {
        answered(watch);
        watch.shut();
    };
    assert_eq!(ordered_at(LINGER, shut), Some(Order::Cut));
}

/// T1: who is being answered and reads what is sent is left alone.
#[test]
fn t1_nobody_is_hurried_by_our_own_work() {
    let long = Duration::from_hours(1);
    assert_eq!(ordered_at(long, Watch::begin_exchange), None);
    let read_again = |watch: &Watch| {
        watch.begin_exchange();
        watch.blocked(true);
        watch.blocked(false);
        watch.piece_made();
        watch.piece_sent();
    };
    assert_eq!(ordered_at(long, read_again), None);
}

/// An order is never weakened.
#[test]
fn orders_only_grow() {
    let (_, watch) = watched();
    let given = [Order::Serve, Order::Retire, Order::Cut, Order::Retire];
    let kept = given.map(|order| {
        watch.give(order);
        watch.order()
    });
    assert_eq!(kept, [Order::Serve, Order::Retire, Order::Cut, Order::Cut]);
}

/// T2: abandoned requests count against a connection, finished ones for it.
#[test]
fn t2_abandoned_requests_are_counted() {
    let (_, watch) = watched();
    watch.is_http2();
    for _ in 0..10 * ABANDONED {
        watch.answered(false);
        watch.answered(true);
    }
    assert_eq!(watch.order(), Order::Serve);
    for _ in 0..=ABANDONED {
        assert_eq!(watch.order(), Order::Serve);
        watch.answered(false);
    }
    assert_eq!(watch.order(), Order::Cut);
}
