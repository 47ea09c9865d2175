//! Values that could not be opened: counted for the metrics, and logged once for each table and reason, so that reading many
//! of them does not fill the log.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::DecryptError;

/// Maximum number of different reasons that are logged.
const MAX_LOGGED: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Unopened {
    unknown_key: AtomicU64,
    invalid: AtomicU64,
    logged: Mutex<BTreeSet<(String, String)>>,
}

impl Unopened {
    pub(super) fn note(&self, table: &str, row: &str, error: &DecryptError) {
        let counter = match error {
            DecryptError::UnknownKey(_) => &self.unknown_key,
            DecryptError::Invalid => &self.invalid,
        };
        counter.fetch_add(1, Relaxed);
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < MAX_LOGGED && logged.insert((table.to_owned(), error.to_string())) {
            drop(logged);
            tracing::error!(table, row, %error, "an encrypted value cannot be decrypted; others in this table are counted, but not logged");
        }
    }

    pub(super) fn counts(&self) -> [(&'static str, u64); 2] {
        [("unknown_key", self.unknown_key.load(Relaxed)), ("invalid", self.invalid.load(Relaxed))]
    }
}
