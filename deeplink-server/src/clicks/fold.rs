//! From the log into counts by hour, and what is past its time out of the log.

use std::sync::Arc;
use std::time::Duration;

use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::Intake;
use crate::db::clicks;
use crate::db::{Db, DbError};

/// How often clicks are folded while they come. Readers add what is not folded yet, so this only bounds their work.
const EVERY: Duration = Duration::from_secs(1);
/// Between two batches of a removal, so that it does not fill the writer's time.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a stored spill file is remembered after its removal.
const SPILLS_KEPT_DAYS: i64 = 90;

/// Folds what was stored, and at the start what an earlier process left.
pub(super) async fn run(intake: Arc<Intake>, db: Db) {
    let mut limit = clicks::FOLD;
    loop {
        if let Err(error) = fold(&intake, &db, &mut limit).await {
            tracing::warn!(%error, "clicks could not be folded; they are counted from the log meanwhile");
            intake.wake_fold.notify_one();
        }
        tokio::time::sleep(EVERY).await;
        intake.wake_fold.notified().await;
    }
}

async fn fold(intake: &Intake, db: &Db, limit: &mut i64) -> Result<(), DbError> {
    loop {
        let next = clicks::next_fold(&mut db.read().await?.conn(), *limit, intake.months).await?;
        let Some(batch) = next.map(Arc::new) else { return Ok(()) };
        *limit = batch.next_limit;
        let store = Arc::clone(&batch);
        let stored = intake.write(db, move |mut tx| async move { clicks::store_fold(&mut tx, &store).await }.boxed());
        // Another node that was faster goes on with what is left.
        if !stored.await? || !batch.is_full {
            return Ok(());
        }
    }
}

/// How long clicks stay in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    /// So many days; 0 keeps them for ever.
    Days(u32),
    /// As long as the plan of each account says.
    Plans,
}

/// Removes what is past its time.
pub(super) async fn sweep(db: &Db, now: Timestamp, retention: Retention) -> Result<(), DbError> {
    let forgotten = now.plus_days(-SPILLS_KEPT_DAYS).as_millis();
    db.write(move |mut tx| async move { clicks::forget_spills(&mut tx, forgotten).await }.boxed()).await?;
    let longest = match retention {
        Retention::Days(days) => i64::from(days),
        Retention::Plans => sweep_by_plan(db, now).await?,
    };
    if longest == 0 {
        return Ok(());
    }
    let oldest = now.plus_days(-longest).as_millis();
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

/// Removes what is past the time of its account's plan. Gives the days of the plan that keeps clicks longest, after which
/// nothing is left of anybody; 0 when a plan keeps them for ever.
async fn sweep_by_plan(db: &Db, now: Timestamp) -> Result<i64, DbError> {
    let kept = |plan: &Tier| plan.limits().analytics_retention_days;
    let longest = Tier::ALL.iter().map(kept).collect::<Option<Vec<_>>>().and_then(|days| days.into_iter().max());
    for plan in Tier::ALL {
        let Some(days) = kept(plan).filter(|days| Some(*days) != longest) else { continue };
        let place = clicks::place(now.plus_days(-days).as_millis());
        let remove = async || {
            db.write(move |mut tx| async move { clicks::remove_clicks_of_plan(&mut tx, plan, place).await }.boxed())
                .await
        };
        while remove().await? {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(longest.unwrap_or(0))
}
