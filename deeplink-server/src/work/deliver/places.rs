//! How many attempts this node makes at one time, and for whom places are kept.

use tokio::sync::{Semaphore, SemaphorePermit};

/// For whoever answers promptly.
const PLACES: usize = 192;
/// For those who do not: each of them holds a place for as long as an attempt may take, and however many they are, the
/// others do not wait for them.
const OF_SILENT: usize = 64;

/// After so many attempts that nobody answered promptly, one at a time is enough to see whether somebody does.
const SILENT: u32 = 8;

/// Whether a receiver can be expected to answer promptly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Doubt {
    /// Attempts that were not, less half of them for each that was.
    unanswered: u32,
    is_silent: bool,
}

impl Doubt {
    /// Of one that failed before: one prompt answer ends it.
    pub(super) const SOME: Self = Self { unanswered: 1, is_silent: true };

    /// Takes note of how an attempt ended. Who hangs most of the time and answers now and then stays silent: only prompt
    /// answers in a row end that, the more of them the longer it has lasted.
    pub(super) fn note(&mut self, is_prompt: bool) {
        self.unanswered = if is_prompt { self.unanswered / 2 } else { self.unanswered.saturating_add(1) };
        self.is_silent = self.unanswered >= SILENT || (self.is_silent && self.unanswered > 0);
    }

    /// Whether it gets one attempt at a time.
    pub(super) fn is_silent(self) -> bool {
        self.is_silent
    }
}

pub(super) struct Places {
    answering: Semaphore,
    silent: Semaphore,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { answering: Semaphore::new(PLACES), silent: Semaphore::new(OF_SILENT) }
    }

    /// A place, first come first served. They are never closed, so there always comes one.
    pub(super) async fn take(&self, is_silent: bool) -> Option<SemaphorePermit<'_>> {
        if is_silent { &self.silent } else { &self.answering }.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Somebody who does not answer gets one attempt at a time, until they answer.
    #[test]
    fn who_does_not_answer_is_asked_one_at_a_time() {
        let mut doubt = Doubt::default();
        for _ in 0..SILENT {
            assert!(!doubt.is_silent());
            doubt.note(false);
        }
        for _ in 0..4 {
            assert!(doubt.is_silent());
            doubt.note(true);
        }
        assert!(!doubt.is_silent());
        let mut doubt = Doubt::SOME;
        assert!(doubt.is_silent());
        doubt.note(true);
        assert!(!doubt.is_silent());
    }

    /// Seven of eight attempts that hang have all places of a tenant nearly all the time, whatever the eighth says.
    #[test]
    fn an_answer_now_and_then_is_not_enough() {
        let mut doubt = Doubt::default();
        for nth in 1..=800 {
            doubt.note(nth % 8 == 0);
            assert!(doubt.is_silent() || nth < 16, "{nth}");
        }
        // One that fails to answer now and then is asked as before.
        let mut doubt = Doubt::default();
        for nth in 1..=800 {
            doubt.note(nth % 4 != 0);
            assert!(!doubt.is_silent(), "{nth}");
        }
    }

    /// 256 attempts at one time, of which those that nobody answers have a quarter.
    #[test]
    fn who_does_not_answer_leaves_places_to_the_others() {
        let places = Places::new();
        let take = |count: usize, is_silent| {
            let taken = std::iter::repeat_with(|| places.take(is_silent).now_or_never().flatten());
            taken.take(count).flatten().collect::<Vec<_>>()
        };
        let silent = take(1_000, true);
        let answering = take(1_000, false);
        assert_eq!((silent.len(), silent.len() + answering.len()), (64, 256));
        drop(silent);
        assert_eq!(take(1_000, false).len(), 0);
        assert_eq!(take(1, true).len(), 1);
    }
}
