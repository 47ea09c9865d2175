//! Revenue of the conversions that links are credited with, by currency.

use deeplink_core::funnel::Credit;

use super::super::sets::{padded, placeholders};
use super::super::{Conn, DbError};
use super::{Scope, Split, Tally, exact, read};

/// Key, currency, and the sum in two halves, because the database fails if a sum overflows.
type Row = (i64, String, i64, i64);

/// Adds the revenue of all links together, and of each group.
pub(super) async fn add(
    db: &mut Conn<'_>,
    scope: Scope<'_>,
    split: Split<'_>,
    tally: &mut Tally,
) -> Result<(), DbError> {
    let links = padded(scope.links);
    let sql = |split| sql(scope.credit, split, links.len());
    for (key, currency, high, low) in read::<Row>(db, sql(split), scope, &links).await? {
        tally.add_revenue(key, currency, exact((high, low)));
    }
    // Several links may be credited with the same conversion.
    if split == Split::Link && *scope.credit == Credit::Touched && scope.links.len() > 1 {
        let rows = read::<Row>(db, sql(Split::Nothing), scope, &links).await?;
        tally.revenue = rows.into_iter().map(|(_, currency, high, low)| (currency, exact((high, low)))).collect();
    }
    Ok(())
}

/// Sums by key and currency, in order.
pub(super) fn sql(credit: &Credit, split: Split<'_>, links: usize) -> String {
    let side = match credit {
        Credit::FirstTouch => "AND is_first = TRUE",
        Credit::Touched => "",
        _ => "AND is_last = TRUE",
    };
    let once = links == 1 || *credit != Credit::Touched || split.is_by_link();
    let of = if once { "link" } else { "DISTINCT conversion" };
    format!(
        "SELECT {key}, currency, CAST(SUM(amount_cents >> 32) AS BIGINT), CAST(SUM(amount_cents & 4294967295) AS BIGINT) \
         FROM (SELECT {of}, at, currency, amount_cents FROM conversion_credits \
            WHERE link IN ({links}) AND at >= $1 AND at <= $2 AND amount_cents IS NOT NULL {side}) AS credited \
         GROUP BY 1, 2 ORDER BY 1, 2",
        key = split.key(),
        links = placeholders(3, links),
    )
}
