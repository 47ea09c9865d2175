//! Re-encrypts values of older keys with the first key, so that the older ones can be removed.
//!
//! Values are read in pages and replaced in short writes. Each replacement names the bytes that it replaces, so that a
//! value changed in the meantime stays, and any number of nodes can do this at once.

use futures_util::FutureExt;
use zeroize::Zeroizing;

use super::Vault;
use crate::db::sealed::{self, COLUMNS, PAGE, SealedColumn};
use crate::db::{Db, DbError, vault_check};
use crate::shares::Share;

/// A value to replace.
struct Renewed {
    row: String,
    old: String,
    new: String,
}

impl Vault {
    /// The ids of the keys that only decrypt.
    fn older_ids(&self) -> impl Iterator<Item = &str> {
        self.key_ids().skip(1).filter(|id| *id != self.first.id)
    }

    /// Whether there are older keys to replace.
    pub(crate) fn has_older_keys(&self) -> bool {
        self.older_ids().next().is_some()
    }

    /// Reseals only if this node's first key is the one that the service changed to last: nodes whose first key is
    /// older would undo it.
    pub(crate) async fn reseal_if_latest(&self, db: &Db) -> Result<(), DbError> {
        match vault_check::find(&mut db.read().await?.conn()).await? {
            Some(check) if self.is_current(&check) => self.reseal(db).await,
            _ => Ok(()),
        }
    }

    /// Re-encrypts values of the other configured keys with the first one. A value that cannot be opened stays as it
    /// is.
    pub(crate) async fn reseal(&self, db: &Db) -> Result<(), DbError> {
        for key in self.older_ids() {
            for column in &COLUMNS {
                let values = self.reseal_column(db, column, key).await?;
                if values > 0 {
                    let (old, new) = (key, &self.first.id);
                    tracing::info!(old, new, values = column.in_words(values), "encrypted with the first master key");
                }
            }
        }
        Ok(())
    }

    /// Returns the number of replaced values.
    async fn reseal_column(&self, db: &Db, column: &'static SealedColumn, key: &str) -> Result<i64, DbError> {
        let (mut after, mut replaced) = (String::new(), 0);
        loop {
            let page = sealed::page(&mut db.read().await?.conn(), column, key, &after).await?;
            let is_last = page.len() < PAGE;
            let Some((last, _)) = page.last() else { return Ok(replaced) };
            after.clone_from(last);
            let renewed: Vec<_> = page.into_iter().filter_map(|value| self.renew(column, value)).collect();
            let write = db.write(Share::Service, renewed, move |tx, renewed| {
                async move {
                    let mut replaced = 0;
                    for Renewed { row, old, new } in renewed {
                        replaced += i64::from(sealed::replace(tx, column, row, old, new).await?);
                    }
                    Ok::<_, DbError>(replaced)
                }
                .boxed()
            });
            replaced += write.await?;
            if is_last {
                return Ok(replaced);
            }
        }
    }

    fn renew(&self, column: &SealedColumn, (row, old): (String, String)) -> Option<Renewed> {
        let plain = Zeroizing::new(self.open(column.table, &row, &old).ok()?);
        let new = self.seal(column.table, &row, &plain);
        Some(Renewed { row, old, new })
    }
}
