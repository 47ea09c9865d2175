//! Direct access to a world's database: to create what has no route yet, and to look at what is stored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use deeplink_core::id::TenantId;
use deeplink_doubles::wait::PATIENCE;
use deeplink_server::config::DatabaseUrl;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row, SqliteConnection};
use tokio::sync::Mutex;

/// The database of one world, with one connection to it.
#[derive(Clone)]
pub struct Database {
    location: Location,
    conn: Arc<Mutex<Option<Conn>>>,
}

#[derive(Clone)]
enum Location {
    File(PathBuf),
    /// A database on the server that `TEST_DATABASE_URL` names.
    Postgres(String),
}

/// Every row of every table as text, by table.
pub type Dump = BTreeMap<String, Vec<String>>;

enum Conn {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

macro_rules! on {
    ($db:expr, $c:ident => $body:expr) => {{
        let mut held = $db.conn.lock().await;
        if held.is_none() {
            *held = Some($db.connect().await);
        }
        match held.as_mut().expect("it was opened") {
            Conn::Sqlite($c) => $body,
            Conn::Postgres($c) => $body,
        }
    }};
}

impl Database {
    pub(crate) fn sqlite(path: PathBuf) -> Self {
        Self::of(Location::File(path))
    }

    pub(crate) fn postgres(url: String) -> Self {
        Self::of(Location::Postgres(url))
    }

    fn of(location: Location) -> Self {
        Self { location, conn: Arc::default() }
    }

    /// The same database over a separate connection, for another runtime.
    pub(crate) fn apart(&self) -> Self {
        Self::of(self.location.clone())
    }

    /// The server settings that select it.
    pub(crate) fn url(&self) -> DatabaseUrl {
        match &self.location {
            Location::File(path) => DatabaseUrl::sqlite(path),
            Location::Postgres(url) => url.parse().expect("a PostgreSQL URL"),
        }
    }

    /// Whether it is PostgreSQL, where nodes can share it.
    pub fn is_postgres(&self) -> bool {
        self.postgres_url().is_some()
    }

    /// The URL of a PostgreSQL database.
    pub fn postgres_url(&self) -> Option<&str> {
        match &self.location {
            Location::File(_) => None,
            Location::Postgres(url) => Some(url),
        }
    }

    /// The SQLite file.
    pub fn file(&self) -> Option<&Path> {
        match &self.location {
            Location::File(path) => Some(path),
            Location::Postgres(_) => None,
        }
    }

    async fn connect(&self) -> Conn {
        match &self.location {
            Location::File(path) => {
                let options = SqliteConnectOptions::new().filename(path).foreign_keys(true).busy_timeout(PATIENCE);
                let options = options.disable_statement_logging();
                Conn::Sqlite(SqliteConnection::connect_with(&options).await.expect("the database opens"))
            }
            Location::Postgres(url) => {
                let options: PgConnectOptions = url.parse().expect("a PostgreSQL URL");
                let options = options.statement_cache_capacity(0).disable_statement_logging();
                Conn::Postgres(PgConnection::connect_with(&options).await.expect("the database opens"))
            }
        }
    }

    /// Closes the connection, for exclusive use of the database by another process.
    pub(crate) async fn leave(&self) {
        match self.conn.lock().await.take() {
            Some(Conn::Sqlite(conn)) => conn.close().await.expect("the connection closes"),
            Some(Conn::Postgres(conn)) => conn.close().await.expect("the connection closes"),
            None => {}
        }
    }

    /// Runs statements, and tells other nodes as an operator command would.
    pub async fn execute(&self, sql: impl Into<String>) {
        let sql = sql.into();
        let notify = self.is_postgres().then_some("SELECT pg_notify('deeplink', 'credentials')");
        on!(self, c => {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *c).await.expect("the statements run");
            if let Some(notify) = notify {
                sqlx::query(notify).execute(&mut *c).await.expect("the notice goes out");
            }
        });
    }

    /// Makes the database unavailable to the server: on PostgreSQL it can neither keep nor open a connection, on SQLite
    /// it cannot write.
    pub async fn take_away(&self) -> Away {
        let Some(url) = self.postgres_url() else {
            return Away::Held(self.hold_all().await);
        };
        self.leave().await;
        let name = url.rsplit('/').next().expect("a name").to_owned();
        let server = Self::postgres(format!("{}/postgres", url.trim_end_matches(&format!("/{name}"))));
        on!(server, c => {
            // Sequentially, so that nothing reconnects before the first is committed.
            for sql in [
                format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
                format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"),
            ] {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *c).await.expect("it is closed");
            }
        });
        Away::Closed { server, name }
    }

    /// Blocks writes of a tenant's data until it is dropped: the whole file on SQLite, the tenant's row on PostgreSQL.
    pub async fn hold(&self, tenant: &TenantId) -> Held {
        if !self.is_postgres() {
            return self.hold_all().await;
        }
        let apart = self.apart();
        on!(apart, c => {
            let sql = format!("BEGIN; UPDATE tenants SET plan_tier = plan_tier WHERE id = '{tenant}'");
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *c).await.expect("the row is held");
        });
        Held(apart)
    }

    async fn hold_all(&self) -> Held {
        let apart = self.apart();
        on!(apart, c => drop(sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *c).await.expect("the file is held")));
        Held(apart)
    }

    /// The single number that a query returns.
    pub async fn number(&self, sql: impl Into<String>) -> i64 {
        let sql = sql.into();
        on!(self, c => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *c).await.expect("a number"))
    }

    /// The first column of each row, as text.
    pub async fn texts(&self, sql: impl Into<String>) -> Vec<String> {
        let sql = sql.into();
        on!(self, c => sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut *c).await.expect("texts"))
    }

    /// The stored clicks of each kind, except those of links that lead to one URL.
    pub(crate) async fn clicks_but_of(&self, web_url: &str) -> Vec<(i64, i64)> {
        let sql = format!(
            "SELECT kind, CAST(count(*) AS BIGINT) FROM clicks
             WHERE link NOT IN (SELECT position FROM links WHERE web_url = '{web_url}') GROUP BY kind ORDER BY kind"
        );
        on!(self, c => {
            let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *c).await.expect("click counts");
            rows.iter().map(|row| (row.get(0), row.get(1))).collect()
        })
    }

    /// Every table and row, except when keys were last used: that is stored after the replies.
    pub async fn dump(&self) -> Dump {
        // Tests compare many dumps, so all tables are read by one query.
        let tables = match self.location {
            Location::Postgres(_) => {
                "SELECT tablename::text, format('SELECT %1$L, (to_jsonb(t) - ''last_used_at'')::text FROM %1$I t', tablename)
                 FROM pg_tables WHERE schemaname = 'public'"
            }
            Location::File(_) => {
                "SELECT t.name, format('SELECT ''%s'', %s FROM %s', t.name, group_concat(
                    format('quote(%s)', c.name), ' || '','' || '), t.name)
                 FROM sqlite_master t, pragma_table_info(t.name) c
                 WHERE t.type = 'table' AND substr(t.name, 1, 7) <> 'sqlite_' AND c.name <> 'last_used_at'
                 GROUP BY t.name"
            }
        };
        let tables = self.pairs(tables.to_owned()).await;
        let queries: Vec<_> = tables.iter().map(|(_, query)| query.as_str()).collect();
        let rows = self.pairs(queries.join(" UNION ALL ")).await;
        let mut dump: Dump = tables.into_iter().map(|(table, _)| (table, Vec::new())).collect();
        for (table, row) in rows {
            dump.entry(table).or_default().push(row);
        }
        for rows in dump.values_mut() {
            rows.sort();
        }
        dump
    }

    async fn pairs(&self, sql: String) -> Vec<(String, String)> {
        on!(self, c => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut *c).await.expect("pairs of texts"))
    }

    /// Every table and row except the click log and its counts, which visits write to.
    pub async fn dump_without_clicks(&self) -> Dump {
        let mut dump = self.dump().await;
        dump.retain(|table, _| {
            !table.starts_with("click") && !["visitor_texts", "account_links"].contains(&table.as_str())
        });
        dump
    }
}

/// A transaction that blocks others.
pub struct Held(Database);

impl Held {
    /// Ends it.
    pub async fn let_go(self) {
        on!(self.0, c => drop(sqlx::raw_sql("ROLLBACK").execute(&mut *c).await.expect("it ends")));
    }
}

/// A database that its server cannot reach.
pub enum Away {
    /// A SQLite file that another process writes to.
    Held(Held),
    /// A PostgreSQL database that accepts no connections.
    Closed {
        /// A database beside it, on the same server.
        server: Database,
        /// What it is called.
        name: String,
    },
}

impl Away {
    /// Gives it back.
    pub async fn give_back(self) {
        match self {
            Self::Held(held) => held.let_go().await,
            Self::Closed { server, name } => {
                let sql = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true");
                on!(server, c => drop(sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *c).await.expect("it is open")));
            }
        }
    }
}
