//! Adds to the counts: by hour and day of each link and account, and by month for the limits of plans.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use deeplink_core::time::Timestamp;
use deeplink_core::visitor::ClickKind;
use sqlx::{AssertSqlSafe, FromRow};

use super::super::sets::{padded, placeholders};
use super::super::tenants::is_account;
use super::super::upsert::{Column, Upsert};
use super::super::{Conn, DbError, on};
use super::hosts::{self, Named, OTHER};
use super::{NewClick, head, links, position_at};

/// Milliseconds of an hour and a day.
const HOUR: i64 = 3_600_000;
pub(super) const DAY: i64 = 86_400_000;
/// A visitor's number is its kind plus this many times the code of its user agent.
pub(super) const KINDS: i64 = 8;
/// Links whose accounts are looked up at a time.
const MAX_LINKS: usize = 512;

/// Clicks in the log with the same properties, counted together.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) link: i64,
    /// Unix milliseconds of its start.
    pub(crate) hour: i64,
    pub(crate) kind: u8,
    pub(crate) platform: u8,
    pub(crate) agent_code: u32,
    pub(crate) country: u16,
    /// Of the referer; empty when there is none.
    pub(crate) host: String,
    pub(crate) clicks: i64,
    pub(crate) first_at: i64,
    pub(crate) last_at: i64,
}

impl Group {
    /// The group of one click.
    pub(crate) fn of_one(click: &NewClick, host: String) -> Self {
        let NewClick { link, at, kind, platform, agent_code, country, .. } = *click;
        let hour = at - at.rem_euclid(HOUR);
        Self { link, hour, kind, platform, agent_code, country, host, clicks: 1, first_at: at, last_at: at }
    }

    pub(super) fn in_funnel(&self) -> bool {
        ClickKind::from_code(self.kind).is_some_and(ClickKind::in_funnel)
    }

    /// Kind and user agent, as one number.
    fn visitor(&self) -> i64 {
        i64::from(self.kind) + i64::from(self.agent_code) * KINDS
    }

    pub(super) fn day(&self) -> i64 {
        self.hour - self.hour.rem_euclid(DAY)
    }
}

/// Link, time, visitor, platform or country, and host.
type Key = (i64, i64, i64, String);

/// Clicks, with the range of their positions, and the time of the first and the last one.
#[derive(Debug, Clone, Copy)]
struct Sum {
    clicks: i64,
    first_position: i64,
    last_position: i64,
    first_at: i64,
    last_at: i64,
}

/// A table of counts.
struct Rollup {
    table: &'static str,
    time: &'static str,
    by: By,
    /// Whether it has the range of its clicks' positions in the log.
    has_positions: bool,
}

/// What a table groups the clicks of a link and a time by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Visitor,
    PlatformAndHost,
    Country,
}

const ROLLUPS: [Rollup; 6] = [
    Rollup { table: "click_hours", time: "hour", by: By::Visitor, has_positions: true },
    Rollup { table: "click_days", time: "day", by: By::Visitor, has_positions: false },
    Rollup { table: "click_facets", time: "hour", by: By::PlatformAndHost, has_positions: true },
    Rollup { table: "click_facet_days", time: "day", by: By::PlatformAndHost, has_positions: false },
    Rollup { table: "click_countries", time: "hour", by: By::Country, has_positions: true },
    Rollup { table: "click_country_days", time: "day", by: By::Country, has_positions: false },
];

/// Adds groups to the counts of their links and accounts; with `months`, also to those of their accounts' months. Their
/// clicks are in the log, or are stored by this transaction.
pub(crate) async fn add_counts(db: &mut Conn<'_>, groups: &[Group], months: bool) -> Result<(), DbError> {
    let last_position = head(db).await?;
    let owners = owners_of(db, groups).await?;
    let of_accounts = groups.iter().filter_map(|group| {
        let link = owners.get(&group.link)?.account?;
        Some(Group { link, ..group.clone() })
    });
    let counted: Vec<Group> = groups.iter().cloned().chain(of_accounts).collect();
    let without_room = hosts::without_room(db, &counted).await?;
    let rollups = sums(&counted, &without_room, last_position);
    // Accounts after all links: a node locks an account's rows until the commit, and other nodes may need them.
    for of_accounts in [false, true] {
        for (nth, rows) in rollups.iter().enumerate() {
            let rows: Vec<(&Key, &Sum)> = rows.iter().filter(|row| is_account(&[row.0.0]) == of_accounts).collect();
            store(db, nth, &rows).await?;
        }
    }
    links::add(db, groups.iter().filter_map(|group| Some((owners.get(&group.link)?.account?, group)))).await?;
    if months {
        let months = months_of(groups, &owners);
        // Last, because conversions need the same rows.
        store_months(db, &months).await?;
    }
    Ok(())
}

/// The rows that groups add up to in each table.
fn sums(groups: &[Group], without_room: &HashSet<Named>, last_position: i64) -> [BTreeMap<Key, Sum>; ROLLUPS.len()] {
    let mut rollups: [BTreeMap<Key, Sum>; ROLLUPS.len()] = Default::default();
    for group in groups {
        let Group { link, hour, platform, country, clicks, first_at, last_at, .. } = *group;
        // No click has a position before its own time.
        let sum = Sum { clicks, first_position: position_at(first_at), last_position, first_at, last_at };
        let (day, visitor, platform) = (group.day(), group.visitor(), i64::from(platform));
        let [hours, days, facets, facet_days, countries, country_days] = &mut rollups;
        add(hours, (link, hour, visitor, String::new()), sum);
        add(days, (link, day, visitor, String::new()), sum);
        if group.in_funnel() {
            let mut named = (link, day, group.host.clone());
            if without_room.contains(&named) {
                OTHER.clone_into(&mut named.2);
            }
            add(facet_days, (link, day, platform, named.2.clone()), sum);
            add(facets, (link, hour, platform, named.2), sum);
            // Clicks without a country have no row: they are the difference to the other counts.
            if country > 0 {
                add(countries, (link, hour, country.into(), String::new()), sum);
                add(country_days, (link, day, country.into(), String::new()), sum);
            }
        }
    }
    rollups
}

fn add(rows: &mut BTreeMap<Key, Sum>, key: Key, sum: Sum) {
    let join = |known: &mut Sum| {
        known.clicks += sum.clicks;
        known.first_position = known.first_position.min(sum.first_position);
        known.last_position = known.last_position.max(sum.last_position);
        known.first_at = known.first_at.min(sum.first_at);
        known.last_at = known.last_at.max(sum.last_at);
    };
    rows.entry(key).and_modify(join).or_insert(sum);
}

/// The owner of a link.
#[derive(FromRow)]
struct Owner {
    position: i64,
    tenant_id: String,
    account: Option<i64>,
}

/// The owners of the groups' links, deleted ones included.
async fn owners_of(db: &mut Conn<'_>, groups: &[Group]) -> Result<HashMap<i64, Owner>, DbError> {
    let mut links: Vec<i64> = groups.iter().map(|group| group.link).collect();
    links.sort_unstable();
    links.dedup();
    let mut owners = HashMap::new();
    for links in links.chunks(MAX_LINKS) {
        let links = padded(links);
        let list = placeholders(1, links.len());
        let sql = format!(
            "SELECT o.position, o.tenant_id, t.account FROM (
                SELECT position, tenant_id FROM links WHERE position IN ({list})
                UNION ALL SELECT position, tenant_id FROM deleted_links WHERE position IN ({list})
            ) AS o JOIN tenants t ON t.id = o.tenant_id"
        );
        let found: Vec<Owner> = on!(db, c => {
            let mut query = sqlx::query_as(AssertSqlSafe(sql));
            for link in &links {
                query = query.bind(*link);
            }
            query.fetch_all(c).await
        })?;
        owners.extend(found.into_iter().map(|owner| (owner.position, owner)));
    }
    Ok(owners)
}

/// Clicks of people and agents by account and month.
fn months_of(groups: &[Group], owners: &HashMap<i64, Owner>) -> BTreeMap<(String, i64), i64> {
    let mut months = BTreeMap::new();
    for group in groups.iter().filter(|group| group.in_funnel()) {
        if let Some(owner) = owners.get(&group.link) {
            let month = Timestamp::from_millis(group.hour).month().as_millis();
            *months.entry((owner.tenant_id.clone(), month)).or_insert(0) += group.clicks;
        }
    }
    months
}

/// Adds to the monthly counts of accounts.
async fn store_months(db: &mut Conn<'_>, months: &BTreeMap<(String, i64), i64>) -> Result<(), DbError> {
    static UPSERT: LazyLock<Upsert> = LazyLock::new(|| {
        Upsert::new(
            "tenant_months",
            &[("tenant_id", "TEXT"), ("month", "BIGINT"), ("events", "BIGINT")],
            "ON CONFLICT (tenant_id, month) DO UPDATE SET events = tenant_months.events + excluded.events",
        )
    });
    let tenants = months.keys().map(|(tenant, _)| tenant.as_str()).collect();
    let starts = months.keys().map(|(_, month)| *month).collect();
    let columns =
        [Column::Texts(tenants), Column::Numbers(starts), Column::Numbers(months.values().copied().collect())];
    UPSERT.store(db, &columns).await
}

impl Rollup {
    /// Table and columns, with the types that PostgreSQL needs to know.
    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let mut columns = vec![("link", "BIGINT"), (self.time, "BIGINT")];
        match self.by {
            By::Visitor => columns.push(("visitor", "BIGINT")),
            By::PlatformAndHost => columns.extend([("platform", "BIGINT"), ("host", "TEXT")]),
            By::Country => columns.push(("country", "BIGINT")),
        }
        columns.push(("clicks", "BIGINT"));
        if self.has_positions {
            columns.extend(["first_position", "last_position", "first_at", "last_at"].map(|name| (name, "BIGINT")));
        }
        columns
    }

    /// What happens to a row that exists.
    fn then(&self) -> String {
        let Self { table, time, .. } = self;
        let by = match self.by {
            By::Visitor => "visitor",
            By::PlatformAndHost => "platform, host",
            By::Country => "country",
        };
        let mut sets = vec![format!("clicks = {table}.clicks + excluded.clicks")];
        if self.has_positions {
            let ends = [("first_position", "<"), ("last_position", ">"), ("first_at", "<"), ("last_at", ">")];
            for (name, is_better) in ends {
                sets.push(format!(
                    "{name} = CASE WHEN excluded.{name} {is_better} {table}.{name} \
                     THEN excluded.{name} ELSE {table}.{name} END"
                ));
            }
        }
        format!("ON CONFLICT (link, {time}, {by}) DO UPDATE SET {}", sets.join(", "))
    }
}

/// Stores rows of the `nth` table.
async fn store(db: &mut Conn<'_>, nth: usize, rows: &[(&Key, &Sum)]) -> Result<(), DbError> {
    static UPSERTS: LazyLock<[Upsert; ROLLUPS.len()]> =
        LazyLock::new(|| ROLLUPS.map(|rollup| Upsert::new(rollup.table, &rollup.columns(), &rollup.then())));
    let keys = |value: fn(&Key) -> i64| Column::Numbers(rows.iter().map(|(key, _)| value(key)).collect());
    let sums = |value: fn(&Sum) -> i64| Column::Numbers(rows.iter().map(|(_, sum)| value(sum)).collect());
    let mut columns = vec![keys(|key| key.0), keys(|key| key.1), keys(|key| key.2)];
    if ROLLUPS[nth].by == By::PlatformAndHost {
        columns.push(Column::Texts(rows.iter().map(|(key, _)| key.3.as_str()).collect()));
    }
    columns.push(sums(|sum| sum.clicks));
    if ROLLUPS[nth].has_positions {
        columns.extend([sums(|sum| sum.first_position), sums(|sum| sum.last_position)]);
        columns.extend([sums(|sum| sum.first_at), sums(|sum| sum.last_at)]);
    }
    UPSERTS[nth].store(db, &columns).await
}
