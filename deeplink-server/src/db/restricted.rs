//! Writes with the credentials that an account gives away: affiliates' and publishable keys. They take their turn in the
//! account's share, but few at a time, so that the account's own writes do not wait for all of them.

use std::sync::Arc;

use tokio::time::Instant;

use super::{DbError, MAX_WAITING_WRITES};
use crate::shares::limit::{Permit, ShareLimit};
use crate::shares::{Share, Turn};

/// Such writes of one account at once: of its 4 connections on PostgreSQL one is left, with a batch. On SQLite they are
/// committed together.
const AT_ONCE_ON_SQLITE: usize = 16;
const AT_ONCE_ON_POSTGRES: usize = 2;
/// The same of batches.
const BATCHES_AT_ONCE: usize = 1;

pub(super) struct Writes {
    small: Arc<ShareLimit>,
    batches: Arc<ShareLimit>,
}

impl Writes {
    pub(super) fn new(is_sqlite: bool) -> Self {
        let at_once = if is_sqlite { AT_ONCE_ON_SQLITE } else { AT_ONCE_ON_POSTGRES };
        let limit = |at_once| ShareLimit::new(usize::MAX, at_once);
        Self { small: limit(at_once), batches: limit(BATCHES_AT_ONCE) }
    }

    /// The turn of a write in its account's share and, with such a credential, a permit, which is waited for until `end`.
    pub(super) async fn enter(&self, turn: Turn, end: Instant) -> Result<(Turn, Option<Permit>), DbError> {
        let Share::Restricted(account) = &turn.share else { return Ok((turn, None)) };
        let account = account.into();
        let turn = turn.within(account);
        let limit = if turn.is_large() { &self.batches } else { &self.small };
        let permit = limit.acquire_until(turn.clone(), MAX_WAITING_WRITES, end).await;
        Ok((turn, Some(permit.map_err(|_| DbError::ShareUsedUp)?)))
    }
}
