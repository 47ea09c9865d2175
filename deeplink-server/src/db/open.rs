//! Opening the database: options, checks that refuse a dangerous set-up, migrations, and the lock of the file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, PgConnection, SqliteConnection};
use tokio::sync::Semaphore;

use super::checkpoint::BEGIN_ANEW_ABOVE_BYTES;
use super::report::{POSTGRES_REPORTS, SQLITE_REPORTS};
use super::writer::Writer;
use super::{Db, Kind, MAX_WAITING_WRITES};

pub(super) static MIGRATIONS: Migrator = sqlx::migrate!("../migrations");

/// The first SQLite without the bug that can corrupt a database when several connections reset its log.
const OLDEST_SQLITE: i32 = 3_051_003;

/// PostgreSQL's `invalid_catalog_name`.
pub(super) const NO_SUCH_DATABASE: &str = "3D000";

/// How many connections read on SQLite; each is a thread.
const READERS: u32 = 4;
/// How many connections a node has to PostgreSQL, beside the one that listens.
const POSTGRES_WRITERS: u32 = 12;
const POSTGRES_READERS: u32 = 8;
/// What a statement may take beside its waiting for locks.
const WORK: Duration = Duration::from_secs(3);
/// How long PostgreSQL may take to say that a lock was waited for in vain.
const LOCK_ANSWER: Duration = Duration::from_millis(50);

/// How long an operator's command waits for its turn on a SQLite file. Beside a busy server that is free for an instant only
/// between two batches, and nobody waits behind the command.
const OPERATORS_PATIENCE: Duration = Duration::from_mins(1);

/// How a command uses the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// As the server: alone on a SQLite file, and migrated.
    Serve,
    /// As an operator command that works beside a server; migrates a database that nobody serves.
    Beside,
}

/// Why the database was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no database that this server can use.
    #[error("DEEPLINK_DATABASE_URL must start with sqlite:// or postgres://")]
    Url,
    /// Another process serves the file.
    #[error("{path} is in use by process {holder}; stop it first, or choose another data directory")]
    InUse {
        /// The database file.
        path: PathBuf,
        /// The process that holds it.
        holder: String,
    },
    /// The set-up cannot keep what it acknowledges.
    #[error("{0}")]
    Unsafe(String),
    /// The schema does not fit this build.
    #[error("the database was made by a newer version: {0}")]
    Newer(String),
    /// A file cannot be made or read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A backup would replace a file.
    #[error("{} exists already; name a new file", .0.display())]
    Exists(PathBuf),
    /// The database answers with an error.
    #[error("the database cannot be opened: {0}")]
    Database(#[from] sqlx::Error),
    /// A migration failed; nothing of it stays.
    #[error("the database cannot be brought up to date: {0}")]
    Migration(MigrateError),
}

/// Holds the exclusive right to serve a SQLite file, until it is dropped or the process ends, however that happens.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the file is held for its lock")] File);

impl Lock {
    /// Takes the lock of a database file; the lock file holds the holder's process id.
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let path = beside(database, ".lock");
        let fail = |error| OpenError::File { path: path.clone(), error };
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(fail)?;
        if file.try_lock().is_err() {
            let mut holder = String::new();
            // The message is better with the holder, and still true without.
            drop(file.read_to_string(&mut holder));
            let holder = if holder.trim().is_empty() { "unknown".to_owned() } else { holder.trim().to_owned() };
            return Err(OpenError::InUse { path: database.to_owned(), holder });
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(fail)?;
        writeln!(file, "{}", std::process::id()).map_err(fail)?;
        Ok(Self(file))
    }
}

/// The file's name with a suffix.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

impl Db {
    /// Opens the database that `url` names (`sqlite://PATH` or `postgres://…`), makes it when it is missing, and brings
    /// its schema up to date. What waits for a connection, a lock or its turn for longer than `patience` is refused
    /// unexecuted.
    pub async fn open(url: &str, access: Access, patience: Duration) -> Result<Self, OpenError> {
        if let Some(path) = url.strip_prefix("sqlite://") {
            open_sqlite(Path::new(path), access, patience).await
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            open_postgres(url, patience).await
        } else {
            Err(OpenError::Url)
        }
    }
}

/// Makes a folder that nobody else can look into, as what is kept there is nobody else's.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
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
        .pragma("journal_size_limit", BEGIN_ANEW_ABOVE_BYTES.to_string())
        .pragma("mmap_size", "0")
        .pragma("cache_size", "-8000")
        .statement_cache_capacity(256)
        .disable_statement_logging()
}

async fn open_sqlite(path: &Path, access: Access, patience: Duration) -> Result<Db, OpenError> {
    let file = |error| OpenError::File { path: path.to_owned(), error };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder(folder).map_err(file)?;
    }
    let lock = match access {
        Access::Serve => Some(Lock::take(path)?),
        // Beside a running server its schema is the current one; alone, the command is the one that migrates.
        Access::Beside => Lock::take(path).ok(),
    };
    let options = sqlite_options(path);
    let mut conn = SqliteConnection::connect_with(&options).await?;
    check_sqlite(&mut conn).await?;
    if lock.is_some() {
        migrate_sqlite(&mut conn).await?;
    }
    conn.close().await?;
    let turn = match access {
        Access::Serve => patience,
        Access::Beside => patience.max(OPERATORS_PATIENCE),
    };
    let writer = Writer::start(options.clone(), turn).await?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .acquire_timeout(patience)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(
            options
                .read_only(true)
                .create_if_missing(false)
                .pragma("query_only", "ON")
                // A reader looks single rows up; what is asked for often is in the link cache.
                .pragma("cache_size", "-1000"),
        );
    let reports = Arc::new(Semaphore::new(SQLITE_REPORTS));
    Ok(Db(Arc::new(Kind::Sqlite { readers, reports, writer, _lock: lock })))
}

pub(super) async fn check_sqlite(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut *conn).await?;
    let number = version.split('.').filter_map(|part| part.parse::<i32>().ok()).fold(0, |all, part| all * 1000 + part);
    if number < OLDEST_SQLITE {
        return Err(OpenError::Unsafe(format!(
            "SQLite {version} can corrupt this database; 3.51.3 or later is needed"
        )));
    }
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *conn).await?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *conn).await?;
    let mmap: i64 = sqlx::query_scalar("PRAGMA mmap_size").fetch_optional(&mut *conn).await?.unwrap_or(0);
    if !journal.eq_ignore_ascii_case("wal") || synchronous != 2 || mmap != 0 {
        return Err(OpenError::Unsafe(format!(
            "SQLite refuses the safe settings here (journal_mode {journal}, synchronous {synchronous}, mmap_size {mmap}); \
             the data directory must be on a local disk"
        )));
    }
    Ok(())
}

fn migration_error(error: MigrateError) -> OpenError {
    match error {
        MigrateError::VersionMissing(version) | MigrateError::VersionTooNew(version, _) => {
            OpenError::Newer(format!("migration {version} is not known here"))
        }
        other => OpenError::Migration(other),
    }
}

async fn migrate_sqlite(conn: &mut SqliteConnection) -> Result<(), OpenError> {
    MIGRATIONS.run_direct(None, conn, false).await.map_err(migration_error)
}

async fn open_postgres(url: &str, patience: Duration) -> Result<Db, OpenError> {
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
    // Two pools, so that writes that wait for a lock never take the place of a read.
    let pool = |connections, own| postgres_pool(connections, patience, own);
    let writers = pool(POSTGRES_WRITERS, "SET synchronous_commit = on").connect_with(options.clone()).await?;
    // A write through the wrong door fails here as it does on SQLite.
    let readers = pool(POSTGRES_READERS, "SET default_transaction_read_only = on").connect_lazy_with(options);
    let waiting = Semaphore::new(MAX_WAITING_WRITES);
    let reports = Arc::new(Semaphore::new(POSTGRES_REPORTS));
    // Who waits for a lock hears so from PostgreSQL, if it comes to that.
    let patience = patience + LOCK_ANSWER;
    Ok(Db(Arc::new(Kind::Postgres { readers, reports, writers, waiting, patience, url: url.to_owned() })))
}

fn postgres_pool(connections: u32, patience: Duration, own: &'static str) -> PgPoolOptions {
    let (statement, lock) = ((patience + WORK).as_millis(), patience.as_millis());
    // The third is the last net below transactions that nobody ends.
    let settings: Arc<str> = format!(
        "SET statement_timeout = {statement}; SET lock_timeout = {lock};
         SET idle_in_transaction_session_timeout = '15s'; {own}"
    )
    .into();
    PgPoolOptions::new().max_connections(connections).acquire_timeout(patience).after_connect(move |conn, _| {
        let settings = Arc::clone(&settings);
        Box::pin(async move {
            sqlx::raw_sql(sqlx::AssertSqlSafe(settings)).execute(conn).await?;
            Ok(())
        })
    })
}

/// Makes the database with byte order as its collation, so that ids compare alike on every machine.
async fn create_postgres(options: &PgConnectOptions) -> Result<(), OpenError> {
    let name = options.get_database().unwrap_or_default().to_owned();
    let mut conn = PgConnection::connect_with(&options.clone().database("postgres")).await?;
    let quoted = name.replace('"', "\"\"");
    let sql = format!("CREATE DATABASE \"{quoted}\" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'");
    match sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut conn).await {
        Ok(_) => {}
        // duplicate_database: another node was faster.
        Err(sqlx::Error::Database(error)) if matches!(error.code().as_deref(), Some("42P04" | "23505")) => {}
        Err(error) => return Err(error.into()),
    }
    conn.close().await?;
    Ok(())
}

pub(super) async fn check_postgres(conn: &mut PgConnection) -> Result<(), OpenError> {
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut *conn).await?;
    let standby: bool = sqlx::query_scalar("SELECT pg_is_in_recovery()").fetch_one(&mut *conn).await?;
    let read_only: String = sqlx::query_scalar("SHOW default_transaction_read_only").fetch_one(&mut *conn).await?;
    let collation: String = sqlx::query_scalar("SELECT datcollate FROM pg_database WHERE datname = current_database()")
        .fetch_one(&mut *conn)
        .await?;
    if fsync != "on" {
        return Err(OpenError::Unsafe("PostgreSQL runs with fsync=off, which loses acknowledged writes".into()));
    }
    if standby || read_only == "on" {
        return Err(OpenError::Unsafe("this PostgreSQL server is read-only; connect to the primary".into()));
    }
    if !matches!(collation.as_str(), "C" | "POSIX" | "C.UTF-8" | "C.utf8") {
        return Err(OpenError::Unsafe(format!(
            "the database sorts text by {collation}; create it with TEMPLATE template0 LC_COLLATE 'C'"
        )));
    }
    Ok(())
}

/// Copies a SQLite database into a new file while a server may be using it. The copy is complete and synced when this
/// returns.
pub async fn backup(database: &Path, into: &Path) -> Result<(), OpenError> {
    let options = sqlite_options(database).create_if_missing(false);
    let mut conn = SqliteConnection::connect_with(&options).await?;
    let part = beside(into, ".part");
    let file = |error| OpenError::File { path: into.to_owned(), error };
    if into.exists() {
        return Err(OpenError::Exists(into.to_owned()));
    }
    match std::fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(file(error)),
        _ => {}
    }
    sqlx::query("VACUUM INTO $1").bind(part.to_string_lossy().into_owned()).execute(&mut conn).await?;
    conn.close().await?;
    File::open(&part).and_then(|copy| copy.sync_all()).map_err(file)?;
    std::fs::rename(&part, into).map_err(file)?;
    sync_folder(into).map_err(file)
}

/// Puts a backup in the place of a SQLite database that nobody serves; what was there stays beside it as `.replaced`.
pub async fn restore(database: &Path, from: &Path) -> Result<(), OpenError> {
    let file = |error| OpenError::File { path: from.to_owned(), error };
    if !from.is_file() {
        return Err(file(std::io::ErrorKind::NotFound.into()));
    }
    if let Some(folder) = database.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(file)?;
    }
    let _lock = Lock::take(database)?;
    let part = beside(database, ".part");
    std::fs::copy(from, &part).map_err(file)?;
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
        let old = beside(database, suffix);
        if old.exists() {
            std::fs::rename(&old, beside(database, &format!(".replaced{suffix}"))).map_err(file)?;
        }
    }
    if database.exists() {
        std::fs::rename(database, beside(database, ".replaced")).map_err(file)?;
    }
    std::fs::rename(&part, database).map_err(file)?;
    sync_folder(database).map_err(file)
}

fn sync_folder(file: &Path) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
