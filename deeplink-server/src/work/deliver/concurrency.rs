//! Limits how many attempts are made concurrently: on this node, of one tenant and to one webhook.

use std::sync::Arc;
use std::time::Duration;

use deeplink_core::id::TenantId;
use tokio::time::sleep;

use crate::shares::limit::{Permit, ShareLimit};

/// Attempts in flight of one tenant; its webhooks have equal shares.
pub(super) const MAX_IN_FLIGHT: usize = 8;
/// Attempts in flight to webhooks that answer promptly.
const MAX_PROMPT: usize = 192;
/// Those of them that only tenants without one can have, so that a few tenants cannot take all.
const PROMPT_RESERVE: usize = 64;
/// Attempts in flight to slow ones: each may take as long as an attempt may, and however many there are, the others do
/// not wait for them.
const MAX_SLOW: usize = 64;
/// Those of them that only tenants without one can have: half, since every new webhook begins there.
const SLOW_RESERVE: usize = 32;
/// The wait before the next try of a tenant that already waits among thousands of others.
const CROWDED_DELAY: Duration = Duration::from_secs(1);

/// An answer that takes longer is slow.
const PROMPT_MILLIS: i64 = 2_000;
/// From this score on a webhook is limited.
const LIMITED_FROM: u32 = 8;
/// Seven good results end every limit.
const MAX_SCORE: u32 = 64;

/// How often attempts failed lately. Counting consecutive failures would not be enough: a webhook with seven of eight
/// attempts timing out occupies all of its tenant's attempts nearly all the time, and never fails eight times in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct FailureScore {
    /// One more after each failure, halved after each success.
    score: u32,
    /// From [`LIMITED_FROM`] on, and then until the score is zero.
    is_limited: bool,
}

impl FailureScore {
    /// Ended by the first success.
    const UNTIL_SUCCESS: Self = Self { score: 1, is_limited: true };

    fn record(&mut self, has_failed: bool) {
        self.score = if has_failed { (self.score + 1).min(MAX_SCORE) } else { self.score / 2 };
        self.is_limited = self.score >= LIMITED_FROM || (self.is_limited && self.score > 0);
    }
}

/// How attempts to a webhook are limited, by how it answered before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReceiverLimit {
    /// Counts attempts without an answer.
    unanswered: FailureScore,
    /// Counts attempts without a prompt answer.
    slow: FailureScore,
}

impl ReceiverLimit {
    /// For a webhook that failed before, or that has never answered: anyone can open accounts whose webhooks hang. One
    /// prompt answer ends it.
    pub(super) const UNTIL_ANSWER: Self =
        Self { unanswered: FailureScore::UNTIL_SUCCESS, slow: FailureScore::UNTIL_SUCCESS };

    /// Records how an attempt ended, and after how many milliseconds.
    pub(super) fn record(&mut self, is_answered: bool, millis: i64) {
        self.unanswered.record(!is_answered);
        self.slow.record(!is_answered || millis > PROMPT_MILLIS);
    }

    /// Whether attempts time out: one at a time is enough to see whether the webhook answers again.
    pub(super) fn is_one_at_a_time(self) -> bool {
        self.unanswered.is_limited
    }

    /// Whether attempts count among the slow ones.
    pub(super) fn is_slow(self) -> bool {
        self.slow.is_limited
    }

    /// The stricter of both limits.
    pub(super) fn max(self, other: Self) -> Self {
        Self { unanswered: self.unanswered.max(other.unanswered), slow: self.slow.max(other.slow) }
    }

    /// What is left of a removed webhook's limit for those that are added or re-enabled.
    pub(super) fn of_removed(self) -> Self {
        Self {
            unanswered: self.unanswered.min(FailureScore::UNTIL_SUCCESS),
            slow: self.slow.min(FailureScore::UNTIL_SUCCESS),
        }
    }
}

/// Limits the attempts in flight on this node, and shares them among tenants.
pub(super) struct ConcurrencyLimit {
    prompt: Arc<ShareLimit>,
    slow: Arc<ShareLimit>,
}

impl ConcurrencyLimit {
    pub(super) fn new() -> Self {
        let limit = |all, reserve| ShareLimit::with_reserve(all, MAX_IN_FLIGHT, reserve, all);
        Self { prompt: limit(MAX_PROMPT, PROMPT_RESERVE), slow: limit(MAX_SLOW, SLOW_RESERVE) }
    }

    /// Waits for a permit, released on drop. Tenants that wait take turns, those without a permit before others once only
    /// the reserve is left.
    pub(super) async fn acquire(&self, tenant: &TenantId, is_slow: bool) -> Permit {
        let limit = if is_slow { &self.slow } else { &self.prompt };
        loop {
            if let Some(permit) = limit.acquire(tenant.into(), MAX_IN_FLIGHT) {
                return permit.await;
            }
            sleep(CROWDED_DELAY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const HANGS: (bool, i64) = (false, 10_000);
    const LATE: (bool, i64) = (true, 2_500);
    const PROMPT: (bool, i64) = (true, 90);

    fn note(limit: &mut ReceiverLimit, (is_answered, millis): (bool, i64)) -> (bool, bool) {
        limit.record(is_answered, millis);
        (limit.is_one_at_a_time(), limit.is_slow())
    }

    /// A receiver that does not answer gets one attempt at a time, until it answers.
    #[test]
    fn who_does_not_answer_is_asked_one_at_a_time() {
        let mut limit = ReceiverLimit::default();
        for _ in 1..LIMITED_FROM {
            assert_eq!(note(&mut limit, HANGS), (false, false));
        }
        assert_eq!(note(&mut limit, HANGS), (true, true));
        for _ in 0..3 {
            assert_eq!(note(&mut limit, PROMPT), (true, true));
        }
        assert_eq!(note(&mut limit, PROMPT), (false, false));
        let mut limit = ReceiverLimit::UNTIL_ANSWER;
        assert_eq!((limit.is_one_at_a_time(), limit.is_slow()), (true, true));
        assert_eq!(note(&mut limit, PROMPT), (false, false));
        // However long it did not answer.
        for _ in 0..100_000 {
            limit.record(false, 5);
        }
        let answers = (1..100).find(|_| note(&mut limit, PROMPT) == (false, false));
        assert_eq!(answers, Some(7));
    }

    /// A slow receiver counts among the slow ones, and as many attempts are under way as before.
    #[test]
    fn who_answers_late_is_still_asked_as_often() {
        let mut limit = ReceiverLimit::default();
        for nth in 1..=100 {
            assert_eq!(note(&mut limit, LATE), (false, nth >= LIMITED_FROM));
        }
        let mut limit = ReceiverLimit::UNTIL_ANSWER;
        assert_eq!(note(&mut limit, LATE), (false, true));
    }

    /// If seven of eight attempts hang, they occupy all places of a tenant nearly all the time, whatever the eighth
    /// does.
    #[test]
    fn an_answer_now_and_then_is_not_enough() {
        let mut limit = ReceiverLimit::default();
        for nth in 1..=800 {
            let silent = note(&mut limit, if nth % 8 == 0 { PROMPT } else { HANGS }).0;
            assert!(silent || nth < 16, "{nth}");
        }
        // One that fails to answer occasionally is not limited.
        let mut limit = ReceiverLimit::default();
        for nth in 1..=800 {
            assert_eq!(note(&mut limit, if nth % 4 == 0 { HANGS } else { PROMPT }), (false, false), "{nth}");
        }
    }

    fn tenant(number: usize) -> TenantId {
        format!("tnt_{number:024x}").parse().expect("an id")
    }

    /// All permits that these tenants get without waiting, if each asks for as many as it may have.
    fn take(limit: &ConcurrencyLimit, tenants: std::ops::Range<usize>, is_slow: bool) -> Vec<Permit> {
        let asks = tenants.flat_map(|number| std::iter::repeat_n(number, MAX_IN_FLIGHT));
        asks.filter_map(|number| limit.acquire(&tenant(number), is_slow).now_or_never()).collect()
    }

    /// 256 attempts at once, of which slow ones get a quarter.
    #[test]
    fn who_is_late_leaves_places_to_the_others() {
        let limit = ConcurrencyLimit::new();
        let late = take(&limit, 0..1_000, true);
        let prompt = take(&limit, 0..1_000, false);
        assert_eq!((late.len(), late.len() + prompt.len()), (64, 256));
        drop(late);
        assert_eq!(take(&limit, 0..1_000, false).len(), 0);
        assert_eq!(take(&limit, 0..1, true).len(), MAX_IN_FLIGHT);
    }

    /// R2: while 30 tenants whose attempts hang hold all that they may, and more of theirs wait, an attempt of another
    /// tenant begins at once.
    #[test]
    fn r2_tenants_whose_attempts_hang_hold_up_no_other() {
        for is_slow in [false, true] {
            let limit = ConcurrencyLimit::new();
            let mut held = take(&limit, 0..30, is_slow);
            let mut waiting = Vec::new();
            for number in 0..30 {
                let of = tenant(number);
                let limit = &limit;
                let mut more = Box::pin(async move { limit.acquire(&of, is_slow).await });
                assert!((&mut more).now_or_never().is_none(), "{number} has all that it may");
                waiting.push(more);
            }
            let other = limit.acquire(&tenant(30), is_slow).now_or_never();
            assert!(other.is_some(), "slow: {is_slow}");
            // Once there is room beyond the reserve, those that wait get a permit.
            held.truncate(1);
            assert!(waiting.iter_mut().all(|more| more.now_or_never().is_some()));
        }
    }
}
