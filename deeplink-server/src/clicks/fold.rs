//! From the log into counts by hour, and what is past its time out of the log.

use std::sync::Arc;
use std::time::Duration;

use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::Intake;
use crate::db::clicks::{self, Folded};
use crate::db::{Db, DbError};

/// How often clicks are folded while they come. Readers add what is not folded yet, so this only bounds their work.
const EVERY: Duration = Duration::from_secs(1);
/// Between two batches of a removal, so that it does not fill the writer's time.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a stored spill file is remembered after its removal.
const SPILLS_KEPT_DAYS: i64 = 90;

/// Folds what was stored, and at the start what an earlier process left.
pub(super) async fn run(intake: Arc<Intake>, db: Db) {
    loop {
        if let Err(error) = fold(&intake, &db).await {
            tracing::warn!(%error, "clicks could not be folded; they are counted from the log meanwhile");
            intake.wake_fold.notify_one();
        }
        tokio::time::sleep(EVERY).await;
        intake.wake_fold.notified().await;
    }
}

async fn fold(intake: &Intake, db: &Db) -> Result<(), DbError> {
    while intake.write(db, |mut tx| async move { clicks::fold(&mut tx).await }.boxed()).await? == Folded::More {}
    Ok(())
}

/// Removes what is older than `retention_days`; 0 keeps all clicks.
pub(super) async fn sweep(db: &Db, now: Timestamp, retention_days: u32) -> Result<(), DbError> {
    let forgotten = now.plus_days(-SPILLS_KEPT_DAYS).as_millis();
    db.write(move |mut tx| async move { clicks::forget_spills(&mut tx, forgotten).await }.boxed()).await?;
    if retention_days == 0 {
        return Ok(());
    }
    let oldest = now.plus_days(-i64::from(retention_days)).as_millis();
    let place = clicks::place(oldest);
    while db.write(move |mut tx| async move { clicks::remove_clicks(&mut tx, place).await }.boxed()).await? {
        tokio::time::sleep(PAUSE).await;
    }
    // A text is marked on the day of its use, and a click may be stored some time after its text.
    let unused = oldest - 2 * 86_400_000;
    while db.write(move |mut tx| async move { clicks::remove_texts(&mut tx, unused).await }.boxed()).await? {
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
