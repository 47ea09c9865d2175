//! A click that commits together with something else, such as a reply that is kept: both are there, or neither.

use std::sync::atomic::Ordering;

use super::{Click, Clicks};
use crate::db::clicks::{self, NewText};
use crate::db::{Conn, DbError};

impl Clicks {
    /// Stores a click in a transaction of somebody else's, who calls [`Clicks::stored_alongside`] after the commit.
    pub(crate) async fn store(&self, tx: &mut Conn<'_>, click: &Click) -> Result<(), DbError> {
        let now = self.intake.clock.now().as_millis();
        let mut texts: Vec<_> = [&click.agent, &click.referer]
            .into_iter()
            .flatten()
            .map(|text| NewText { hash: text.hash(), text: text.text() })
            .collect();
        texts.sort_unstable_by_key(|text| text.hash);
        texts.dedup_by_key(|text| text.hash);
        if !texts.is_empty() {
            clicks::insert_texts(tx, &texts, now - now.rem_euclid(86_400_000)).await?;
        }
        let row = [click.row()];
        clicks::insert(tx, &self.intake.head, self.intake.place(&row, now), &row).await?;
        Ok(())
    }

    /// The transaction is committed.
    pub(crate) fn stored_alongside(&self) {
        self.intake.stored.fetch_add(1, Ordering::Relaxed);
        self.intake.wake_fold.notify_one();
    }
}
