//! Attribution reports: on any set of links, and the earlier form for one link.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::funnel::{
    Credit, Funnel, FunnelGroup, FunnelQuery, FunnelReport, FunnelScope, GroupBy, GroupOrder, LinkStats, MAX_LINKS,
};
use deeplink_core::id::TenantId;
use deeplink_core::link::is_link_id;
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::{ClickKind, Country, Platform, UserAgent};
use deeplink_core::zone::Day;
use futures_util::FutureExt;
use http::{HeaderValue, header};

use super::{links, sheet, timeseries};
use crate::caller::Caller;
use crate::db::clicks::{self, By, ClickedLink, Kinds, OTHER};
use crate::db::funnel::{self, Run, Scope, Split, Tally};
use crate::db::{Conn, DbError, tenants};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, NotFound};
use crate::http::extract::{Path, Query};
use crate::state::{App, Shared};

/// Reports results from clicks to conversions, for the whole account or for the links in `link_ids`.
///
/// Each install is counted once in the report and once in each group. Revenue is the sum of the counted
/// conversions, by currency; with `touched`, several link groups can share a conversion. Credit takes the
/// history before `from` into account; the window limits only what is counted, and is inclusive at both ends.
/// Unknown IDs count as zero. Clicks that a previous service counted (`imported_clicks` of a link) are not included in
/// any total.
///
/// The 200 largest conversion types are listed, and the rest are `other`. Referring hosts are `other` beyond the 100
/// largest, beyond 200 per link per day, and beyond 1,000 per account per day. Hourly data by platform, host and
/// country is kept for 35 days. For older days that are only partly in the window, clicks are counted under platform
/// and country `unknown` and host `other`. Browser, operating system, device and in-app browser come from the
/// visitor's User-Agent; they are `unknown` for agents, for clicks from before they were recorded, and if the
/// User-Agent does not contain them.
///
/// If grouped by link without `link_ids`: if more than 200 links of the account are clicked in a day, the top
/// links are found by sampling, and a link with many clicks is almost certain to be found; the clicks of
/// deleted links are in `other`.
#[utoipa::path(
    get, path = "/v1/analytics/stats", operation_id = "funnel", tag = "analytics", security(("secret_key" = [])),
    params(
        ("link_ids" = Option<String>, Query, description = "1 to 100 link IDs, separated by commas; by default, all links of the account, including deleted ones"),
        ("from" = Option<String>, Query, description = "Start (RFC 3339); by default, 30 days before `to`"),
        ("to" = Option<String>, Query, description = "End (RFC 3339); by default, now"),
        ("credit" = Option<String>, Query, description = "The touch that is credited: `last_touch`, `first_touch` or `touched`; `last_touch` if absent or unknown"),
        ("tz" = Option<String>, Query, description = "With `group_by=day`: time zone of the days, an IANA time zone name such as `Europe/Berlin`; UTC by default. Clicks are counted by whole hours: an hour that spans midnight counts toward the earlier day; at the start of the report, toward its first day"),
        ("group_by" = Option<GroupBy>, Query, description = "What the report is grouped by: `day` (at most 400 days), `hour` (at most 31 days) or `link`; all others group only clicks"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "Maximum number of groups, starting with those with the most clicks; the clicks of the rest are in the last group, `other`. If there are more groups than `limit`, the value `other` of `browser` and `os` is merged into that last group. Default: 100 for `referer_host` and `country`, 25 for `link` without `link_ids`, unlimited otherwise. Not allowed with `day` or `hour`"),
        ("order" = Option<GroupOrder>, Query, description = "Order of the groups: `clicks` (most clicks first) or `-key` (descending by key). Default: days and hours oldest first, links in the order of `link_ids`, others by clicks"),
        ("format" = Option<String>, Query, description = "`json`, or `csv` (RFC 4180) with a row for each group; `json` by default"),
    ),
    responses(
        (status = 200, description = "The report", content((FunnelReport = "application/json"), (String = "text/csv"))),
        FullKey,
        (status = 400, description = "A parameter is malformed or repeated, the window is too long, or `group_by` is unknown (`invalid_group_by`)", body = ErrorBody),
        (status = 503, description = "Grouped by country, but country data is not configured (`geo_not_configured`); otherwise, retry after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn funnel(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<Response, ApiError> {
    let as_csv = query.parsed("format", "json or csv", |word| match word {
        "json" => Some(false),
        "csv" => Some(true),
        _ => None,
    })?;
    let scope = read(&query)?.check(app.clock.now())?;
    let report = report_for(&app, &caller, scope).await?;
    if as_csv != Some(true) {
        return Ok(Json(report).into_response());
    }
    const CSV: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, CSV)], sheet::of(&report)).into_response())
}

fn read(query: &Query) -> Result<FunnelQuery, ApiError> {
    let mut asked = FunnelQuery::default();
    asked.link_ids = query.one("link_ids")?.map(str::to_owned);
    asked.from = query.moment("from")?;
    asked.to = query.moment("to")?;
    asked.credit = query.one("credit")?.map(Credit::from);
    asked.group_by = query.one("group_by")?.map(GroupBy::from);
    asked.tz = query.one("tz")?.map(str::to_owned);
    asked.limit = query.parsed("limit", "a number from 1 to 100", |text| text.parse().ok())?;
    asked.order = query.one("order")?.map(GroupOrder::from);
    Ok(asked)
}

/// The report on a caller's own links, or on all of them.
pub(crate) async fn report_for(app: &App, caller: &Caller, scope: FunnelScope) -> Result<FunnelReport, ApiError> {
    if scope.group_by == Some(GroupBy::Country) && !app.countries.is_configured() {
        return Err(ApiError::Plain(ErrorCode::GeoNotConfigured, "country data is not configured on this service"));
    }
    app.clicks.counted().await;
    let report = app.report(caller, move |mut db, tenant| {
        async move { Found::of(&mut db, &tenant, &scope).await?.report(&mut db, scope).await }.boxed()
    });
    report.await
}

/// A report, and what a page shows beside it.
pub(crate) struct Numbers {
    pub(crate) report: FunnelReport,
    /// The same links in another window.
    pub(crate) before: Funnel,
    /// Clicks by platform, the largest first.
    pub(crate) platforms: Vec<FunnelGroup>,
    /// Clicks by the host of the referring page, the largest first.
    pub(crate) hosts: Vec<FunnelGroup>,
    /// Clicks by what is known of browsers and devices.
    pub(crate) user_agents: Vec<(UserAgent, i64)>,
    /// Clicks by country, the largest first; empty where the service is not told it.
    pub(crate) countries: Vec<FunnelGroup>,
    /// Of the whole account: the links with the most clicks.
    pub(crate) links: Vec<(String, i64)>,
}

/// Links that a page names.
const LINKS: usize = 10;

/// The numbers of a page, in one turn of the account's reports. `before` is about the same links.
pub(crate) async fn numbers_for(
    app: &App,
    caller: &Caller,
    [scope, before]: [FunnelScope; 2],
) -> Result<Numbers, ApiError> {
    app.clicks.counted().await;
    let has_countries = app.countries.is_configured();
    let numbers = app.report(caller, move |mut db, tenant| {
        async move {
            let db = &mut db;
            let found = Found::of(db, &tenant, &scope).await?;
            let before = found.count(db, &before).await?.0;
            let report = found.report(db, scope.clone()).await?;
            let (clicked, clicks) = (found.clicked(&scope), report.funnel.clicks);
            let platforms = by_platform(db, clicked, clicks).await?;
            let hosts = by_host(db, clicked, clicks).await?;
            let user_agents = user_agents(db, clicked).await?;
            let countries = if has_countries { by_country(db, clicked, clicks).await? } else { Vec::new() };
            let links = match scope.link_ids {
                None => found.most_clicked(db, &scope, LINKS).await?,
                Some(_) => Vec::new(),
            };
            let links = links.into_iter().map(|(clicks, id, _)| (id, clicks)).collect();
            Ok::<_, DbError>(Numbers { report, before, platforms, hosts, user_agents, countries, links })
        }
        .boxed()
    });
    numbers.await
}

/// What a report is about, as tables of counts name it.
struct Found {
    /// Positions of links, or the number of the account alone.
    links: Vec<i64>,
    /// The positions by id; empty for the account.
    positions: BTreeMap<String, i64>,
}

impl Found {
    async fn of(db: &mut Conn<'_>, tenant: &TenantId, scope: &FunnelScope) -> Result<Self, DbError> {
        let Some(ids) = &scope.link_ids else {
            let links = tenants::account(db, tenant).await?.into_iter().collect();
            return Ok(Self { links, positions: BTreeMap::new() });
        };
        let ids: Vec<&str> = ids.iter().map(String::as_str).filter(|id| is_link_id(id)).collect();
        let positions = funnel::positions(db, tenant, &ids).await?;
        Ok(Self { links: positions.values().copied().collect(), positions })
    }

    fn clicked(&self, scope: &FunnelScope) -> clicks::Scope<'_> {
        let (from, to) = (scope.from.as_millis(), scope.to.as_millis());
        clicks::Scope { links: &self.links, from, to, kinds: Kinds::Funnel }
    }

    fn credited<'a>(&'a self, scope: &FunnelScope, credit: &'a Credit) -> Scope<'a> {
        Scope { links: &self.links, from: scope.from.as_millis(), to: scope.to.as_millis(), credit }
    }

    async fn report(&self, db: &mut Conn<'_>, scope: FunnelScope) -> Result<FunnelReport, DbError> {
        let (total, groups) = self.count(db, &scope).await?;
        if let Some(ids) = &scope.link_ids {
            let imported = match (ids.as_slice(), self.links.as_slice()) {
                ([_], [link]) => funnel::imported_clicks(db, *link).await?,
                _ => None,
            };
            return Ok(FunnelReport::new(scope, total, groups).imported(imported));
        }
        let rest = if self.links.is_empty() {
            Funnel::default()
        } else {
            funnel::unattributed(db, self.credited(&scope, &Credit::LastTouch)).await?
        };
        Ok(FunnelReport::new(scope, total, groups).unattributed(rest.conversions, rest.revenue))
    }

    /// The counts, and the groups as they were asked for.
    async fn count(
        &self,
        db: &mut Conn<'_>,
        scope: &FunnelScope,
    ) -> Result<(Funnel, Option<Vec<FunnelGroup>>), DbError> {
        let (total, groups) = match (&scope.group_by, &scope.link_ids) {
            (Some(GroupBy::Link), None) => self.count_most_clicked(db, scope).await?,
            _ => self.count_all(db, scope).await?,
        };
        Ok((total, groups.map(|groups| ordered(limited(groups, scope.limit), scope.order.as_ref()))))
    }

    /// The counts of an account, and those of the links with the most clicks.
    async fn count_most_clicked(
        &self,
        db: &mut Conn<'_>,
        scope: &FunnelScope,
    ) -> Result<(Funnel, Option<Vec<FunnelGroup>>), DbError> {
        let whole = FunnelScope { group_by: None, ..scope.clone() };
        let (total, _) = self.count_all(db, &whole).await?;
        let most = self.most_clicked(db, scope, scope.limit.unwrap_or(MAX_LINKS)).await?;
        let links: Vec<i64> = most.iter().map(|(_, _, position)| *position).collect();
        let scope_of_links = Scope { links: &links, ..self.credited(scope, &scope.credit) };
        let mut tally = funnel::tally(db, scope_of_links, Split::LinksAlone).await?;
        let rest = total.clicks - most.iter().map(|(clicks, ..)| clicks).sum::<i64>();
        let group = |(clicks, id, position): ClickedLink| {
            let counts = tally.groups.remove(&position).unwrap_or_default();
            FunnelGroup::whole(id, Funnel { clicks, ..counts })
        };
        let mut groups: Vec<_> = most.into_iter().map(group).collect();
        if rest > 0 {
            groups.push(FunnelGroup::of_clicks(OTHER, rest));
        }
        Ok((total, Some(groups)))
    }

    /// The links of an account with the most clicks, the most first.
    async fn most_clicked(
        &self,
        db: &mut Conn<'_>,
        scope: &FunnelScope,
        limit: usize,
    ) -> Result<Vec<ClickedLink>, DbError> {
        let Some(account) = self.links.first() else { return Ok(Vec::new()) };
        clicks::most_clicked(db, *account, [scope.from, scope.to].map(Timestamp::as_millis), limit).await
    }

    async fn count_all(
        &self,
        db: &mut Conn<'_>,
        scope: &FunnelScope,
    ) -> Result<(Funnel, Option<Vec<FunnelGroup>>), DbError> {
        let days = scope.zone.as_ref().map(|zone| zone.days(scope.from, scope.to));
        let runs = days.as_deref().map(Run::of);
        let split = match (&scope.group_by, &runs) {
            (_, Some(runs)) => Split::Days(runs),
            (Some(GroupBy::Link), _) => Split::Link,
            (Some(by), _) => by.millis().map_or(Split::Nothing, Split::Time),
            (None, _) => Split::Nothing,
        };
        let clicked = self.clicked(scope);
        let mut tally = funnel::tally(db, self.credited(scope, &scope.credit), split).await?;
        let key = match &scope.group_by {
            Some(GroupBy::Hour) => By::Hour,
            Some(GroupBy::Day) if days.is_some() => By::Hour,
            Some(GroupBy::Day) => By::Day,
            Some(GroupBy::Link) => By::Link,
            Some(GroupBy::Kind) => {
                let counted = clicks::count(db, clicks::Scope { kinds: Kinds::All, ..clicked }, By::Kind).await?;
                let funnel = counted.iter().filter(|(code, _)| kind_of(**code).is_some_and(ClickKind::in_funnel));
                tally.total.clicks = funnel.map(|(_, clicks)| clicks).sum();
                let name = |code: i64| kind_of(code).map_or("unknown", ClickKind::as_str);
                let groups = by_clicks(counted.into_iter().map(|(code, clicks)| (name(code).into(), clicks)));
                return Ok((tally.total, Some(groups)));
            }
            by => {
                tally.total.clicks = clicks::count(db, clicked, By::Nothing).await?.into_values().sum();
                let groups = match by {
                    Some(by) if by.of_user_agent(UserAgent::default()).is_some() => {
                        Some(by_user_agent(db, clicked, by).await?)
                    }
                    Some(GroupBy::RefererHost) => Some(by_host(db, clicked, tally.total.clicks).await?),
                    Some(GroupBy::Country) => Some(by_country(db, clicked, tally.total.clicks).await?),
                    Some(GroupBy::Platform) => Some(by_platform(db, clicked, tally.total.clicks).await?),
                    _ => None,
                };
                return Ok((tally.total, groups));
            }
        };
        for (key, clicks) in clicks::count(db, clicked, key).await? {
            tally.total.clicks += clicks;
            let key = days.as_deref().map_or(key, |days| start_in(days, key.max(clicked.from)));
            tally.groups.entry(key).or_default().clicks += clicks;
        }
        let mut of_day =
            |day: Day| FunnelGroup::whole(day.date, tally.groups.remove(&day.start.as_millis()).unwrap_or_default());
        let groups = match days {
            Some(days) => days.into_iter().map(&mut of_day).collect(),
            None => whole_groups(&mut tally, scope, &self.positions),
        };
        Ok((tally.total, Some(groups)))
    }
}

/// The start of the day that a moment of the window is in.
fn start_in(days: &[Day], at: i64) -> i64 {
    let later = days.partition_point(|day| day.start.as_millis() <= at);
    later.checked_sub(1).and_then(|nth| days.get(nth)).map_or(at, |day| day.start.as_millis())
}

/// `total` clicks by platform.
async fn by_platform(db: &mut Conn<'_>, clicked: clicks::Scope<'_>, total: i64) -> Result<Vec<FunnelGroup>, DbError> {
    let mut counted = clicks::count(db, clicked, By::Platform).await?;
    add_rest(&mut counted, -1, total);
    Ok(by_clicks(counted.into_iter().map(|(code, clicks)| (platform_of(code).into(), clicks))))
}

/// `total` clicks by country.
async fn by_country(db: &mut Conn<'_>, clicked: clicks::Scope<'_>, total: i64) -> Result<Vec<FunnelGroup>, DbError> {
    let mut counted = clicks::count(db, clicked, By::Country).await?;
    add_rest(&mut counted, 0, total);
    let name = |code: i64| Country::from_code(u16::try_from(code).unwrap_or(0)).to_string();
    Ok(by_clicks(counted.into_iter().map(|(code, clicks)| (name(code), clicks))))
}

async fn user_agents(db: &mut Conn<'_>, clicked: clicks::Scope<'_>) -> Result<Vec<(UserAgent, i64)>, DbError> {
    let counted = clicks::count(db, clicked, By::UserAgent).await?.into_iter();
    Ok(counted
        .map(|(code, clicks)| (u32::try_from(code).map(UserAgent::from_code).unwrap_or_default(), clicks))
        .collect())
}

/// Clicks by what user agents say of browsers and devices.
async fn by_user_agent(
    db: &mut Conn<'_>,
    clicked: clicks::Scope<'_>,
    by: &GroupBy,
) -> Result<Vec<FunnelGroup>, DbError> {
    let mut counted: BTreeMap<&str, i64> = BTreeMap::new();
    for (agent, clicks) in user_agents(db, clicked).await? {
        *counted.entry(by.of_user_agent(agent).unwrap_or("unknown")).or_default() += clicks;
    }
    Ok(by_clicks(counted.into_iter().map(|(key, clicks)| (key.to_owned(), clicks))))
}

/// `total` clicks by the host of the referring page.
async fn by_host(db: &mut Conn<'_>, clicked: clicks::Scope<'_>, total: i64) -> Result<Vec<FunnelGroup>, DbError> {
    let mut counted = clicks::count_by_host(db, clicked).await?;
    add_rest(&mut counted, OTHER.to_owned(), total);
    Ok(by_clicks(counted.into_iter()))
}

fn kind_of(code: i64) -> Option<ClickKind> {
    u8::try_from(code).ok().and_then(ClickKind::from_code)
}

fn platform_of(code: i64) -> &'static str {
    u8::try_from(code).ok().and_then(Platform::from_code).map_or("unknown", Platform::as_str)
}

/// Adds what no group holds: old hours no longer have a breakdown, but their days do.
fn add_rest<K: Ord>(counted: &mut BTreeMap<K, i64>, of: K, total: i64) {
    let rest = total - counted.values().sum::<i64>();
    if rest > 0 {
        *counted.entry(of).or_insert(0) += rest;
    }
}

/// A group for each bucket that the window touches, or for each link in the requested order.
fn whole_groups(tally: &mut Tally, scope: &FunnelScope, positions: &BTreeMap<String, i64>) -> Vec<FunnelGroup> {
    let Some(width) = scope.group_by.as_ref().and_then(GroupBy::millis) else {
        let mut of = |id: &String| positions.get(id).and_then(|link| tally.groups.remove(link)).unwrap_or_default();
        return scope.link_ids.iter().flatten().map(|id| FunnelGroup::whole(id.clone(), of(id))).collect();
    };
    let group =
        |start| FunnelGroup::whole(timeseries::name(start, width), tally.groups.remove(&start).unwrap_or_default());
    timeseries::starts(scope.from, scope.to, width).map(group).collect()
}

/// Groups of clicks, the largest first.
fn by_clicks(counted: impl Iterator<Item = (String, i64)>) -> Vec<FunnelGroup> {
    let mut groups: Vec<_> = counted.collect();
    groups.sort_by(|(one, clicks), (other, more)| more.cmp(clicks).then_with(|| one.cmp(other)));
    groups.into_iter().map(|(key, clicks)| FunnelGroup::of_clicks(key, clicks)).collect()
}

/// The groups with the most clicks, in the order that they have, and the clicks of the rest as one more.
fn limited(groups: Vec<FunnelGroup>, limit: Option<usize>) -> Vec<FunnelGroup> {
    let Some(limit) = limit.filter(|limit| groups.len() > *limit) else { return groups };
    let mut by_clicks: Vec<usize> = (0..groups.len()).filter(|nth| !is_rest(&groups[*nth])).collect();
    by_clicks.sort_by_key(|nth| Reverse(groups[*nth].clicks));
    by_clicks.truncate(limit);
    let (mut named, mut rest) = (Vec::new(), 0);
    for (nth, group) in groups.into_iter().enumerate() {
        if by_clicks.contains(&nth) {
            named.push(group);
        } else {
            rest += group.clicks;
        }
    }
    named.extend((rest > 0).then(|| FunnelGroup::of_clicks(OTHER, rest)));
    named
}

/// Whether a group is that of the clicks that have none of their own.
fn is_rest(group: &FunnelGroup) -> bool {
    group.key == OTHER && group.new_users.is_none()
}

/// The groups in the order asked for, then the rest.
fn ordered(mut groups: Vec<FunnelGroup>, order: Option<&GroupOrder>) -> Vec<FunnelGroup> {
    match order {
        Some(GroupOrder::Clicks) => groups.sort_by(|a, b| b.clicks.cmp(&a.clicks).then_with(|| a.key.cmp(&b.key))),
        Some(GroupOrder::KeyDescending) => groups.sort_by(|a, b| b.key.cmp(&a.key)),
        _ => return groups,
    }
    groups.sort_by_key(is_rest);
    groups
}

/// Returns a link's all-time totals.
///
/// The legacy form of the report on a set of links: by last touch, with revenue.
#[utoipa::path(
    get, path = "/v1/links/{link_id}/stats", operation_id = "link_stats", tag = "analytics",
    security(("secret_key" = [])),
    params(("link_id" = String, Path, description = "The link's ID", example = "spring-42")),
    responses(
        (status = 200, description = "The totals", body = LinkStats, headers(("Deprecation" = String), ("Link" = String))),
        FullKey, NotFound,
    )
)]
pub(crate) async fn link(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(link_id): Path<String>,
) -> Result<Json<LinkStats>, ApiError> {
    let by = Arc::clone(&caller);
    app.clicks.counted().await;
    let stats = app.report(&by, move |mut db, _| {
        async move {
            let link = links::find(&mut db, &caller, &link_id).await?;
            let position = link.position;
            let [from, to] = [i64::MIN, i64::MAX].map(|edge| Timestamp::from_millis(edge).as_millis());
            let ever = clicks::Scope { links: &[position], from, to, kinds: Kinds::Funnel };
            let clicks = clicks::count(&mut db, ever, By::Nothing).await?.into_values().sum();
            let (installs, bound) = funnel::installs_of(&mut db, position).await?;
            let sums = funnel::conversions_of(&mut db, position).await?;
            let stats = LinkStats::new(link.link_id, (clicks, installs, bound), sums);
            Ok::<_, ApiError>(stats.imported(link.content.imported_clicks))
        }
        .boxed()
    });
    Ok(Json(stats.await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_beyond_the_limit_are_one() {
        let hosts = |count: i64| (0..count).map(|n| (format!("host-{n:03}.example.com"), n + 1));
        let largest = |hosts: Vec<(String, i64)>| limited(by_clicks(hosts.into_iter()), Some(100));
        let groups = largest(hosts(100).collect());
        assert!(groups.len() == 100 && groups.iter().all(|group| group.key != "other"));
        assert_eq!((groups[0].key.as_str(), groups[0].clicks), ("host-099.example.com", 100));
        let groups = largest(hosts(103).collect());
        assert_eq!((groups.len(), groups[100].key.as_str(), groups[100].clicks), (101, "other", 1 + 2 + 3));
        let groups = largest(hosts(102).chain([("other".to_owned(), 1_000)]).collect());
        assert_eq!((groups.len(), groups[100].key.as_str(), groups[100].clicks), (101, "other", 1 + 2 + 1_000));
        let by = |order: &str| ordered(groups.clone(), Some(&GroupOrder::from(order)));
        assert_eq!((by("clicks")[0].clicks, by("-key")[0].key.as_str()), (102, "host-101.example.com"));
        assert!(["clicks", "-key", ""].iter().all(|order| is_rest(&by(order)[100])));
        let named =
            ["c", "a", "b", "d"].iter().zip([1, 7, 3, 9]).map(|(key, clicks)| FunnelGroup::of_clicks(*key, clicks));
        let kept = limited(named.collect(), Some(3));
        assert_eq!(kept.iter().map(|group| group.key.as_str()).collect::<Vec<_>>(), ["a", "b", "d", "other"]);
    }
}
