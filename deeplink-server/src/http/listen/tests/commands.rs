//! The commands of the sweep, computed without waiting.

use super::super::deadline::{Shared, TICK, millis};
use super::super::state::timeouts::LINGER_TIMEOUT;
use super::super::state::{Command, ConnectionState, MAX_ABANDONED};
use super::*;

fn connection() -> (Arc<Shared>, ConnectionState) {
    let shared = Shared::new(Limits::default());
    (Arc::clone(&shared), ConnectionState::new(shared, Arc::default()))
}

fn answered(state: &ConnectionState) {
    state.begin_exchange();
    state.end_exchange();
}

/// The command of the sweep one tick after a limit, having given none a millisecond before.
fn commanded_at(limit: Duration, story: impl Fn(&ConnectionState)) -> Option<Command> {
    let (shared, state) = connection();
    story(&state);
    let due = shared.now_ms() + millis(limit + TICK);
    assert_eq!(state.overdue(due - 1), None, "before {limit:?}");
    state.overdue(due)
}

/// T1: each limit is enforced from one tick after it and never before: a stamp is at most a tick old.
#[test]
fn t1_commands_come_after_their_limit() {
    let Limits { first_byte, head, write_stall, keep_alive_idle, .. } = Limits::default();
    assert_eq!(commanded_at(first_byte, |_| {}), Some(Command::Close));
    assert_eq!(commanded_at(head, |state| state.half_head(true)), Some(Command::Close));
    assert_eq!(commanded_at(keep_alive_idle, answered), Some(Command::Drain));
    let half_the_next_head = |state: &ConnectionState| {
        state.begin_exchange();
        state.half_head(true);
        state.end_exchange();
    };
    assert_eq!(commanded_at(head, half_the_next_head), Some(Command::Close));
    let unread = |state: &ConnectionState| {
        state.begin_exchange();
        state.blocked(true);
    };
    assert_eq!(commanded_at(write_stall, unread), Some(Command::Close));
    let closed_window = |state: &ConnectionState| {
        state.begin_exchange();
        state.chunk_queued();
    };
    assert_eq!(commanded_at(write_stall, closed_window), Some(Command::Close));
    let shut = |state: &ConnectionState| {
        answered(state);
        state.shut();
    };
    assert_eq!(commanded_at(LINGER_TIMEOUT, shut), Some(Command::Close));
}

/// T1: a connection with requests in progress and a client that reads is left alone.
#[test]
fn t1_time_spent_on_our_side_does_not_count() {
    let long = Duration::from_hours(1);
    assert_eq!(commanded_at(long, ConnectionState::begin_exchange), None);
    let read_again = |state: &ConnectionState| {
        state.begin_exchange();
        state.blocked(true);
        state.blocked(false);
        state.chunk_queued();
        state.chunk_sent();
    };
    assert_eq!(commanded_at(long, read_again), None);
}

/// A command is never weakened.
#[test]
fn commands_only_grow() {
    let (_, state) = connection();
    let given = [Command::Continue, Command::Drain, Command::Close, Command::Drain];
    let kept = given.map(|command| {
        state.send(command);
        state.command()
    });
    assert_eq!(kept, [Command::Continue, Command::Drain, Command::Close, Command::Close]);
}

/// T2: abandoned requests count against a connection, finished ones for it.
#[test]
fn t2_abandoned_requests_are_counted() {
    let (_, state) = connection();
    state.set_http2();
    for _ in 0..10 * MAX_ABANDONED {
        state.answered(false);
        state.answered(true);
    }
    assert_eq!(state.command(), Command::Continue);
    for _ in 0..=MAX_ABANDONED {
        assert_eq!(state.command(), Command::Continue);
        state.answered(false);
    }
    assert_eq!(state.command(), Command::Close);
}
