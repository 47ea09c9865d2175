//! How many attempts this node makes at one time, and for whom places are kept.

use tokio::sync::{Semaphore, SemaphorePermit};

/// For whoever answers promptly.
const PLACES: usize = 192;
/// For those who do not: each of them holds a place for longer, up to all that an attempt may take, and however many they
/// are, the others do not wait for them.
const OF_LATE: usize = 64;

/// An answer that takes longer is late.
const PROMPT_MILLIS: i64 = 2_000;
/// What has happened so often is a habit.
const OFTEN: u32 = 8;
/// As much as is remembered: seven times the contrary end any habit.
const MOST: u32 = 64;

/// What a receiver has been found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Habit {
    /// How often, less half of it for each time that it did not.
    times: u32,
    is_one: bool,
}

impl Habit {
    /// One that ends with the first contrary.
    const WEAK: Self = Self { times: 1, is_one: true };

    /// Who does it most of the time and not now and then keeps the habit: only the contrary in a row ends it, the more of
    /// it the longer it has lasted.
    fn note(&mut self, again: bool) {
        self.times = if again { (self.times + 1).min(MOST) } else { self.times / 2 };
        self.is_one = self.times >= OFTEN || (self.is_one && self.times > 0);
    }
}

/// Whether a receiver can be expected to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Doubt {
    silent: Habit,
    late: Habit,
}

impl Doubt {
    /// Of one that failed before: one prompt answer ends it.
    pub(super) const SOME: Self = Self { silent: Habit::WEAK, late: Habit::WEAK };

    /// Takes note of how an attempt ended, and after how many milliseconds.
    pub(super) fn note(&mut self, is_answered: bool, millis: i64) {
        self.silent.note(!is_answered);
        self.late.note(!is_answered || millis > PROMPT_MILLIS);
    }

    /// Whether nobody answers: one attempt at a time is enough to see whether somebody does.
    pub(super) fn is_silent(self) -> bool {
        self.silent.is_one
    }

    /// Whether answers are late, or there are none.
    pub(super) fn is_late(self) -> bool {
        self.late.is_one
    }

    /// The greater doubt.
    pub(super) fn or(self, other: Self) -> Self {
        Self { silent: self.silent.max(other.silent), late: self.late.max(other.late) }
    }

    /// What it says of the same webhook at another address: no more than that its account had one which did not answer.
    pub(super) fn elsewhere(self) -> Self {
        Self { silent: self.silent.min(Habit::WEAK), late: self.late.min(Habit::WEAK) }
    }
}

pub(super) struct Places {
    prompt: Semaphore,
    late: Semaphore,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { prompt: Semaphore::new(PLACES), late: Semaphore::new(OF_LATE) }
    }

    /// A place, first come first served. They are never closed, so there always comes one.
    pub(super) async fn take(&self, is_late: bool) -> Option<SemaphorePermit<'_>> {
        if is_late { &self.late } else { &self.prompt }.acquire().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const HANGS: (bool, i64) = (false, 10_000);
    const LATE: (bool, i64) = (true, 2_500);
    const PROMPT: (bool, i64) = (true, 90);

    fn note(doubt: &mut Doubt, (is_answered, millis): (bool, i64)) -> (bool, bool) {
        doubt.note(is_answered, millis);
        (doubt.is_silent(), doubt.is_late())
    }

    /// Somebody who does not answer gets one attempt at a time, until they answer.
    #[test]
    fn who_does_not_answer_is_asked_one_at_a_time() {
        let mut doubt = Doubt::default();
        for _ in 1..OFTEN {
            assert_eq!(note(&mut doubt, HANGS), (false, false));
        }
        assert_eq!(note(&mut doubt, HANGS), (true, true));
        for _ in 0..3 {
            assert_eq!(note(&mut doubt, PROMPT), (true, true));
        }
        assert_eq!(note(&mut doubt, PROMPT), (false, false));
        let mut doubt = Doubt::SOME;
        assert_eq!((doubt.is_silent(), doubt.is_late()), (true, true));
        assert_eq!(note(&mut doubt, PROMPT), (false, false));
        // However long nobody answered.
        for _ in 0..100_000 {
            doubt.note(false, 5);
        }
        let answers = (1..100).find(|_| note(&mut doubt, PROMPT) == (false, false));
        assert_eq!(answers, Some(7));
    }

    /// Somebody who takes their time is among those who do, and as many attempts are under way as before.
    #[test]
    fn who_answers_late_is_still_asked_as_often() {
        let mut doubt = Doubt::default();
        for nth in 1..=100 {
            assert_eq!(note(&mut doubt, LATE), (false, nth >= OFTEN));
        }
        let mut doubt = Doubt::SOME;
        assert_eq!(note(&mut doubt, LATE), (false, true));
    }

    /// Seven of eight attempts that hang have all places of a tenant nearly all the time, whatever the eighth says.
    #[test]
    fn an_answer_now_and_then_is_not_enough() {
        let mut doubt = Doubt::default();
        for nth in 1..=800 {
            let silent = note(&mut doubt, if nth % 8 == 0 { PROMPT } else { HANGS }).0;
            assert!(silent || nth < 16, "{nth}");
        }
        // One that fails to answer now and then is asked as before.
        let mut doubt = Doubt::default();
        for nth in 1..=800 {
            assert_eq!(note(&mut doubt, if nth % 4 == 0 { HANGS } else { PROMPT }), (false, false), "{nth}");
        }
    }

    /// 256 attempts at one time, of which those that are late have a quarter.
    #[test]
    fn who_is_late_leaves_places_to_the_others() {
        let places = Places::new();
        let take = |count: usize, is_late| {
            let taken = std::iter::repeat_with(|| places.take(is_late).now_or_never().flatten());
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
