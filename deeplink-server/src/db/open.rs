//! Opening the database: options, checks that refuse unsafe configurations, migrations, and the lock file.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};
use tokio::sync::Semaphore;

use super::checkpoint::RESTART_ABOVE_BYTES;
use super::readers::Readers;
use super::report::{POSTGRES_REPORTS, SQLITE_REPORTS};
use super::writer::Writer;
use super::{Db, Kind};
use crate::private;
use crate::shares::limit::ShareLimit;

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// The first SQLite version without the bug that can corrupt a database when several connections reset the WAL.
const MIN_SQLITE_VERSION: i32 = 3_051_003;

/// PostgreSQL's `invalid_catalog_name`.
pub(super) const NO_SUCH_DATABASE: &str = "3D000";

/// Read connections on SQLite; each is a thread.
const SQLITE_READERS: u32 = 4;
/// Read connections for visits and credentials alone, besides the others.
const SQLITE_LOOKUPS: u32 = 2;
/// A node's connections to PostgreSQL, besides the one for notifications.
const POSTGRES_WRITERS: u32 = 12;
/// How many of them one share can use.
const POSTGRES_WRITERS_PER_SHARE: usize = 4;
const POSTGRES_READERS: u32 = 8;
const POSTGRES_LOOKUPS: u32 = 4;
/// How long a statement may take, not counting its wait for locks.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection without an answer for this many times the timeout is considered lost: half a minute by default.
const ANSWER_TIMEOUTS: u32 = 15;
/// How much later than `lock_timeout` PostgreSQL may report it.
const LOCK_TIMEOUT_MARGIN: Duration = Duration::from_millis(50);

/// How long an operator command waits for the write lock of a SQLite file. A busy server releases it only briefly between
/// batches.
const OPERATOR_TIMEOUT: Duration = Duration::from_mins(1);

/// How a command uses the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// As the server: exclusively on a SQLite file, and migrated.
    Serve,
    /// As an operator command that can run alongside a server; migrates the database if no server uses it.
    Shared,
}

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL has an unsupported scheme.
    #[error("DEEPLINK_DATABASE_URL must start with sqlite:// or postgres://")]
    Url,
    /// The command needs a database that is there already.
    #[error("no database at {}; set --data-dir or DEEPLINK_DATABASE_URL", .0.display())]
    Missing(PathBuf),
    /// Another process serves the file.
    #[error("{path} is in use by process {holder}; stop that process or use another data directory")]
    InUse {
        /// The database file.
        path: PathBuf,
        /// The process that holds the lock.
        holder: String,
    },
    /// The database or its configuration cannot guarantee durability or integrity.
    #[error("{0}")]
    Unsafe(String),
    /// The schema is newer than this build.
    #[error("the database was created or migrated by a newer version of this server: {0}")]
    Newer(String),
    /// An I/O error.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        error: std::io::Error,
    },
    /// A backup would overwrite a file.
    #[error("{} already exists; choose a new file", .0.display())]
    Exists(PathBuf),
    /// A database error.
    #[error("the database cannot be opened: {0}")]
    Database(#[from] sqlx::Error),
    /// A migration failed and was rolled back.
    #[error("the database cannot be migrated: {0}")]
    Migration(MigrateError),
}

/// The exclusive lock of a server on a SQLite file; released when dropped, and by the system when the process ends.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the open file holds the lock")] File);

impl Lock {
    /// Locks a database file; the lock file contains the holder's process ID.
    pub(super) fn acquire(database: &Path) -> Result<Self, OpenError> {
        let path = with_suffix(database, ".lock");
        let fail = |error| OpenError::File { path: path.clone(), error };
        // Anyone who can open the file can lock it, and then the server does not start.
        let mut file =
            private::options().create(true).truncate(false).read(true).write(true).open(&path).map_err(fail)?;
        if file.try_lock().is_err() {
            let mut holder = String::new();
            // The holder is optional in the message.
            drop(file.read_to_string(&mut holder));
            let holder = if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() };
            return Err(OpenError::InUse { path: database.to_owned(), holder });
        }
        private::close_to_others(&file).map_err(fail)?;
        file.set_len(0).and_then(|()| file.rewind()).map_err(fail)?;
        writeln!(file, "{}", std::process::id()).map_err(fail)?;
        Ok(Self(file))
    }
}

/// The path with a suffix appended to the file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

impl Db {
    /// Opens the database at `url` (`sqlite://PATH` or `postgres://…`), creating it if it is missing, and migrates it. An
    /// operation that waits longer than `timeout` for a connection, a lock or the writer is refused without being run.
    pub async fn open(url: &str, access: Access, timeout: Duration) -> Result<Self, OpenError> {
        if let Some(path) = url.strip_prefix("sqlite://") {
            open_sqlite(Path::new(path), access, timeout).await
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            open_postgres(url, timeout).await
        } else {
            Err(OpenError::Url)
        }
    }
}

pub(super) fn sqlite_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // FULL, because NORMAL loses acknowledged commits at a power failure.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5))
        .pragma("wal_autocheckpoint", "0")
        .pragma("journal_size_limit", RESTART_ABOVE_BYTES.to_string())
        .pragma("mmap_size", "0")
        .pragma("cache_size", "-8000")
        .statement_cache_capacity(256)
        .disable_statement_logging()
}

async fn open_sqlite(path: &Path, access: Access, timeout: Duration) -> Result<Db, OpenError> {
    let file = |error| OpenError::File { path: path.to_owned(), error };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        private::create_dir(dir).map_err(file)?;
    }
    let lock = match access {
        Access::Serve => Some(Lock::acquire(path)?),
        // A running server has migrated the file already; without one, the command does.
        Access::Shared => Lock::acquire(path).ok(),
    };
    // SQLite takes an empty file as a new database, and gives its log the same mode.
    private::create_if_missing(path).map_err(file)?;
    let options = sqlite_options(path);
    let mut conn = SqliteConnection::connect_with(&options).await?;
    check_sqlite(&mut conn).await?;
    if lock.is_some() {
        migrate_sqlite(&mut conn).await?;
    }
    conn.close().await?;
    let write_timeout = match access {
        Access::Serve => timeout,
        Access::Shared => timeout.max(OPERATOR_TIMEOUT),
    };
    let writer = Writer::start(options.clone(), write_timeout).await?;
    let options = options
        .read_only(true)
        .create_if_missing(false)
        .pragma("query_only", "ON")
        // Readers look up single rows; frequent ones are in the link cache.
        .pragma("cache_size", "-1000");
    let pool = |connections| {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .min_connections(0)
            .acquire_timeout(timeout)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(options.clone())
    };
    let [readers, lookups] = [SQLITE_READERS, SQLITE_LOOKUPS].map(|connections| Readers::new(pool(connections)));
    let reports = Arc::new(Semaphore::new(SQLITE_REPORTS));
    Ok(Db::new(Kind::Sqlite { readers, lookups, reports, writer, _lock: lock }))
}

pub(super) async fn check_sqlite(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut *conn).await?;
    let number = version.split('.').filter_map(|part| part.parse::<i32>().ok()).fold(0, |all, part| all * 1000 + part);
    if number < MIN_SQLITE_VERSION {
        return Err(OpenError::Unsafe(format!(
            "SQLite {version} can corrupt this database; version 3.51.3 or later is required"
        )));
    }
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *conn).await?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *conn).await?;
    let mmap: i64 = sqlx::query_scalar("PRAGMA mmap_size").fetch_optional(&mut *conn).await?.unwrap_or(0);
    if !journal.eq_ignore_ascii_case("wal") || synchronous != 2 || mmap != 0 {
        return Err(OpenError::Unsafe(format!(
            "SQLite does not accept the required settings (journal_mode {journal}, synchronous {synchronous}, mmap_size {mmap}); \
             the data directory must be on a local disk"
        )));
    }
    Ok(())
}

fn migration_error(error: MigrateError) -> OpenError {
    match error {
        MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) => {
            OpenError::Newer(format!("migration {version} is unknown to this version"))
        }
        other => OpenError::Migration(other),
    }
}

async fn migrate_sqlite(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    MIGRATIONS.run_direct(None, conn, false).await.map_err(migration_error)
}

async fn open_postgres(url: &str, timeout: Duration) -> Result<Db, OpenError> {
    let options: PgConnectOptions = url.parse::<PgConnectOptions>()?.disable_statement_logging();
    let mut conn = match PgConnection::connect_with(&options).await {
        Ok(conn) => conn,
        Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(NO_SUCH_DATABASE) => {
            create_postgres(&options).await?;
            PgConnection::connect_with(&options).await?
        }
        Err(error) => return Err(error.into()),
    };
    check_postgres(&mut conn).await?;
    // Takes PostgreSQL's advisory lock, so that several nodes can start together.
    MIGRATIONS.run_direct(None, &mut conn, false).await.map_err(migration_error)?;
    conn.close().await?;
    // Three pools, so that writes waiting for a lock never block reads, and no read blocks visits and credentials.
    let pool = |connections, setting| postgres_pool(connections, timeout, setting);
    let writers = pool(POSTGRES_WRITERS, "SET synchronous_commit = on").connect_with(options.clone()).await?;
    // Makes a write outside `Db::write` fail, as on SQLite.
    const READ_ONLY: &str = "SET default_transaction_read_only = on";
    let [readers, lookups] = [POSTGRES_READERS, POSTGRES_LOOKUPS]
        .map(|connections| Readers::new(pool(connections, READ_ONLY).connect_lazy_with(options.clone())));
    let places = ShareLimit::with_reserve(
        POSTGRES_WRITERS as usize,
        POSTGRES_WRITERS_PER_SHARE,
        POSTGRES_WRITERS_PER_SHARE,
        POSTGRES_WRITERS_PER_SHARE,
    );
    let reports = Arc::new(Semaphore::new(POSTGRES_REPORTS));
    // Longer, so that PostgreSQL reports a lock timeout first.
    let timeout = timeout + LOCK_TIMEOUT_MARGIN;
    let (commit_timeout, answer_timeout, url) = (timeout, timeout * ANSWER_TIMEOUTS, url.to_owned());
    let kind = Kind::Postgres { readers, lookups, reports, writers, places, commit_timeout, answer_timeout, url };
    Ok(Db::new(kind))
}

fn postgres_pool(connections: u32, timeout: Duration, setting: &'static str) -> PgPoolOptions {
    let (statement, lock) = ((timeout + STATEMENT_TIMEOUT).as_millis(), timeout.as_millis());
    // The third is a safeguard against abandoned transactions.
    let settings: Arc<str> = format!(
        "SET statement_timeout = {statement}; SET lock_timeout = {lock};
         SET idle_in_transaction_session_timeout = '15s'; {setting}"
    )
    .into();
    PgPoolOptions::new().max_connections(connections).acquire_timeout(timeout).after_connect(move |conn, _| {
        let settings = Arc::clone(&settings);
        Box::pin(async move {
            sqlx::raw_sql(sqlx::AssertSqlSafe(settings)).execute(conn).await?;
            Ok(())
        })
    })
}

/// Creates the database with byte order as its collation, so that ids sort the same on every machine.
async fn create_postgres(options: &PgConnectOptions) -> Result<(), OpenError> {
    let name = options.get_database().unwrap_or_default().to_owned();
    let mut conn = PgConnection::connect_with(&options.clone().database("postgres")).await?;
    let quoted = name.replace('"', "\"\"");
    let sql = format!("CREATE DATABASE \"{quoted}\" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'");
    match sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await {
        Ok(_) => {}
        // duplicate_database: another node created it first.
        Err(sqlx::Error::Database(error)) if matches!(error.code().as_deref(), Some("42P04" | "23505")) => {}
        Err(error) => return Err(error.into()),
    }
    conn.close().await?;
    Ok(())
}

pub(super) async fn check_postgres(conn: &mut PgConnection) -> Result<(), OpenError> {
    // As JSON, because PostgreSQL 14 has no column for the provider.
    const COLLATION_POSTGRES: &str = "
        SELECT to_jsonb(d) ->> 'datlocprovider', d.datcollate FROM pg_database d WHERE d.datname = current_database()";
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut *conn).await?;
    let standby: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(&mut *conn).await?;
    let read_only: String = sqlx::query_scalar("SHOW default_transaction_read_only").fetch_one(&mut *conn).await?;
    let (provider, collation): (Option<String>, String) =
        sqlx::query_as(COLLATION_POSTGRES).fetch_one(&mut *conn).await?;
    if fsync != "on" {
        return Err(OpenError::Unsafe(
            "PostgreSQL is running with fsync=off, which can lose acknowledged writes".into(),
        ));
    }
    if standby || read_only == "on" {
        return Err(OpenError::Unsafe("this PostgreSQL server is read-only; connect to the primary".into()));
    }
    // With ICU, the database's collation does not determine the order of texts.
    if provider.as_deref() == Some("i") {
        return Err(OpenError::Unsafe(
            "the database sorts with ICU; create it with TEMPLATE template0 LOCALE_PROVIDER libc LC_COLLATE 'C'".into(),
        ));
    }
    if !matches!(collation.as_str(), "C" | "POSIX" | "C.UTF-8" | "C.utf8") {
        return Err(OpenError::Unsafe(format!(
            "the database has collation {collation}; create it with TEMPLATE template0 LC_COLLATE 'C'"
        )));
    }
    Ok(())
}

/// Backs up a SQLite database to a new file, also while a server is using it. The file is complete and synced on return.
pub async fn backup(database: &Path, into: &Path) -> Result<(), OpenError> {
    if !database.exists() {
        return Err(OpenError::Missing(database.to_owned()));
    }
    let options = sqlite_options(database).create_if_missing(false);
    let mut conn = SqliteConnection::connect_with(&options).await?;
    let part = with_suffix(into, ".part");
    let file = |error| OpenError::File { path: into.to_owned(), error };
    if into.exists() {
        return Err(OpenError::Exists(into.to_owned()));
    }
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(file(error)),
        _ => {}
    }
    // SQLite writes into an empty file, which keeps its mode.
    private::create_new(&part).map_err(file)?;
    sqlx::query("VACUUM INTO $1").bind(part.to_string_lossy().into_owned()).execute(&mut conn).await?;
    conn.close().await?;
    File::open(&part).and_then(|copy| copy.sync_all()).map_err(file)?;
    std::fs::rename(&part, into).map_err(file)?;
    sync_parent_dir(into).map_err(file)
}

/// Replaces a SQLite database that no server is using with a backup. The old file is renamed to `*.replaced`.
pub async fn restore(database: &Path, from: &Path) -> Result<(), OpenError> {
    let file = |error| OpenError::File { path: from.to_owned(), error };
    if !from.is_file() {
        return Err(file(std::io::ErrorKind::NotFound.into()));
    }
    if let Some(dir) = database.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        private::create_dir(dir).map_err(file)?;
    }
    let _lock = Lock::acquire(database)?;
    let part = with_suffix(database, ".part");
    copy(from, &part).map_err(file)?;
    let mut conn = SqliteConnection::connect_with(&sqlite_options(&part)).await?;
    let verdict: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(&mut conn).await?;
    if verdict != "ok" {
        return Err(OpenError::Unsafe(format!("{} is damaged: {verdict}", from.display())));
    }
    migrate_sqlite(&mut conn).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut conn).await?;
    conn.close().await?;
    File::open(&part).and_then(|copy| copy.sync_all()).map_err(file)?;
    for suffix in ["-wal", "-shm"] {
        let old = with_suffix(database, suffix);
        if old.exists() {
            std::fs::rename(&old, with_suffix(database, &format!(".replaced{suffix}"))).map_err(file)?;
        }
    }
    if database.exists() {
        std::fs::rename(database, with_suffix(database, ".replaced")).map_err(file)?;
    }
    std::fs::rename(&part, database).map_err(file)?;
    sync_parent_dir(database).map_err(file)
}

/// Copies a file's bytes to a new file, or over what an interrupted copy left. `std::fs::copy` would copy the mode too.
fn copy(from: &Path, into: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(into) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::io::copy(&mut File::open(from)?, &mut private::create_new(into)?).map(drop)
}

fn sync_parent_dir(file: &Path) -> std::io::Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}
