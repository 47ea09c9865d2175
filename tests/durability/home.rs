//! A server's home: its data directory, its database, and its one account.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use deeplink_doubles::machine;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};
use tempfile::TempDir;
use tokio::process::Command;
use url::Url;

use crate::room::Room;

const SERVER: &str = env!("CARGO_BIN_EXE_deeplink-server");

/// A data directory with a database and an account.
pub(crate) struct Home {
    dir: TempDir,
    /// The data directory; on a separate disk if there is one.
    pub(crate) data: PathBuf,
    pub(crate) database: Database,
    pub(crate) room: Option<Room>,
    /// The account's secret key.
    pub(crate) key: String,
}

/// Where the data is.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(Url),
}

impl Home {
    /// On the database that is tested.
    pub(crate) async fn new() -> Self {
        let dir = machine::directory_on_disk();
        let database = match machine::new_postgres_database("deeplink_durability") {
            Some(url) => Database::Postgres(url),
            None => Database::Sqlite(dir.path().join("data/deeplink.db")),
        };
        Self::furnish(dir, database, None).await
    }

    /// On a SQLite file, for faults that only happen to files.
    pub(crate) async fn with_file() -> Self {
        let dir = machine::directory_on_disk();
        let database = Database::Sqlite(dir.path().join("data/deeplink.db"));
        Self::furnish(dir, database, None).await
    }

    /// A SQLite file and everything else on a small disk.
    pub(crate) async fn on_small_disk(mebibytes: u32) -> Self {
        let (dir, room) = small_disk(mebibytes).await;
        let database = Database::Sqlite(dir.path().join("data/deeplink.db"));
        Self::furnish(dir, database, Some(room)).await
    }

    /// Everything but the database on a small disk.
    pub(crate) async fn beside_small_disk(mebibytes: u32) -> Self {
        let (dir, room) = small_disk(mebibytes).await;
        let database = match machine::new_postgres_database("deeplink_durability") {
            Some(url) => Database::Postgres(url),
            None => Database::Sqlite(dir.path().join("deeplink.db")),
        };
        Self::furnish(dir, database, Some(room)).await
    }

    async fn furnish(dir: TempDir, database: Database, room: Option<Room>) -> Self {
        let data = dir.path().join("data");
        let mut home = Self { dir, data, database, room, key: String::new() };
        home.key = home.account("load@example.com").await;
        home
    }

    /// Opens an account and returns its key.
    pub(crate) async fn account(&self, email: &str) -> String {
        let made = self.operator(&["tenant", "create", "--email", email, "--json"]).await;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
        made["api_key"].as_str().expect("a key").to_owned()
    }

    /// The server's binary with the settings of this home.
    pub(crate) fn command(&self) -> Command {
        let mut command = match &self.room {
            Some(room) => room.enter(SERVER),
            None => Command::new(SERVER),
        };
        self.set_up(&mut command);
        command
    }

    /// Gives a command the settings of this home.
    pub(crate) fn set_up(&self, command: &mut Command) {
        let url = match &self.database {
            Database::Sqlite(path) => format!("sqlite://{}", path.display()),
            Database::Postgres(url) => url.to_string(),
        };
        command
            .env("DEEPLINK_DATA_DIR", &self.data)
            .env("DEEPLINK_DATABASE_URL", url)
            .env("DEEPLINK_LISTEN", machine::APART)
            .env("DEEPLINK_LIMIT_MISSES", "0")
            .stdin(Stdio::null())
            .kill_on_drop(true);
    }

    /// Runs an operator's command and waits for it.
    pub(crate) async fn operator(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().await.expect("the server's program runs")
    }

    /// The server's log file.
    pub(crate) fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// A path beside the data, on an ordinary disk.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

async fn small_disk(mebibytes: u32) -> (TempDir, Room) {
    let dir = machine::directory_on_disk();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("the data directory");
    let room = Room::open(&data, mebibytes).await;
    (dir, room)
}

/// A test's database is removed with it, or with a temporary server.
impl Drop for Home {
    fn drop(&mut self) {
        let Database::Postgres(url) = &self.database else { return };
        if machine::server_is_temporary() {
            return;
        }
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", url.path().trim_start_matches('/'));
        let remove = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let server = machine::postgres().expect("the server is still named");
                let options: sqlx::postgres::PgConnectOptions = server.as_str().parse().expect("a PostgreSQL URL");
                let options = options.disable_statement_logging();
                let mut conn = PgConnection::connect_with(&options).await.expect("TEST_DATABASE_URL answers");
                sqlx::query(AssertSqlSafe(sql)).execute(&mut conn).await.expect("the database goes");
                conn.close().await.expect("the connection closes");
            });
        });
        let removed = remove.join();
        assert!(removed.is_ok() || std::thread::panicking(), "the test's database could not be removed");
    }
}
