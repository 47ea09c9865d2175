//! The latest ids, to detect repeated events.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Maximum ids that are remembered.
const MAX_IDS: usize = 100_000;

/// The latest ids.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Ids>);

#[derive(Debug, Default)]
struct Ids {
    known: HashSet<Box<str>>,
    order: VecDeque<Box<str>>,
}

impl Recent {
    /// Remembers an id; `false` if it was already known.
    pub(super) fn add(&self, id: &str) -> bool {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ids.known.insert(id.into()) {
            return false;
        }
        ids.order.push_back(id.into());
        if ids.order.len() > MAX_IDS
            && let Some(oldest) = ids.order.pop_front()
        {
            ids.known.remove(&oldest);
        }
        true
    }
}
