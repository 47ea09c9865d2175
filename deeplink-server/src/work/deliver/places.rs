//! How many attempts this node makes at one time, and for whom places are kept.

use tokio::sync::{Semaphore, SemaphorePermit};

/// For whoever answers.
const PLACES: usize = 192;
/// For those who do not: each of them holds a place for as long as an attempt may take, and however many they are, the
/// others do not wait for them.
const OF_SILENT: usize = 64;

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
