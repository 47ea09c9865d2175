//! Removes clicks and other events from the log, and counts by platform and host, once they are older than their retention.

use std::time::Duration;

use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use crate::db::{Db, DbError, clicks, events};
use crate::shares::Share;

/// Pause between two batches of a removal, so that other writes come first.
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);
/// How long a segment of the journal is remembered after its removal, since a node may come back late.
const JOURNALS_KEPT_DAYS: i64 = 90;

/// Days that events are kept beyond their retention, so that a report on exactly that period never begins in an hour
/// that is being removed.
const GRACE_DAYS: i64 = 1;

/// How long hours are counted by platform and host: beyond the default window of a report. Their days are kept as long as
/// the log.
const FACET_HOURS_KEPT_DAYS: i64 = 35;

/// How long clicks and other events stay in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    /// This many days; 0 keeps them indefinitely.
    Days(u32),
    /// As long as the plan of each account says.
    Plans,
}

/// Days of the plan that keeps events longest; `None` when it keeps them indefinitely.
fn longest_of_plans() -> Option<i64> {
    let kept = Tier::ALL.iter().map(|plan| plan.limits().analytics_retention_days);
    kept.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Removes what is older than its retention.
pub(super) async fn sweep(db: &Db, now: Timestamp, retention: Retention) -> Result<(), DbError> {
    db.write(Share::Service, (), |tx, ()| clicks::forget_journals(tx, JOURNALS_KEPT_DAYS * 86_400_000).boxed()).await?;
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
    let older = now.plus_days(-longest - GRACE_DAYS);
    while db.write(Share::Service, (), move |tx, ()| events::remove_old(tx, older, now).boxed()).await? {
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
    let longest = longest_of_plans();
    for plan in Tier::ALL {
        let kept = plan.limits().analytics_retention_days;
        let Some(days) = kept.filter(|days| Some(*days) != longest) else { continue };
        let oldest = now.plus_days(-days - GRACE_DAYS);
        let remove = async || {
            db.write(Share::Service, (), move |tx, ()| {
                async move {
                    let until = clicks::position_at(oldest.as_millis());
                    let clicks = clicks::remove_clicks_of_plan(tx, plan, until, now).await?;
                    Ok::<_, DbError>(events::remove_of_plan(tx, plan, oldest, now).await? || clicks)
                }
                .boxed()
            })
            .await
        };
        while remove().await? {
            tokio::time::sleep(REMOVAL_PAUSE).await;
        }
    }
    Ok(longest.unwrap_or(0))
}
