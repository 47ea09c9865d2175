//! The content of the database, read beside the server: links, clicks, counts.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};
use tokio::time::timeout;

use crate::home::{Database, Home};
use crate::node::Node;
use crate::report::Reported;
use deeplink_doubles::wait::{PATIENCE, eventually};

/// A connection beside the server's.
pub(crate) enum Conn {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// Fetches all rows of a statement that both databases accept.
macro_rules! rows {
    ($conn:expr, $sql:expr) => {
        match &mut $conn {
            Conn::Sqlite(conn) => sqlx::query_as($sql).fetch_all(conn).await,
            Conn::Postgres(conn) => sqlx::query_as($sql).fetch_all(conn).await,
        }
        .expect("the database can be read")
    };
}

/// A link as it is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) id: String,
    pub(crate) web_url: String,
    pub(crate) metadata: String,
}

/// Everything that the tests check.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// By id.
    pub(crate) links: HashMap<String, Stored>,
    /// By referer: the links that were visited, one entry for each stored click.
    pub(crate) clicks: HashMap<String, Vec<String>>,
    /// By token: the results of reports.
    pub(crate) reports: HashMap<String, Reported>,
    /// Contradictions.
    pub(crate) contradictions: Vec<String>,
}

pub(crate) async fn connect(database: &Database) -> Conn {
    match database {
        Database::Sqlite(path) => Conn::Sqlite(open_file(path).await),
        Database::Postgres(url) => {
            let options: PgConnectOptions = url.as_str().parse().expect("a PostgreSQL URL");
            let options = options.disable_statement_logging();
            Conn::Postgres(PgConnection::connect_with(&options).await.expect("the database opens"))
        }
    }
}

async fn open_file(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(PATIENCE);
    SqliteConnection::connect_with(&options.disable_statement_logging()).await.expect("the database opens")
}

/// Reads everything.
pub(crate) async fn read(database: &Database) -> Found {
    let mut conn = connect(database).await;
    let mut found = Found::default();
    let links: Vec<(String, Option<String>, Option<String>)> =
        rows!(conn, "SELECT link_id, web_url, metadata FROM links");
    for (id, web_url, metadata) in links {
        let stored =
            Stored { id: id.clone(), web_url: web_url.unwrap_or_default(), metadata: metadata.unwrap_or_default() };
        if found.links.insert(id.clone(), stored).is_some() {
            found.contradictions.push(format!("two links have the id {id}"));
        }
    }
    let names: Vec<(i64, String)> =
        rows!(conn, "SELECT position, link_id FROM links UNION ALL SELECT position, link_id FROM deleted_links");
    let names: HashMap<_, _> = names.into_iter().collect();
    let clicks: Vec<(i64, Option<String>)> =
        rows!(conn, "SELECT link, text FROM clicks LEFT JOIN visitor_texts ON hash = referer");
    for (link, referer) in clicks {
        let link = names.get(&link).cloned().unwrap_or_else(|| format!("unknown position {link}"));
        found.clicks.entry(referer.unwrap_or_default()).or_default().push(link);
    }
    let miscounted: Vec<(i64, i64)> = rows!(
        conn,
        "SELECT link, CAST(SUM(n) AS BIGINT) FROM (
            SELECT link, clicks AS n FROM click_hours
            UNION ALL
            SELECT link, -1 FROM clicks
            UNION ALL
            SELECT t.account, -1 FROM clicks c
                JOIN (SELECT position, tenant_id FROM links UNION ALL SELECT position, tenant_id FROM deleted_links) AS o
                ON o.position = c.link JOIN tenants t ON t.id = o.tenant_id
        ) AS counted GROUP BY link HAVING SUM(n) <> 0"
    );
    let miscounted = miscounted.iter().map(|(link, n)| format!("{n} clicks too many are counted for link {link}"));
    found.contradictions.extend(miscounted);
    found.reports = reports(&mut conn).await;
    let counters: Vec<(String, i64, i64)> = rows!(
        conn,
        "SELECT id, link_count, (SELECT COUNT(*) FROM links WHERE tenant_id = tenants.id) FROM tenants
        WHERE link_count <> (SELECT COUNT(*) FROM links WHERE tenant_id = tenants.id)"
    );
    let counters =
        counters.iter().map(|(id, says, are)| format!("the counter of {id} says {says} links, there are {are}"));
    found.contradictions.extend(counters);
    if let Conn::Sqlite(conn) = &mut conn {
        let verdict: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(conn).await.expect("a verdict");
        if verdict != "ok" {
            found.contradictions.push(verdict);
        }
    }
    close(conn).await;
    found
}

async fn reports(conn: &mut Conn) -> HashMap<String, Reported> {
    let mut reports: HashMap<String, Reported> = HashMap::new();
    let installs: Vec<(String, i64)> =
        rows!(*conn, "SELECT install_id, (SELECT COUNT(*) FROM touches WHERE install = position) FROM installs");
    for (install, touches) in installs {
        reports.entry(install).or_default().touches += usize::try_from(touches).expect("a count");
    }
    let users: Vec<(String, i64, i64, i64, i64)> = rows!(
        *conn,
        "SELECT user_id, (SELECT COUNT(*) FROM installs i WHERE i.app_user = u.position AND i.install_id = u.user_id),
            (SELECT COUNT(*) FROM conversions c WHERE c.app_user = u.position),
            (SELECT COUNT(*) FROM conversions c WHERE c.app_user = u.position AND c.emitted_at IS NOT NULL),
            (SELECT COUNT(*) FROM conversion_credits x JOIN conversions c ON c.position = x.conversion
                WHERE c.app_user = u.position AND x.link > 0)
        FROM app_users u"
    );
    for (user, bindings, conversions, emitted, credits) in users {
        let reported = reports.entry(user).or_default();
        let count = |count: i64| usize::try_from(count).expect("a count");
        reported.bindings = count(bindings);
        reported.conversions = count(conversions);
        reported.emitted = count(emitted);
        reported.credits = count(credits);
    }
    reports
}

/// A delivery as it is stored.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// 0 while it waits, 1 once it has arrived.
    pub(crate) state: i64,
    pub(crate) tries: i64,
    pub(crate) due_at: i64,
    /// Its attempts.
    pub(crate) log: Vec<serde_json::Value>,
}

/// Reads all deliveries, by the ids of their events.
pub(crate) async fn deliveries(database: &Database) -> HashMap<String, Delivery> {
    let mut conn = connect(database).await;
    let all: Vec<(String, i64, i64, i64, String)> =
        rows!(conn, "SELECT event_id, state, tries, due_at, log FROM deliveries");
    close(conn).await;
    let all = all.into_iter().map(|(event, state, tries, due_at, log)| {
        let log = serde_json::from_str(&log).expect("a list of attempts");
        (event, Delivery { state, tries, due_at, log })
    });
    all.collect()
}

pub(crate) async fn close(conn: Conn) {
    match conn {
        Conn::Sqlite(conn) => conn.close().await,
        Conn::Postgres(conn) => conn.close().await,
    }
    .expect("the connection closes");
}

/// Waits until the server has stored and counted every click of its journal.
pub(crate) async fn wait_for_clicks(home: &Home, node: &Node) -> Duration {
    let conn = tokio::sync::Mutex::new(connect(&home.database).await);
    let took = eventually("all clicks are stored and counted", PATIENCE, || async {
        let behind = node.figure("deeplink_clicks_journal_bytes").await;
        let sql = "
            SELECT CAST(COUNT(*) AS BIGINT), (SELECT CAST(COALESCE(SUM(clicks), 0) AS BIGINT) FROM click_hours WHERE link > 0) FROM clicks";
        let found: Vec<(i64, i64)> = rows!(*conn.lock().await, sql);
        let is_counted = found.iter().all(|(stored, counted)| stored == counted);
        if behind == 0 && is_counted { Ok(()) } else { Err(format!("{behind} bytes, {found:?}")) }
    })
    .await;
    close(conn.into_inner()).await;
    took
}

/// The same while clicks go on: until the database has those of at most a second ago.
pub(crate) async fn wait_until_caught_up(node: &Node) -> Duration {
    eventually("the clicks of before are stored", PATIENCE, || async {
        let behind = node.figure("deeplink_clicks_journal_seconds").await;
        if behind == 0 { Ok(()) } else { Err(format!("{behind} s behind")) }
    })
    .await
}

/// Waits until PostgreSQL has noticed that the server is dead: it may still be committing the server's last statements.
pub(crate) async fn wait_until_left(database: &Database) {
    let Database::Postgres(_) = database else { return };
    let mut conn = connect(database).await;
    let left = async {
        loop {
            let others: Vec<(i64,)> = rows!(
                conn,
                "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                AND backend_type = 'client backend'"
            );
            if others == [(0,)] {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, left).await.expect("the server's connections end");
    close(conn).await;
}
