//! Limits how many attempts are made concurrently, on this node and to one webhook.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Attempts in flight to webhooks that answer promptly.
const MAX_PROMPT: usize = 192;
/// Attempts in flight to slow ones: each may take as long as an attempt may, and however many there are, the others do
/// not wait for them.
const MAX_SLOW: usize = 64;

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
    const AFTER_FAILURE: Self = Self { score: 1, is_limited: true };

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
    /// For a webhook that failed before: one prompt answer ends it.
    pub(super) const AFTER_FAILURE: Self =
        Self { unanswered: FailureScore::AFTER_FAILURE, slow: FailureScore::AFTER_FAILURE };

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

    /// What is left of the limit at another URL.
    pub(super) fn at_new_url(self) -> Self {
        Self {
            unanswered: self.unanswered.min(FailureScore::AFTER_FAILURE),
            slow: self.slow.min(FailureScore::AFTER_FAILURE),
        }
    }
}

/// Limits the attempts in flight on this node.
pub(super) struct ConcurrencyLimit {
    prompt: Semaphore,
    slow: Semaphore,
}

impl ConcurrencyLimit {
    pub(super) fn new() -> Self {
        Self { prompt: Semaphore::new(MAX_PROMPT), slow: Semaphore::new(MAX_SLOW) }
    }

    /// Waits for a permit, first come first served. The semaphores are never closed, so there is always one in the end.
    pub(super) async fn acquire(&self, is_slow: bool) -> Option<SemaphorePermit<'_>> {
        if is_slow { &self.slow } else { &self.prompt }.acquire().await.ok()
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
        let mut limit = ReceiverLimit::AFTER_FAILURE;
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
        let mut limit = ReceiverLimit::AFTER_FAILURE;
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

    /// 256 attempts at once, of which slow ones get a quarter.
    #[test]
    fn who_is_late_leaves_places_to_the_others() {
        let limit = ConcurrencyLimit::new();
        let take = |count: usize, is_slow| {
            let taken = std::iter::repeat_with(|| limit.acquire(is_slow).now_or_never().flatten());
            taken.take(count).flatten().collect::<Vec<_>>()
        };
        let late = take(1_000, true);
        let prompt = take(1_000, false);
        assert_eq!((late.len(), late.len() + prompt.len()), (64, 256));
        drop(late);
        assert_eq!(take(1_000, false).len(), 0);
        assert_eq!(take(1, true).len(), 1);
    }
}
