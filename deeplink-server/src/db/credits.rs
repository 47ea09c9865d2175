//! Links credited with users' conversions.
//!
//! The work of one write is bounded, however many rows a user has: only the latest bound installs count, a conversion credits
//! a limited number of links, and a limited number of conversions are re-credited at a time. The rest is recorded in
//! `credit_work` and continued by a later write. All functions here require the user's row to be locked.

use deeplink_core::id::TenantId;
use sqlx::FromRow;

use super::events::{self, Publisher};
use super::funnel::Changes;
use super::{Conn, DbError, conversions, execute, on};

/// Maximum conversions that one write re-credits; fewer if each takes many lookups.
const MAX_RECREDITED: i64 = 500;
/// Approximate lookups of installs or links in one such write.
const MAX_LOOKUPS: i64 = 2_000;
/// Minimum conversions that one such write re-credits.
const MIN_RECREDITED: i64 = 20;
/// Users with unfinished work that are read at a time.
const USERS_PER_READ: i64 = 1_000;

/// A point in the order of a user's conversions: by time, then by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromRow)]
pub(crate) struct Point {
    pub(super) at: i64,
    pub(super) position: i64,
}

impl Point {
    /// Before all conversions at or after this time.
    fn before(at: i64) -> Self {
        Self { at, position: i64::MIN }
    }
}

/// Conversions of a user after one point and up to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) user: i64,
    pub(super) after: Point,
    pub(super) upto: Point,
}

/// Credits links and the account with a new conversion, of a known user, that is stored with its first and last touch.
pub(super) async fn credit_one(db: &mut Conn<'_>, user: i64, at: i64, position: i64) -> Result<(), DbError> {
    let after = Point { at, position: position.saturating_sub(1) };
    credit_range(db, Range { user, after, upto: Point { at, position } }).await
}

/// Credits the links that touched before the conversions of a range, and the account, for conversions without credits.
async fn credit_range(db: &mut Conn<'_>, Range { user, after, upto }: Range) -> Result<(), DbError> {
    const SQL: &str = "
        WITH touched AS (
            SELECT l.link, MIN(l.first_at) AS first_at,
                MAX(CASE WHEN l.last_opened_at > l.first_at THEN l.last_opened_at ELSE l.first_at END) AS latest_at
            FROM (SELECT position FROM installs WHERE app_user = $1 AND first_link IS NOT NULL
                    ORDER BY bound_at DESC, position DESC LIMIT 100) AS i
                JOIN install_links l ON l.install = i.position AND l.credited = TRUE
            GROUP BY l.link ORDER BY latest_at DESC, l.link LIMIT 100),
        due AS (
            SELECT position, at, conversion_type, first_link, last_link, amount_cents, currency FROM conversions
            WHERE app_user = $1 AND (at, position) > ($2, $3) AND (at, position) <= ($4, $5)),
        chain AS (
            SELECT d.*, d.first_link AS link, 1 AS is_end, 0 AS latest_at FROM due d WHERE d.first_link IS NOT NULL
            UNION ALL SELECT d.*, d.last_link, 1, 0 FROM due d WHERE d.last_link <> d.first_link
            UNION ALL SELECT d.*, t.link, 0, t.latest_at FROM due d JOIN touched t ON t.first_at <= d.at
                WHERE t.link <> d.first_link AND t.link <> d.last_link),
        ranked AS (
            SELECT chain.*,
                ROW_NUMBER() OVER (PARTITION BY position ORDER BY is_end DESC, latest_at DESC, link) AS nth
            FROM chain)
        INSERT INTO conversion_credits (link, at, conversion_type, is_first, is_last, conversion, amount_cents, currency)
        SELECT link, at, conversion_type, link = first_link, link = last_link, position, amount_cents, currency
        FROM ranked WHERE nth <= 100
        UNION ALL SELECT CASE WHEN d.first_link IS NULL THEN t.account - 1 ELSE t.account END,
            d.at, d.conversion_type, TRUE, TRUE, d.position, d.amount_cents, d.currency
        FROM due d CROSS JOIN app_users u JOIN tenants t ON t.id = u.tenant_id
        WHERE u.position = $1 AND t.account IS NOT NULL";
    execute!(db, SQL; user, after.at, after.position, upto.at, upto.position)?;
    Ok(())
}

/// Re-credits a user's conversions after new touches, and creates events for those that have none yet. `true`: some
/// are left for later. Usually there is nothing to do: a conversion is newer than the touches before it, unless it arrived
/// before its user was known or a clock was changed.
pub(crate) async fn credit_since(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    user: i64,
    since: i64,
) -> Result<bool, DbError> {
    const ANY: &str = "SELECT EXISTS (SELECT 1 FROM conversions WHERE app_user = $1 AND at >= $2)";
    if !on!(db, c => sqlx::query_scalar::<_, bool>(ANY).bind(user).bind(since).fetch_one(c).await)? {
        return Ok(false);
    }
    let since = Point::before(since);
    match remaining(db, user).await? {
        None => continue_work(db, publisher, user, Remaining { point: since, again_at: None }, false).await,
        // Unfinished work is completed first: with frequent new bindings it would never complete otherwise.
        Some(mut remaining) => {
            if since < remaining.point {
                remaining.again_at = Some(remaining.again_at.map_or(since.at, |at| at.min(since.at)));
            }
            continue_work(db, publisher, user, remaining, true).await
        }
    }
}

/// Continues the unfinished work of a user; `true` if more is left.
pub(crate) async fn resume(db: &mut Conn<'_>, publisher: &Publisher, user: i64) -> Result<bool, DbError> {
    conversions::lock(db, user).await?;
    match remaining(db, user).await? {
        Some(remaining) => continue_work(db, publisher, user, remaining, true).await,
        None => Ok(false),
    }
}

/// A user with unfinished work.
#[derive(Debug)]
pub(crate) struct Unfinished {
    /// `app_users.position`.
    pub(crate) position: i64,
    pub(crate) tenant: TenantId,
}

/// Some users with unfinished work.
pub(crate) async fn unfinished(db: &mut Conn<'_>) -> Result<Vec<Unfinished>, DbError> {
    const SQL: &str = "
        SELECT w.app_user, u.tenant_id FROM credit_work w JOIN app_users u ON u.position = w.app_user
        ORDER BY w.app_user LIMIT $1";
    let rows: Vec<(i64, String)> = on!(db, c => sqlx::query_as(SQL).bind(USERS_PER_READ).fetch_all(c).await)?;
    let read = |(position, tenant): (i64, String)| {
        let tenant = tenant.parse().map_err(|_| DbError::corrupt("app_users", "tenant_id", &tenant))?;
        Ok(Unfinished { position, tenant })
    };
    rows.into_iter().map(read).collect()
}

/// The unfinished work of a user.
#[derive(Debug, Clone, Copy)]
struct Remaining {
    /// Conversions after this point are to be re-credited.
    point: Point,
    /// Then those from this time on once more, because of new touches meanwhile.
    again_at: Option<i64>,
}

async fn remaining(db: &mut Conn<'_>, user: i64) -> Result<Option<Remaining>, DbError> {
    const SQL: &str = "SELECT since_at, since_position, again_at FROM credit_work WHERE app_user = $1";
    let row: Option<(i64, i64, Option<i64>)> = on!(db, c => sqlx::query_as(SQL).bind(user).fetch_optional(c).await)?;
    Ok(row.map(|(at, position, again_at)| Remaining { point: Point { at, position }, again_at }))
}

/// Does as much as one write may, and records the rest.
async fn continue_work(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    user: i64,
    from: Remaining,
    noted: bool,
) -> Result<bool, DbError> {
    const NOTE: &str = "
        INSERT INTO credit_work (app_user, since_at, since_position, again_at) VALUES ($1, $2, $3, $4)
        ON CONFLICT (app_user) DO UPDATE SET since_at = excluded.since_at, since_position = excluded.since_position,
            again_at = excluded.again_at";
    const END: &str = "DELETE FROM credit_work WHERE app_user = $1";
    let remaining = match (credit_some(db, publisher, user, from.point).await?, from.again_at) {
        (Some(point), again_at) => Some(Remaining { point, again_at }),
        (None, Some(at)) => Some(Remaining { point: Point::before(at), again_at: None }),
        (None, None) => None,
    };
    if let Some(Remaining { point, again_at }) = remaining {
        execute!(db, NOTE; user, point.at, point.position, again_at)?;
    } else if noted {
        execute!(db, END; user)?;
    }
    Ok(remaining.is_some())
}

/// The first touch of an install.
#[derive(FromRow)]
struct FirstTouch {
    install: i64,
    at: Option<i64>,
    link: Option<i64>,
}

/// Re-credits some conversions. Returns the point to continue from, if more may be left.
async fn credit_some(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    user: i64,
    after: Point,
) -> Result<Option<Point>, DbError> {
    const FIRSTS: &str = "
        SELECT i.position AS install,
            (SELECT t.at FROM touches t WHERE t.install = i.position ORDER BY t.at, t.number LIMIT 1) AS at,
            (SELECT t.link FROM touches t WHERE t.install = i.position ORDER BY t.at, t.number LIMIT 1) AS link
        FROM installs i WHERE i.app_user = $1 AND i.first_link IS NOT NULL ORDER BY i.bound_at DESC, i.position DESC LIMIT 100";
    const LINKS: &str = "
        SELECT COUNT(*) FROM (
            SELECT DISTINCT l.link
            FROM (SELECT position FROM installs WHERE app_user = $1 AND first_link IS NOT NULL
                    ORDER BY bound_at DESC, position DESC LIMIT 100) AS i
                JOIN install_links l ON l.install = i.position AND l.credited = TRUE
            LIMIT 100) AS links";
    const TO_CREDIT: &str = "
        SELECT at, position FROM conversions WHERE app_user = $1 AND (at, position) > ($2, $3)
        ORDER BY at, position LIMIT $4";
    const FORGET: &str = "
        DELETE FROM conversion_credits WHERE conversion IN (
            SELECT position FROM conversions
            WHERE app_user = $1 AND (at, position) > ($2, $3) AND (at, position) <= ($4, $5))";
    let firsts: Vec<FirstTouch> = on!(db, c => sqlx::query_as(FIRSTS).bind(user).fetch_all(c).await)?;
    let links: i64 = on!(db, c => sqlx::query_scalar(LINKS).bind(user).fetch_one(c).await)?;
    let installs = i64::try_from(firsts.len()).unwrap_or(i64::MAX);
    let most = (MAX_LOOKUPS / links.max(installs).max(1)).clamp(MIN_RECREDITED, MAX_RECREDITED);
    let due: Vec<Point> = on!(db, c => sqlx::query_as(TO_CREDIT)
        .bind(user).bind(after.at).bind(after.position).bind(most).fetch_all(c).await)?;
    let Some(&upto) = due.last() else { return Ok(None) };
    let range = Range { user, after, upto };
    let first = firsts.iter().filter_map(|first| Some(((first.at?, first.install), first.link?))).min();
    let mut changes = Changes::default();
    changes.conversions(db, range, -1).await?;
    execute!(db, FORGET; user, after.at, after.position, upto.at, upto.position)?;
    settle(db, range, first.map(|((at, _), link)| (at, link))).await?;
    credit_range(db, range).await?;
    changes.conversions(db, range, 1).await?;
    events::publish_conversions(db, publisher, range).await?;
    changes.store(db).await?;
    Ok((i64::try_from(due.len()).unwrap_or(i64::MAX) == most).then_some(upto))
}

/// Finds the first and the last touch of each conversion of a range, by index lookups. `first` is the time and the link of
/// the user's first touch.
async fn settle(db: &mut Conn<'_>, range: Range, first: Option<(i64, i64)>) -> Result<(), DbError> {
    const SQL: &str = "
        UPDATE conversions SET
            first_link = CASE WHEN at >= $6 THEN $7 END,
            last_link = (
                SELECT t.link FROM touches t
                WHERE t.at <= conversions.at AND t.install = (
                    SELECT position FROM (
                        SELECT i.position, (SELECT MAX(l.at) FROM touches l
                            WHERE l.install = i.position AND l.at <= conversions.at) AS last_at
                        FROM installs i WHERE i.app_user = $1 AND i.first_link IS NOT NULL
                        ORDER BY i.bound_at DESC, i.position DESC LIMIT 100) AS ends
                    WHERE last_at IS NOT NULL ORDER BY last_at DESC, position DESC LIMIT 1)
                ORDER BY t.at DESC, t.number DESC LIMIT 1)
        WHERE app_user = $1 AND (at, position) > ($2, $3) AND (at, position) <= ($4, $5)";
    let Range { user, after, upto } = range;
    let (first_at, first_link) = first.unzip();
    execute!(db, SQL; user, after.at, after.position, upto.at, upto.position, first_at, first_link)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use deeplink_core::id::EventId;
    use deeplink_core::lifecycle::Convert;
    use deeplink_core::secret::Random;
    use deeplink_core::time::Timestamp;
    use futures_util::FutureExt;

    use crate::db::conversions::{self, ConversionRow};
    use crate::db::installs::{self, Bound, NewBinding, NewTouch};
    use crate::db::tests::{Scratch, now};

    use super::*;

    fn publisher(now: Timestamp) -> Publisher {
        Publisher::new(Arc::default(), Arc::new(Mutex::new(Random::system())), now, now)
    }

    /// A tenant with one user, and no task that completes unfinished work.
    struct Stage {
        scratch: Scratch,
        tenant: TenantId,
    }

    impl Stage {
        async fn new() -> Self {
            let scratch = Scratch::new().await;
            let tenant = TenantId::new(now(), &mut Random::system());
            scratch.execute(format!("INSERT INTO tenants (id, created_at) VALUES ('{tenant}', 0)")).await;
            Self { scratch, tenant }
        }

        async fn number(&self, sql: &'static str) -> i64 {
            let mut reader = self.scratch.db.read().await.expect("a reader");
            on!(&mut reader.conn(), c => sqlx::query_scalar(sql).fetch_one(c).await).expect("a number")
        }

        /// A link opens an install, `nth` milliseconds after the beginning.
        async fn touch(&self, install: i64, link: i64, nth: i64) -> bool {
            let tenant = self.tenant.clone();
            self.scratch
                .write(move |tx| {
                    let (tenant, install_id) = (tenant.clone(), format!("install-{install}"));
                    async move {
                        let publisher = publisher(now().plus_millis(nth));
                        let new = NewTouch {
                            tenant: &tenant,
                            position: install,
                            install_id: &install_id,
                            link,
                            link_id: "x",
                            app_version: "1",
                            device_model: None,
                            context: None,
                            at: now().plus_millis(nth),
                        };
                        installs::touch(tx, &publisher, &new).await
                    }
                    .boxed()
                })
                .await
        }

        /// Binds an install to the user.
        async fn bind(&self, install: i64, nth: i64) -> Bound {
            let tenant = self.tenant.clone();
            self.scratch
                .write(move |tx| {
                    let (tenant, install_id) = (tenant.clone(), format!("install-{install}"));
                    async move {
                        let publisher = publisher(now().plus_millis(nth));
                        let new = NewBinding {
                            tenant: &tenant,
                            positions: [install, 1],
                            install_id: &install_id,
                            user_id: "ann",
                            at: now().plus_millis(nth),
                        };
                        installs::bind(tx, &publisher, &new).await
                    }
                    .boxed()
                })
                .await
        }

        /// Conversions of the user, one in each millisecond from `nth` on.
        async fn convert(&self, positions: std::ops::Range<i64>, nth: i64) {
            let tenant = self.tenant.clone();
            self.scratch
                .write(move |tx| {
                    let (tenant, positions) = (tenant.clone(), positions.clone());
                    async move {
                        let user = conversions::lock_user(tx, &tenant, "ann", 1, now()).await?;
                        let new = Convert::new("ann", "t").check().expect("a conversion");
                        let begin = positions.start;
                        for position in positions {
                            let at = now().plus_millis(nth + position - begin);
                            let id = EventId::new(at, &mut Random::system());
                            let stored = ConversionRow {
                                id: &id,
                                tenant: &tenant,
                                user,
                                position,
                                reporter: &conversions::Reporter::Page,
                                new: &new,
                                at,
                            };
                            conversions::insert(tx, &publisher(at), &stored).await?;
                        }
                        Ok(())
                    }
                    .boxed()
                })
                .await;
        }

        async fn resume(&self, nth: i64) -> bool {
            let at = now().plus_millis(nth);
            self.scratch.write(move |tx| async move { resume(tx, &publisher(at), 1).await }.boxed()).await
        }
    }

    /// C3: however many conversions a user has, one write re-credits 500 of them, and the rest is recorded.
    #[tokio::test]
    async fn c3_one_write_credits_five_hundred() {
        let stage = Stage::new().await;
        stage.touch(1, 7, 0).await;
        stage.touch(2, 8, 1).await;
        stage.convert(0..1_200, 100).await;
        let credited = "SELECT COUNT(*) FROM conversion_credits";
        let events = "SELECT COUNT(*) FROM conversions WHERE emitted_at IS NOT NULL";
        assert_eq!(stage.bind(1, 5_000).await, Bound::Theirs { is_left: true });
        assert_eq!((stage.number(credited).await, stage.number(events).await), (500, 500));
        let oldest = "SELECT COUNT(*) FROM conversions WHERE emitted_at IS NOT NULL AND position < 500";
        assert_eq!(stage.number(oldest).await, 500, "the oldest first");
        assert!(stage.resume(6_000).await);
        // Another install whose touch is before all of them: the work under way completes, then starts over, and no
        // event is created twice.
        assert_eq!(stage.bind(2, 7_000).await, Bound::Theirs { is_left: true });
        assert_eq!((stage.number(credited).await, stage.number(events).await), (1_000 + 400, 1_200));
        assert!(stage.resume(8_000).await);
        assert_eq!(stage.number(credited).await, 1_000 + 500 + 400);
        assert!(stage.resume(8_000).await);
        assert!(!stage.resume(9_000).await);
        assert!(!stage.resume(9_000).await);
        assert_eq!((stage.number(credited).await, stage.number(events).await), (2_400, 1_200));
        assert_eq!(stage.number("SELECT COUNT(*) FROM credit_work").await, 0);
        let flags = "
            SELECT COUNT(*) FROM conversion_credits x JOIN conversions c ON c.position = x.conversion
            WHERE x.at = c.at AND x.is_first = (x.link = 7) AND x.is_last = (x.link = 8)
                AND c.first_link = 7 AND c.last_link = 8";
        assert_eq!(stage.number(flags).await, 2_400);
        for (position, nth) in [(0, 5_000), (499, 5_000), (500, 6_000), (999, 6_000), (1_000, 7_000), (1_199, 7_000)] {
            let sql = format!("SELECT emitted_at FROM conversions WHERE position = {position}");
            let at = stage.number(String::leak(sql)).await;
            assert_eq!(at, now().plus_millis(nth).as_millis(), "{position}");
        }
    }

    /// However often new touches arrive meanwhile, all conversions are credited in the end.
    #[tokio::test]
    async fn c3_repeated_bindings_do_not_starve_conversions() {
        let stage = Stage::new().await;
        stage.convert(0..2_000, 100).await;
        for install in 1..=6 {
            stage.touch(install, install, install).await;
            stage.bind(install, 5_000 + install).await;
        }
        let events = "SELECT COUNT(*) FROM conversions WHERE emitted_at IS NOT NULL";
        assert_eq!(stage.number(events).await, 2_000);
        let mut writes = 0;
        while stage.resume(6_000).await {
            writes += 1;
            assert!(writes < 20, "it does not end");
        }
        assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits").await, 6 * 2_000);
    }

    /// Up to a hundred links are all credited; of more, only the first, the last and the latest.
    #[tokio::test]
    async fn a_hundred_links_are_credited() {
        let stage = Stage::new().await;
        for nth in 0..150 {
            // The first three come again, so that they are among the latest.
            stage.touch(1, if nth < 147 { nth } else { nth - 147 }, nth).await;
            if nth == 99 {
                stage.touch(2, 5_000, nth).await;
            }
        }
        assert_eq!(stage.number("SELECT COUNT(*) FROM install_links WHERE install = 1").await, 147);
        assert_eq!(stage.number("SELECT COUNT(*) FROM install_links WHERE install = 1 AND credited").await, 100);
        // One conversion before its user is known, at a time with exactly a hundred links, and one after.
        stage.convert(0..1, 98).await;
        assert_eq!(stage.bind(1, 1_000).await, Bound::Theirs { is_left: false });
        stage.convert(1..2, 1_000).await;
        let latest = "SELECT COUNT(*) FROM install_credits WHERE link < 3 OR link >= 50";
        assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits").await, 100);
        assert_eq!(stage.number(latest).await, 100);
        assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits WHERE is_first AND link = 0").await, 1);
        assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits WHERE is_last AND link = 2").await, 1);
        let of_later = "SELECT COUNT(*) FROM conversion_credits WHERE conversion = 1 AND (link < 3 OR link >= 50)";
        assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits WHERE conversion = 1").await, 100);
        assert_eq!(stage.number(of_later).await, 100);
        // The early one is credited to its first and last link, and to those of the latest that came before it.
        let ends = "SELECT COUNT(*) FROM conversions WHERE position = 0 AND first_link = 0 AND last_link = 98";
        assert_eq!(stage.number(ends).await, 1);
        let of_early =
            "SELECT COUNT(*) FROM conversion_credits WHERE conversion = 0 AND (link < 3 OR link BETWEEN 50 AND 98)";
        assert_eq!(stage.number(of_early).await, 52);
        assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits WHERE conversion = 0").await, 52);
        let ends = "SELECT COUNT(*) FROM conversion_credits WHERE is_first OR is_last";
        assert_eq!(stage.number(ends).await, 4);
    }

    /// Exactly a hundred links are all credited.
    #[tokio::test]
    async fn none_of_a_hundred_links_is_left_out() {
        let stage = Stage::new().await;
        for nth in 0..100 {
            stage.touch(nth % 3 + 1, nth, nth).await;
        }
        for install in 1..=3 {
            stage.bind(install, 200 + install).await;
        }
        stage.convert(0..1, 300).await;
        assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits").await, 100);
        assert_eq!(stage.number("SELECT COUNT(*) FROM install_credits").await, 100);
    }

    /// Only a user's most recently bound installs count.
    #[tokio::test]
    async fn a_hundred_installs_credit() {
        let stage = Stage::new().await;
        for install in 1..=103 {
            // The last ones bound were touched first.
            stage.touch(install, 1_000 + install, 200 - install).await;
            stage.bind(install, 300 + install).await;
        }
        stage.convert(0..1, 1_000).await;
        assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits WHERE link > 1003").await, 100);
        assert_eq!(stage.number("SELECT COUNT(*) FROM conversion_credits").await, 100);
        let ends = "SELECT COUNT(*) FROM conversions WHERE first_link = 1103 AND last_link = 1004";
        assert_eq!(stage.number(ends).await, 1);
    }
}
