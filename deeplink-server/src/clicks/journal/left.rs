//! Segments that cannot be read: they are left as they are and tried again, while the loader goes on with the others.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::super::lock;
use super::super::segment::{Segment, opened};
use super::{Journal, State};

impl Journal {
    /// Leaves a segment that cannot be read as it is, until [`Journal::take_back`] or the next start.
    pub(in crate::clicks) fn leave(&self, segment: &Arc<Segment>) {
        let was_left = segment.was_left.swap(true, Ordering::Relaxed);
        self.take_out(segment);
        let mut state = lock(&self.state);
        state.left.push(Arc::clone(segment));
        state.has_left_anew |= !was_left;
    }

    /// For how long there have been segments that could not be read; `None` if there are none.
    pub(in crate::clicks) fn left_for(&self) -> Option<Duration> {
        let mut state = lock(&self.state);
        state.left_since = state.has_left().then(|| state.left_since.unwrap_or_else(Instant::now));
        state.left_since.map(|since| since.elapsed())
    }

    /// Whether a segment was left since the last call that had not been left before.
    pub(in crate::clicks) fn has_left_anew(&self) -> bool {
        std::mem::take(&mut lock(&self.state).has_left_anew)
    }

    /// Makes the segments that were left wait again, before the others. `false` if there are none.
    pub(in crate::clicks) fn take_back(&self) -> bool {
        let unopened = lock(&self.state).unopened.clone();
        let (mut found, mut still_unopened) = (Vec::new(), Vec::new());
        for path in unopened {
            match opened(&path) {
                Ok(segment) => found.extend(segment.map(Arc::new)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => still_unopened.push(path),
            }
        }
        for segment in &found {
            segment.was_left.store(true, Ordering::Relaxed);
        }
        let mut state = lock(&self.state);
        state.unopened = still_unopened;
        found.append(&mut state.left);
        if found.is_empty() {
            return false;
        }
        // The loader takes another segment once it has read a closed one.
        state.close();
        found.into_iter().rev().for_each(|segment| state.waiting.push_front(segment));
        true
    }
}

impl State {
    /// Whether there are segments that could not be read, including those that wait for another attempt.
    fn has_left(&self) -> bool {
        let is_tried_again = || self.waiting.iter().any(|segment| segment.was_left());
        !self.left.is_empty() || !self.unopened.is_empty() || is_tried_again()
    }
}
