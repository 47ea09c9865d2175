//! What affiliates bring: how many links they have, and the clicks and conversions of these in the last 30 days. It is
//! counted for their newest links only, so that the list costs as much as it has rows.

use deeplink_core::funnel::Credit;
use deeplink_core::id::{AffiliateId, TenantId};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::chart::Count;
use crate::caller::Caller;
use crate::db::clicks::{self, By, Kinds};
use crate::db::{Conn, DbError, funnel, link_list};
use crate::error::ApiError;
use crate::state::App;

/// Links of an affiliate that are counted: the maximum of one report.
pub(super) const MAX_LINKS: u32 = 100;
/// Days over which clicks and conversions are counted.
const DAYS: i64 = 30;

/// What one affiliate brings.
pub(super) struct Numbers {
    pub(super) links: Count,
    pub(super) clicks: Count,
    pub(super) conversions: Count,
    /// Whether it has more links than are counted.
    pub(super) has_more: bool,
}

impl Numbers {
    /// The numbers of these affiliates of the caller, in their order.
    pub(super) async fn of(app: &App, caller: &Caller, affiliates: Vec<AffiliateId>) -> Result<Vec<Self>, ApiError> {
        let now = app.clock.now();
        app.clicks.counted().await;
        let numbers = app.report(caller, move |mut db, tenant| {
            async move {
                let mut all = Vec::with_capacity(affiliates.len());
                for affiliate in &affiliates {
                    all.push(Self::read(&mut db, &tenant, affiliate, now).await?);
                }
                Ok::<_, DbError>(all)
            }
            .boxed()
        });
        numbers.await
    }

    async fn read(
        db: &mut Conn<'_>,
        tenant: &TenantId,
        affiliate: &AffiliateId,
        now: Timestamp,
    ) -> Result<Self, DbError> {
        let mut links = link_list::positions_of(db, tenant, affiliate, i64::from(MAX_LINKS) + 1).await?;
        let has_more = links.len() > MAX_LINKS as usize;
        links.truncate(MAX_LINKS as usize);
        let mut numbers =
            Self { links: Count::of(links.len()), clicks: Count::of(0), conversions: Count::of(0), has_more };
        if links.is_empty() {
            return Ok(numbers);
        }
        // Whole hours are read from the hourly counts, without the click log.
        let from = now.plus_days(-DAYS).as_millis();
        let (from, to) = (from - from.rem_euclid(3_600_000), now.as_millis());
        let clicked = clicks::Scope { links: &links, from, to: i64::MAX, kinds: Kinds::Funnel };
        numbers.clicks = clicks::count(db, clicked, By::Nothing).await?.into_values().sum::<i64>().into();
        let credited = funnel::Scope { links: &links, from, to, credit: &Credit::LastTouch };
        let tally = funnel::tally(db, credited, funnel::Split::Nothing).await?;
        let conversions = tally.total.conversions.values().fold(0_i64, |sum, count| sum.saturating_add(*count));
        numbers.conversions = conversions.into();
        Ok(numbers)
    }
}
