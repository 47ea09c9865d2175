//! From the log into counts, and what is past its time out of the log and the counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::Intake;
use super::gather::{ClickSegment, Gathered};
use crate::db::clicks::{self, Batch};
use crate::db::{Db, DbError};
use crate::shares::Share;

/// Interval between folds while clicks arrive. Readers add what is not folded yet, so this only bounds their work.
const FOLD_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two batches of a removal, so that other writes come first.
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);
/// How long a stored spill file is remembered after its removal.
const SPILLS_KEPT_DAYS: i64 = 90;

/// What is kept beyond its time, so that a report on just that time never begins in an hour that is being taken away.
const GRACE_DAYS: i64 = 1;

/// How long hours are counted by platform and host: beyond the default window of a report. Their days are kept as long as
/// the log.
const FACET_HOURS_KEPT_DAYS: i64 = 35;

/// Folds what was stored, and at the start what an earlier process left.
pub(super) async fn run(intake: Arc<Intake>, db: Db) {
    let mut batch_size = FoldBatchSize::default();
    loop {
        if let Err(error) = fold(&intake, &db, &mut batch_size).await {
            tracing::warn!(%error, "clicks could not be added to the counts; reports read the log until they are");
            intake.wake_fold.notify_one();
        }
        tokio::time::sleep(FOLD_INTERVAL).await;
        intake.wake_fold.notified().await;
    }
}

/// How many clicks are folded from the log at one time. What holds the writer is how many rows they come to, which nobody
/// knows beforehand, so it follows from how long the last fold took: a visit waits 25 ms for its click.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FoldBatchSize(i64);

impl Default for FoldBatchSize {
    fn default() -> Self {
        Self(512)
    }
}

/// Groups of the first fold of what was gathered: as many as a second of clicks on a thousand links. Fewer at one time would
/// be more in all, because each fold touches the rows of its links anew.
pub(super) const INITIAL_GROUPS: usize = 2_048;
/// Fewest and most groups of one.
const GROUP_LIMITS: std::ops::RangeInclusive<usize> = 256..=8_192;

/// How many groups the next fold may have, after one that held the writer for so long.
fn next_groups(groups: usize, was_full: bool, took: Duration) -> usize {
    let next = if took > Duration::from_millis(20) {
        groups / 2
    } else if was_full && took < Duration::from_millis(8) {
        groups * 2
    } else {
        groups
    };
    next.clamp(*GROUP_LIMITS.start(), *GROUP_LIMITS.end())
}

impl FoldBatchSize {
    const MIN: i64 = 256;
    const MAX: i64 = 32_768;

    /// After a fold, which was as large as it might be or not, and held the writer for so long.
    fn after(self, was_full: bool, took: Duration) -> Self {
        if took > Duration::from_millis(15) {
            Self((self.0 / 2).max(Self::MIN))
        } else if was_full && took < Duration::from_millis(8) {
            Self((self.0 * 2).min(Self::MAX))
        } else {
            self
        }
    }
}

/// Folds everything: what was gathered, and from the log what stands before that, or where nothing was.
async fn fold(intake: &Intake, db: &Db, batch_size: &mut FoldBatchSize) -> Result<(), DbError> {
    let mut last = None;
    // What comes meanwhile waits for the next time. Under load there is always some, and few clicks at a time touch nearly as
    // many rows as a second's do.
    for _ in 0..intake.gathered.as_ref().map_or(0, Gathered::len) {
        let Some(segment) = intake.gathered.as_ref().and_then(Gathered::take) else { break };
        fold_log(intake, db, batch_size, segment.first).await?;
        last = Some(segment.last);
        fold_segment(intake, db, segment).await?;
    }
    match last {
        None => fold_log(intake, db, batch_size, i64::MAX).await,
        Some(last) => {
            // More may have come meanwhile, by ways that gather nothing: the next time says.
            if intake.head.end() > last {
                intake.wake_fold.notify_one();
            }
            Ok(())
        }
    }
}

/// Folds what was gathered. Where that fails, the log has it.
async fn fold_segment(intake: &Intake, db: &Db, segment: ClickSegment) -> Result<(), DbError> {
    let groups = intake.fold_groups.load(Ordering::Relaxed);
    let was_full = segment.len() >= groups;
    let range = (segment.first, segment.last);
    let batch = clicks::fold_gathered(&mut db.read().await?.conn(), segment.groups(), range, intake.months).await?;
    let Some(batch) = batch else {
        // Somebody has read some of it from the log already.
        intake.wake_fold.notify_one();
        return Ok(());
    };
    let (_, took) = store(intake, db, batch).await?;
    intake.fold_groups.store(next_groups(groups, was_full, took), Ordering::Relaxed);
    Ok(())
}

/// Folds from the log what stands before a position.
async fn fold_log(intake: &Intake, db: &Db, batch_size: &mut FoldBatchSize, before: i64) -> Result<(), DbError> {
    loop {
        let next = clicks::next_fold(&mut db.read().await?.conn(), before, batch_size.0, intake.months).await?;
        let Some(batch) = next else { return Ok(()) };
        let is_full = batch.is_full;
        let (stored, took) = store(intake, db, batch).await?;
        // On PostgreSQL nobody waits for a fold, and most of its time is the way there and back.
        *batch_size = if db.is_sqlite() { batch_size.after(is_full, took) } else { FoldBatchSize(FoldBatchSize::MAX) };
        // Another node that was faster goes on with what is left.
        if !stored || !is_full {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}

/// Adds a batch to the counts. Gives whether it was, and how long that held the writer.
async fn store(intake: &Intake, db: &Db, batch: Batch) -> Result<(bool, Duration), DbError> {
    let stored = intake.write(db, batch, |tx, batch| {
        async move {
            let began = Instant::now();
            let stored = clicks::store_fold(tx, batch).await?;
            Ok((stored, began.elapsed()))
        }
        .boxed()
    });
    stored.await
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
    db.write(Share::Service, (), move |tx, ()| clicks::forget_spills(tx, forgotten).boxed()).await?;
    let longest = match retention {
        Retention::Days(days) => i64::from(days),
        Retention::Plans => sweep_by_plan(db, now).await?,
    };
    let oldest = if longest == 0 { i64::MIN } else { now.plus_days(-longest - GRACE_DAYS).as_millis() };
    let hours = now.plus_days(-FACET_HOURS_KEPT_DAYS).as_millis();
    while db.write(Share::Service, (), move |tx, ()| clicks::remove_facets(tx, hours, oldest).boxed()).await? {
        tokio::time::sleep(REMOVAL_PAUSE).await;
    }
    if longest == 0 {
        return Ok(());
    }
    let before = clicks::position_at(oldest);
    while db.write(Share::Service, (), move |tx, ()| clicks::remove_clicks(tx, before).boxed()).await? {
        tokio::time::sleep(REMOVAL_PAUSE).await;
    }
    // A text is marked on the day of its use, and a click may be stored some time after its text.
    let unused = oldest - 2 * 86_400_000;
    while db.write(Share::Service, (), move |tx, ()| clicks::remove_texts(tx, unused).boxed()).await? {
        tokio::time::sleep(REMOVAL_PAUSE).await;
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
        let before = clicks::position_at(now.plus_days(-days - GRACE_DAYS).as_millis());
        let remove = async || {
            db.write(Share::Service, (), move |tx, ()| clicks::remove_clicks_of_plan(tx, plan, before, now).boxed())
                .await
        };
        while remove().await? {
            tokio::time::sleep(REMOVAL_PAUSE).await;
        }
    }
    Ok(longest.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_as_large_as_the_writer_has_time_for() {
        let after =
            |batch_size: FoldBatchSize, was_full, millis| batch_size.after(was_full, Duration::from_millis(millis));
        let mut batch_size = FoldBatchSize::default();
        assert_eq!(batch_size.0, 512);
        assert_eq!(
            [after(batch_size, true, 4).0, after(batch_size, false, 4).0, after(batch_size, true, 10).0],
            [1_024, 512, 512]
        );
        assert_eq!(after(batch_size, false, 16).0, 256);
        for _ in 0..10 {
            batch_size = after(batch_size, true, 1);
        }
        assert_eq!(batch_size.0, 32_768);
        for _ in 0..10 {
            batch_size = after(batch_size, true, 100);
        }
        assert_eq!(batch_size.0, 256);
        let next = |groups, was_full, millis| next_groups(groups, was_full, Duration::from_millis(millis));
        assert_eq!([next(2_048, true, 4), next(2_048, false, 4), next(2_048, true, 15)], [4_096, 2_048, 2_048]);
        assert_eq!([next(8_192, true, 4), next(2_048, true, 30), next(256, true, 30)], [8_192, 1_024, 256]);
    }
}
