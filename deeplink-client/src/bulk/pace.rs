//! Rate control: concurrency, pauses that the service asks for, and backoff after failures.

use std::time::Duration;

use deeplink_core::secret::Random;
use tokio::time::Instant;

use super::Concurrency;

/// Number of successful responses that raises the concurrency by one.
const CLEAN: u32 = 20;
const START: u32 = 4;
const MAX_CONCURRENCY: u32 = 16;
const MAX_RETRY_WAIT: Duration = Duration::from_secs(30);

/// Times that tests shorten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Upper bound of the random wait before a failed request is repeated; doubles with each failure.
    pub(crate) retry: Duration,
    /// Between two cuts of the concurrency.
    pub(crate) cut: Duration,
    /// For requests under way when the run is stopped.
    pub(crate) drain: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { retry: Duration::from_millis(500), cut: Duration::from_secs(1), drain: Duration::from_secs(10) }
    }
}

#[derive(Debug)]
pub(crate) struct Pace {
    times: Times,
    fixed: bool,
    limit: u32,
    clean: u32,
    last_cut: Option<Instant>,
    pub(crate) paused_until: Option<Instant>,
    /// When the service first asked to wait, with no success since.
    waiting_since: Option<Instant>,
    refusals: u32,
    random: Random,
}

/// The service has asked to wait for too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Pace {
    pub(crate) fn new(concurrency: Concurrency, times: Times) -> Self {
        let (fixed, limit) = match concurrency {
            Concurrency::Auto => (false, START),
            Concurrency::Fixed(requests) => (true, requests.max(1)),
        };
        Self {
            times,
            fixed,
            limit,
            clean: 0,
            last_cut: None,
            paused_until: None,
            waiting_since: None,
            refusals: 0,
            random: Random::system(),
        }
    }

    /// Maximum concurrent requests.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused_until.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn clean_reply(&mut self) {
        (self.waiting_since, self.refusals) = (None, 0);
        self.clean += 1;
        if self.clean >= CLEAN {
            self.clean = 0;
            if !self.fixed {
                self.limit = (self.limit + 1).min(MAX_CONCURRENCY);
            }
        }
    }

    /// The service is overloaded: halves the concurrency, at most once a second.
    pub(crate) fn cut(&mut self) {
        self.clean = 0;
        let now = Instant::now();
        if self.fixed || self.last_cut.is_some_and(|last| now < last + self.times.cut) {
            return;
        }
        self.last_cut = Some(now);
        self.limit = (self.limit / 2).max(1);
    }

    /// The service asks all requests to wait. If it gives no time, the wait starts at 1 s and doubles with each
    /// refusal.
    pub(crate) fn pause(&mut self, asked: Option<Duration>, max_wait: Duration) -> Result<(), TooLong> {
        self.cut();
        let now = Instant::now();
        let asked = asked.unwrap_or_else(|| Duration::from_secs(1 << self.refusals.min(5)).min(MAX_RETRY_WAIT));
        self.refusals += 1;
        let jitter = self.random.below(u64::try_from(asked.as_millis() / 10).unwrap_or(u64::MAX).saturating_add(1));
        let since = *self.waiting_since.get_or_insert(now);
        if asked.saturating_add(now.saturating_duration_since(since)) > max_wait {
            return Err(TooLong);
        }
        let until = now + asked + Duration::from_millis(jitter);
        self.paused_until = Some(self.paused_until.map_or(until, |before| before.max(until)));
        Ok(())
    }

    /// The wait before a failed request is repeated.
    pub(crate) fn retry_delay(&mut self, failures: u32) -> Duration {
        let factor = 1_u32 << failures.saturating_sub(1).min(16);
        let most = self.times.retry.saturating_mul(factor).min(MAX_RETRY_WAIT);
        Duration::from_micros(self.random.below(u64::try_from(most.as_micros()).unwrap_or(u64::MAX) + 1))
    }

    pub(crate) fn drain(&self) -> Duration {
        self.times.drain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clean_replies_earn_and_refusals_cost() {
        let mut pace = Pace::new(Concurrency::Auto, Times::default());
        assert_eq!(pace.limit(), 4);
        for _ in 0..20 * 20 {
            pace.clean_reply();
        }
        assert_eq!(pace.limit(), 16);
        pace.cut();
        pace.cut();
        assert_eq!(pace.limit(), 8, "once a second");
        for expected in [4, 2, 1, 1] {
            tokio::time::advance(Duration::from_secs(1)).await;
            pace.cut();
            assert_eq!(pace.limit(), expected);
        }
        let mut fixed = Pace::new(Concurrency::Fixed(7), Times::default());
        fixed.cut();
        assert_eq!(fixed.limit(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_all_and_ends() {
        let mut pace = Pace::new(Concurrency::Auto, Times::default());
        let long = Duration::from_mins(15);
        assert_eq!(pace.pause(Some(Duration::from_secs(10)), long), Ok(()));
        assert_eq!(pace.pause(Some(Duration::from_secs(1)), long), Ok(()), "a shorter one does not shorten it");
        tokio::time::advance(Duration::from_millis(9_999)).await;
        assert!(pace.is_paused());
        tokio::time::advance(Duration::from_millis(1_002)).await;
        assert!(!pace.is_paused());
        assert_eq!(pace.pause(Some(Duration::from_secs(880)), long), Ok(()), "11 s waited so far");
        assert_eq!(pace.pause(Some(Duration::from_secs(890)), long), Err(TooLong));
        pace.clean_reply();
        assert_eq!(pace.pause(Some(Duration::from_secs(800)), long), Ok(()));
        assert_eq!(pace.pause(Some(Duration::MAX), long), Err(TooLong));
    }

    #[test]
    fn retries_wait_longer_up_to_half_a_minute() {
        let mut pace = Pace::new(Concurrency::Auto, Times::default());
        for (failures, most) in [(1, 500), (2, 1_000), (3, 2_000), (7, 30_000), (40, 30_000)] {
            let longest = (0..200).map(|_| pace.retry_delay(failures)).max().expect("some");
            assert!(longest <= Duration::from_millis(most) && longest > Duration::from_millis(most / 2), "{longest:?}");
        }
    }
}
