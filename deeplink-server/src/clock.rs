//! The server's time: the system's, or one that tests set. Nothing else reads the wall clock.
//!
//! Validity periods (expiry, cursors, buckets) use [`Clock::now`], which an administrator may set back; durations
//! (timeouts, rate limits) use [`Clock::monotonic_millis`], which only grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use deeplink_core::time::Timestamp;
use tokio::sync::Notify;

/// A source of time; clones share it.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System { started: Instant },
    Settable(Arc<Settable>),
}

#[derive(Debug)]
struct Settable {
    wall_millis: AtomicI64,
    monotonic_millis: AtomicU64,
    moved: Notify,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System { started: Instant::now() })
    }

    /// A clock that stands still until a test moves it.
    pub fn fixed(now: Timestamp) -> Self {
        let wall_millis = AtomicI64::new(now.as_millis());
        let monotonic_millis = AtomicU64::new(0);
        Self(Source::Settable(Arc::new(Settable { wall_millis, monotonic_millis, moved: Notify::new() })))
    }

    /// The current time.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System { .. } => match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
                Ok(since) => Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
                Err(before) => Timestamp::from_millis(
                    i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX).saturating_neg(),
                ),
            },
            Source::Settable(clock) => Timestamp::from_millis(clock.wall_millis.load(Ordering::Relaxed)),
        }
    }

    /// Milliseconds since an arbitrary point in the past. Never goes back.
    pub fn monotonic_millis(&self) -> u64 {
        match &self.0 {
            Source::System { started } => millis(started.elapsed()),
            Source::Settable(clock) => clock.monotonic_millis.load(Ordering::Relaxed),
        }
    }

    /// Moves a settable clock forward. Does nothing to the system's clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Settable(clock) = &self.0 {
            let wall = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
            clock.wall_millis.fetch_add(wall, Ordering::Relaxed);
            clock.monotonic_millis.fetch_add(millis(by), Ordering::Relaxed);
            clock.moved.notify_waiters();
        }
    }

    /// Sets the wall time of a settable clock, backward or forward; its monotonic time does not change.
    pub fn set(&self, now: Timestamp) {
        if let Source::Settable(clock) = &self.0 {
            clock.wall_millis.store(now.as_millis(), Ordering::Relaxed);
            clock.moved.notify_waiters();
        }
    }

    /// Waits for `length`, or until a settable clock is moved away from `since`: for work that checks whether it is
    /// due.
    pub(crate) async fn pause(&self, length: Duration, since: Timestamp) {
        match &self.0 {
            Source::System { .. } => tokio::time::sleep(length).await,
            Source::Settable(clock) => {
                let mut moved = std::pin::pin!(clock.moved.notified());
                // From here on every move is noticed; an earlier one shows in the time.
                moved.as_mut().enable();
                if self.now() == since {
                    drop(tokio::time::timeout(length, moved).await);
                }
            }
        }
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settable_clock_moves_only_when_told_and_its_clones_move_with_it() {
        let clock = Clock::fixed(Timestamp::from_millis(1_000));
        let clone = clock.clone();
        assert_eq!((clone.now().as_millis(), clone.monotonic_millis()), (1_000, 0));
        clock.advance(Duration::from_secs(2));
        assert_eq!((clone.now().as_millis(), clone.monotonic_millis()), (3_000, 2_000));
        clock.set(Timestamp::from_millis(500));
        assert_eq!((clone.now().as_millis(), clone.monotonic_millis()), (500, 2_000));
    }

    #[tokio::test]
    async fn a_pause_ends_when_a_settable_clock_is_moved() {
        const LONG: Duration = Duration::from_mins(10);
        let clock = Clock::fixed(Timestamp::from_millis(1_000));
        let since = clock.now();
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { clock.pause(LONG, since).await }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_millis(1));
        let soon = Duration::from_secs(5);
        assert!(tokio::time::timeout(soon, waiting).await.is_ok_and(|ended| ended.is_ok()));
        let late = tokio::time::timeout(soon, clock.pause(LONG, since)).await;
        assert!(late.is_ok(), "it was moved before anything waited");
    }

    #[test]
    fn the_system_clock_is_in_this_century_and_ignores_being_set() {
        let clock = Clock::system();
        clock.set(Timestamp::from_millis(0));
        clock.advance(Duration::from_secs(1_000));
        assert!(clock.now() > Timestamp::from_millis(1_700_000_000_000));
        assert!(clock.monotonic_millis() < 1_000_000);
    }
}
