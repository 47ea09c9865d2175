//! Clicks on a link over time.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use deeplink_core::error::ErrorBody;
use deeplink_core::stats::{Bucket, Granularity, Timeseries, TimeseriesQuery};
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::ClickKind;
use futures_util::FutureExt;

use super::links;
use crate::db::clicks::{self, By, Kinds, Scope};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, NotFound};
use crate::http::extract::{Path, Query};
use crate::state::Shared;

/// Returns a link's clicks over time.
///
/// Clicks by people and agents, or of one kind, in UTC. The window is inclusive at both ends, and the first and
/// last buckets count only clicks within it.
#[utoipa::path(
    get, path = "/v1/links/{link_id}/timeseries", operation_id = "link_timeseries", tag = "links",
    security(("secret_key" = [])),
    params(
        ("link_id" = String, Path, description = "The link's ID", example = "spring-42"),
        ("from" = Option<String>, Query, description = "Start (RFC 3339); by default, 30 days before `to`"),
        ("to" = Option<String>, Query, description = "End (RFC 3339), at most 400 days after `from`; by default, now"),
        ("granularity" = Option<Granularity>, Query, description = "Width of a bucket; `daily` by default"),
        ("kind" = Option<ClickKind>, Query, description = "Only clicks of this kind; by default, clicks by people and agents"),
    ),
    responses(
        (status = 200, description = "The buckets that overlap the window, oldest first, including empty ones", body = Timeseries,
            headers(("Deprecation" = String), ("Link" = String))),
        FullKey, NotFound,
        (status = 400, description = "The window is malformed, reversed or too long", body = ErrorBody),
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
    query: Query,
) -> Result<Json<Timeseries>, ApiError> {
    let (asked, now) = (read(&query), app.clock.now());
    let by = Arc::clone(&caller);
    app.clicks.counted().await;
    let series = app.report(&by, move |mut db, _| {
        async move {
            // A missing link is reported before a malformed query.
            let link = links::find(&mut db, &caller, &link_id).await?;
            let asked = asked?;
            let (from, to, granularity) = asked.window(now)?;
            let kinds = asked.kind.map_or(Kinds::Funnel, Kinds::One);
            let scope = Scope { links: &[link.position], from: from.as_millis(), to: to.as_millis(), kinds };
            let by = if granularity == Granularity::Hourly { By::Hour } else { By::Day };
            let counts = clicks::count(&mut db, scope, by).await?;
            let data = buckets(&counts, from, to, &granularity);
            Ok::<_, ApiError>(Timeseries::new(link.link_id, granularity, from, to, data))
        }
        .boxed()
    });
    Ok(Json(series.await?))
}

fn read(query: &Query) -> Result<TimeseriesQuery, ApiError> {
    let mut asked = TimeseriesQuery::new();
    asked.from = query.moment("from")?;
    asked.to = query.moment("to")?;
    asked.granularity = query.one("granularity")?.map(Granularity::from);
    asked.kind = query.parsed("kind", "human, preview, crawler or agent", ClickKind::from_name)?;
    Ok(asked)
}

/// Every bucket that the window touches, with the counts that start in it.
fn buckets(counts: &BTreeMap<i64, i64>, from: Timestamp, to: Timestamp, granularity: &Granularity) -> Vec<Bucket> {
    let width = granularity.millis();
    let mut clicks = BTreeMap::new();
    for (&begin, &count) in counts {
        *clicks.entry(start_of(begin, width)).or_insert(0) += count;
    }
    let bucket = |start: i64| Bucket { date: name(start, width), clicks: clicks.remove(&start).unwrap_or(0) };
    starts(from, to, width).map(bucket).collect()
}

const DAY_MILLIS: i64 = 86_400_000;

fn start_of(moment: i64, width: i64) -> i64 {
    moment - moment.rem_euclid(width)
}

/// The starts of the buckets that a window touches.
pub(super) fn starts(from: Timestamp, to: Timestamp, width: i64) -> impl Iterator<Item = i64> {
    let (first, last) = (start_of(from.as_millis(), width), start_of(to.as_millis(), width));
    std::iter::successors(Some(first), move |start| Some(start + width)).take_while(move |start| *start <= last)
}

/// The name of a bucket: a date if it is a day, else its start time.
pub(super) fn name(start: i64, width: i64) -> String {
    let moment = Timestamp::from_millis(start).to_string();
    match width {
        DAY_MILLIS => moment.split('T').next().unwrap_or_default().to_owned(),
        _ => moment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("RFC 3339")
    }

    fn shown(hours: &[(&str, i64)], from: &str, to: &str, granularity: &Granularity) -> Vec<(String, i64)> {
        let hours = hours.iter().map(|(hour, clicks)| (at(hour).as_millis(), *clicks)).collect();
        buckets(&hours, at(from), at(to), granularity).into_iter().map(|bucket| (bucket.date, bucket.clicks)).collect()
    }

    #[test]
    fn days_add_their_hours_and_empty_days_are_there() {
        let hours = [("2026-11-18T23:00:00Z", 2), ("2026-11-20T00:00:00Z", 3), ("2026-11-20T23:00:00Z", 4)];
        let days = shown(&hours, "2026-11-18T23:59:59.999Z", "2026-11-20T23:30:00Z", &Granularity::Daily);
        assert_eq!(days, [("2026-11-18".into(), 2), ("2026-11-19".into(), 0), ("2026-11-20".into(), 7)]);
    }

    #[test]
    fn hours_are_moments_and_an_instant_has_one_bucket() {
        let hours = [("2026-11-20T09:00:00Z", 5)];
        let shown = shown(&hours, "2026-11-20T09:30:00Z", "2026-11-20T09:30:00Z", &Granularity::Hourly);
        assert_eq!(shown, [("2026-11-20T09:00:00.000Z".into(), 5)]);
    }

    #[test]
    fn the_longest_window_has_every_bucket() {
        let (from, to) = ("2025-01-01T12:00:00Z", "2026-02-05T12:00:00Z");
        assert_eq!(shown(&[], from, to, &Granularity::Daily).len(), 401);
        assert_eq!(shown(&[], from, to, &Granularity::Hourly).len(), 400 * 24 + 1);
        assert_eq!(shown(&[], "9999-12-30T00:00:00Z", "9999-12-30T22:00:00Z", &Granularity::Daily).len(), 1);
        assert_eq!(shown(&[], "1960-01-01T00:00:00Z", "1960-01-02T00:00:00Z", &Granularity::Daily)[1].0, "1960-01-02");
    }
}
