//! Clicks on a real database: SQLite, or with `TEST_DATABASE_URL` PostgreSQL.

mod counts;
mod earlier;
mod faults;
mod journal;
mod model;
mod retention;
mod store;
mod windows;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::time::Timestamp;
use deeplink_doubles::machine;
use deeplink_doubles::wait::{PATIENCE as LONG, eventually};
use sqlx::{Connection, PgConnection, SqliteConnection};
use tokio::time::Instant;

use super::{Click, Clicks, Intake, Status};
use crate::clock::Clock;
use crate::config::TEST_DATABASE_TIMEOUT;
use crate::db::{Access, Conn, Db, OpenError, on};

const NOW: i64 = 1_795_167_000_000;

/// A database and a data directory, which outlive the process that uses them.
struct Home {
    url: String,
    directory: tempfile::TempDir,
    clock: Clock,
}

impl Home {
    fn new() -> Self {
        let directory = machine::directory();
        let url = machine::new_database("clicks", directory.path());
        Self { url, directory, clock: Clock::fixed(Timestamp::from_millis(NOW)) }
    }

    fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// Opens the database once whoever had it is gone: tasks that were ended let go of it a moment later.
    async fn open(&self) -> Db {
        let end = Instant::now() + LONG;
        loop {
            match Db::open(&self.url, Access::Serve, TEST_DATABASE_TIMEOUT).await {
                Err(OpenError::InUse { .. }) if Instant::now() < end => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                opened => return opened.expect("a database"),
            }
        }
    }

    /// Starts a process on this database and directory.
    async fn start(&self) -> (Db, Arc<Clicks>) {
        let db = self.open().await;
        let start = || Clicks::start(db.clone(), self.clock.clone(), self.directory.path(), false);
        let clicks = once_free(start);
        (db, clicks)
    }

    /// What a process has without its tasks.
    fn intake(&self) -> Arc<Intake> {
        let folder = self.directory.path().join(super::FOLDER);
        Arc::new(once_free(|| Intake::open(self.clock.clone(), self.directory.path(), &folder, false)))
    }

    /// A connection of somebody else.
    async fn other(&self) -> Other {
        match self.url.strip_prefix("sqlite://") {
            Some(path) => Other::Sqlite(SqliteConnection::connect(path).await.expect("a connection")),
            None => Other::Postgres(PgConnection::connect(&self.url).await.expect("a connection")),
        }
    }

    fn segments(&self) -> Vec<PathBuf> {
        let mut files = super::segment::files(&self.directory.path().join(super::FOLDER), "clicks").expect("a folder");
        files.sort();
        files
    }

    /// Files that were set aside.
    fn set_aside(&self) -> usize {
        let entries = std::fs::read_dir(self.directory.path().join(super::FOLDER)).expect("a folder");
        entries
            .filter(|entry| {
                entry.as_ref().expect("an entry").path().extension().is_some_and(|kind| kind == "set-aside")
            })
            .count()
    }
}

/// Opens a folder once nobody holds it: a program that another test is starting has the lock until it runs.
fn once_free<T>(open: impl Fn() -> std::io::Result<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        match open() {
            Err(error) if Instant::now() < end && error.to_string().contains("in use by another process") => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.expect("the journal"),
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let Some(server) = machine::postgres() else { return };
        let name = self.url.rsplit('/').next().unwrap_or_default().to_owned();
        // Dropping the database has to be waited for, and a test's runtime cannot be, here.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let mut conn = PgConnection::connect(server.as_str()).await.expect("a connection");
                let sql = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await.expect("a dropped database");
            });
        });
        drop(dropped.join());
    }
}

enum Other {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Other {
    fn conn(&mut self) -> Conn<'_> {
        match self {
            Self::Sqlite(conn) => Conn::Sqlite(conn),
            Self::Postgres(conn) => Conn::Postgres(conn),
        }
    }

    /// Empties the log and all its counts.
    async fn forget_clicks(&mut self) {
        for table in [
            "clicks",
            "click_hours",
            "click_days",
            "click_facets",
            "click_facet_days",
            "click_countries",
            "click_country_days",
        ] {
            self.run_all(format!("DELETE FROM {table}")).await;
        }
    }

    async fn run(&mut self, sql: &'static str) {
        self.run_all(sql.to_owned()).await;
    }

    /// Runs statements of the test's own making.
    async fn run_all(&mut self, sql: String) {
        let mut conn = self.conn();
        on!(&mut conn, c => sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(c).await.map(|_| ())).expect("it runs");
    }

    /// Keeps everybody else from writing clicks.
    async fn lock(&mut self) {
        match self {
            Self::Sqlite(_) => self.run("BEGIN IMMEDIATE").await,
            Self::Postgres(_) => {
                self.run("BEGIN").await;
                self.run("LOCK TABLE click_marks IN EXCLUSIVE MODE").await;
            }
        }
    }

    async fn unlock(&mut self) {
        self.run("ROLLBACK").await;
    }

    /// Every click with its texts, by position.
    async fn stored(&mut self) -> Vec<StoredClick> {
        const SQL: &str = "
            SELECT position, link, at, kind, platform, agents.text, referers.text, agent IS NULL, referer IS NULL
            FROM clicks LEFT JOIN visitor_texts AS agents ON agents.hash = agent
                LEFT JOIN visitor_texts AS referers ON referers.hash = referer
            ORDER BY position";
        let mut conn = self.conn();
        on!(&mut conn, c => sqlx::query_as(SQL).fetch_all(c).await).expect("the clicks")
    }

    /// How many clicks are in the log, and in the counts.
    async fn counted(&mut self) -> (i64, i64) {
        const SQL: &str = "
            SELECT (SELECT COUNT(*) FROM clicks), (SELECT CAST(COALESCE(SUM(clicks), 0) AS BIGINT) FROM click_hours)";
        let mut conn = self.conn();
        on!(&mut conn, c => sqlx::query_as(SQL).fetch_one(c).await).expect("the numbers")
    }

    /// The hosts that links have, by link.
    async fn hosts(&mut self) -> Vec<(i64, String)> {
        const SQL: &str = "SELECT DISTINCT link, host FROM click_facet_days WHERE host <> '' ORDER BY link, host";
        let mut conn = self.conn();
        on!(&mut conn, c => sqlx::query_as(SQL).fetch_all(c).await).expect("the hosts")
    }

    /// The links of all clicks, in order.
    async fn links(&mut self) -> Vec<i64> {
        let mut links: Vec<_> = self.stored().await.into_iter().map(|click| click.1).collect();
        links.sort_unstable();
        links
    }
}

type StoredClick = (i64, i64, i64, i64, i64, Option<String>, Option<String>, bool, bool);

/// A click on a link of its own, so that it can be told from all others.
fn click(clicks: &Clicks, link: i64) -> Click {
    click_at(clicks.texts(), link, NOW)
}

fn click_at(texts: &super::Texts, link: i64, at: i64) -> Click {
    let agent = texts.agent(Some(format!("agent {}", link % 7).as_bytes())).text();
    let referer = (link % 3 == 0).then(|| format!("https://example.com/{}", link % 5));
    let referer = texts.referer(referer.as_deref().map(str::as_bytes));
    Click {
        link,
        at,
        kind: u8::try_from(link % 4).expect("small"),
        platform: 1,
        agent_code: 5,
        country: 77,
        agent,
        referer,
    }
}

/// Waits until all clicks of a process are counted.
async fn settled(clicks: &Clicks) {
    eventually("every click is counted", LONG, || async {
        clicks.counted().await;
        clicks.status().behind_bytes == 0 && clicks.intake.progress.borrow().counted >= clicks.intake.journal.appended()
    })
    .await;
}

fn status(clicks: &Clicks) -> Status {
    clicks.status()
}
