//! Segments that cannot be read: they are left as they are and tried again, while the loader goes on with the others.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::lock;
use super::super::segment::{Segment, opened};
use super::Journal;

impl Journal {
    /// Leaves a segment that cannot be read as it is, until [`Journal::take_back`] or the next start.
    pub(in crate::clicks) fn leave(&self, segment: &Arc<Segment>) {
        segment.was_left.store(true, Ordering::Relaxed);
        self.take_out(segment);
        lock(&self.state).left.push(Arc::clone(segment));
    }

    /// Whether there are such segments.
    pub(in crate::clicks) fn has_left(&self) -> bool {
        let state = lock(&self.state);
        !state.left.is_empty() || !state.unopened.is_empty()
    }

    /// Makes the segments that were left wait again, before the others. `false` if there are none.
    pub(in crate::clicks) fn take_back(&self) -> bool {
        let unopened = std::mem::take(&mut lock(&self.state).unopened);
        let (mut found, mut still_unopened) = (Vec::new(), Vec::new());
        for path in unopened {
            match opened(&path) {
                Ok(segment) => found.extend(segment.map(Arc::new)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => still_unopened.push(path),
            }
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
