//! Removes clicks and other events from the log, and counts by platform and host, once they are older than their retention.

use std::time::Duration;

use deeplink_core::plan::Tier;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use crate::db::{Db, DbError, clicks, events};
use crate::shares::Share;

/// Pause between two batches of a removal, so that other writes come first.
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);
/// How long the state of a removed segment is kept, since a node may come back late.
const JOURNALS_KEPT_DAYS: i64 = 90;

/// Days that events are kept beyond their retention, so that a report on exactly that period never begins in an hour
/// that is being removed.
const GRACE_DAYS: i64 = 1;

/// How long counts by hour, platform and host are kept: longer than the default window of a report. Those by day are
/// kept as long as the log.
const FACET_HOURS_KEPT_DAYS: i64 = 35;

/// How long clicks and other events stay in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    /// This many days; 0 keeps them indefinitely.
    Days(u32),
    /// As long as each account's plan keeps them.
    Plans,
}

/// Removes what is older than its retention.
pub(super) async fn sweep(db: &Db, now: Timestamp, retention: Retention) -> Result<(), DbError> {
    let before = now.plus_days(-JOURNALS_KEPT_DAYS).as_millis();
    let age = JOURNALS_KEPT_DAYS * 86_400_000;
    db.write(Share::Service, (), move |tx, ()| clicks::forget_journals(tx, before, age).boxed()).await?;
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
    while db.write(Share::Service, (), move |tx, ()| events::remove_old(tx, before, now).boxed()).await? {
        tokio::time::sleep(REMOVAL_PAUSE).await;
    }
    // The day of a text's last use is stored, and a click may be stored some time after its text.
    let unused = oldest - 2 * 86_400_000;
    while db.write(Share::Service, (), move |tx, ()| clicks::remove_texts(tx, unused).boxed()).await? {
        tokio::time::sleep(REMOVAL_PAUSE).await;
    }
    Ok(())
}

/// Removes what is past the retention of its account's plan. Returns the longest retention of any plan in days, after
/// which no account has anything left; 0 if a plan keeps clicks forever.
async fn sweep_by_plan(db: &Db, now: Timestamp) -> Result<i64, DbError> {
    let kept = |plan: &Tier| plan.limits().analytics_retention_days;
    let longest = Tier::ALL.iter().map(kept).collect::<Option<Vec<_>>>().and_then(|days| days.into_iter().max());
    for plan in Tier::ALL {
        let Some(days) = kept(plan).filter(|days| Some(*days) != longest) else { continue };
        let until = clicks::position_at(now.plus_days(-days - GRACE_DAYS).as_millis());
        let remove = async || {
            db.write(Share::Service, (), move |tx, ()| {
                async move {
                    let clicks = clicks::remove_clicks_of_plan(tx, plan, until, now).await?;
                    Ok::<_, DbError>(events::remove_of_plan(tx, plan, until, now).await? || clicks)
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
