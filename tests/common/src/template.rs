//! The database that each world starts with: migrated, with two tenants, their keys and their affiliates.
//!
//! It is made once per schema and kept: a file in the target directory, a database on the PostgreSQL server. Keys come
//! from a fixed seed, so that a kept one can be used by a later process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::id::{AffiliateId, SecretKeyId, TenantId, UserId};
use deeplink_core::secret::{Random, SecretKey, sha256_hex};
use deeplink_core::time::Timestamp;
use deeplink_server::config::Config;
use deeplink_server::db::{Access, Db};
use deeplink_server::vault::{MasterKey, Vault};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use super::database::Database;
use deeplink_doubles::machine;

/// When every world begins: 2026-11-20T09:30:00Z.
pub(crate) const BEGIN: i64 = 1_795_167_000_000;

/// An account.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) tenant: TenantId,
    pub(crate) key: SecretKey,
    pub(crate) affiliates: Vec<(AffiliateId, SecretKey)>,
}

/// What every world starts with.
#[derive(Debug, Clone)]
pub(crate) struct Seeds {
    pub(crate) a: Account,
    pub(crate) b: Account,
    /// The master key, in base64.
    pub(crate) master: String,
    sql: String,
}

impl Seeds {
    pub(crate) fn new() -> Self {
        let mut random = Random::seeded(20_261_120);
        let mut sql = String::new();
        let a = account(&mut random, &mut sql, "a", 2);
        let b = account(&mut random, &mut sql, "b", 1);
        Self { a, b, master: STANDARD.encode(random.bytes::<32>()), sql }
    }

    /// The master key.
    pub(crate) fn master_key(&self) -> MasterKey {
        self.master.parse().expect("a master key")
    }

    /// Says which schema and seeds a template was made from.
    fn fingerprint(&self) -> String {
        let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
        let mut files: Vec<_> = std::fs::read_dir(migrations)
            .expect("the migrations")
            .map(|entry| entry.expect("a migration").path())
            .collect();
        files.sort();
        let texts: String = files.iter().map(|file| std::fs::read_to_string(file).expect("a migration")).collect();
        sha256_hex(&format!("{texts}{}", self.sql))[..16].to_owned()
    }
}

fn account(random: &mut Random, sql: &mut String, name: &str, affiliates: usize) -> Account {
    let at = Timestamp::from_millis(BEGIN).plus_days(-1);
    let (tenant, user, key) = (TenantId::new(at, random), UserId::new(at, random), SecretKey::generate(random));
    let millis = at.as_millis();
    let mut keys = vec![("NULL".to_owned(), SecretKeyId::new(at, random), key.clone())];
    let mut statements = vec![
        // An even number below those that a migration or a test gives.
        format!(
            "INSERT INTO tenants (id, created_at, account)
             SELECT '{tenant}', {millis}, -2000000 - 2 * COUNT(*) FROM tenants"
        ),
        format!(
            "INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at)
             VALUES ('{user}', '{tenant}', '{name}@example.com', TRUE, TRUE, {millis})"
        ),
    ];
    let mut partners = Vec::new();
    for number in 1..=affiliates {
        let (id, key) = (AffiliateId::new(at, random), SecretKey::generate(random));
        statements.push(format!(
            "INSERT INTO affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)
             VALUES ('{id}', '{tenant}', 'Partner', 'partner-{number}', 'active', {millis}, {millis})"
        ));
        keys.push((format!("'{id}'"), SecretKeyId::new(at, random), key.clone()));
        partners.push((id, key));
    }
    for (affiliate, id, key) in keys {
        let (hash, prefix) = (key.hash(), key.shown_prefix());
        statements.push(format!(
            "INSERT INTO secret_keys (id, tenant_id, affiliate_id, key_hash, key_prefix, created_by, created_at)
             VALUES ('{id}', '{tenant}', {affiliate}, '{hash}', '{prefix}', '{user}', {millis})"
        ));
    }
    for statement in statements {
        sql.push_str(&statement);
        sql.push_str(";\n");
    }
    Account { tenant, key, affiliates: partners }
}

static TEMPLATE: OnceCell<Template> = OnceCell::const_new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

enum Template {
    File(PathBuf),
    Postgres { server: Url, name: String },
}

/// A new database that holds the seeds; `home` is the directory of the world.
pub(crate) async fn fresh(seeds: &Seeds, home: &Path) -> Database {
    let template = TEMPLATE
        .get_or_init(|| async {
            match machine::postgres() {
                Some(server) => postgres_template(seeds, server).await,
                None => file_template(seeds).await,
            }
        })
        .await;
    match template {
        Template::File(file) => {
            let path = home.join("deeplink.db");
            std::fs::copy(file, &path).expect("the template is copied");
            Database::sqlite(path)
        }
        Template::Postgres { server, name: template } => {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("deeplink_test_{}_{number}", std::process::id());
            let mut conn = connect(server).await;
            run(&mut conn, format!("DROP DATABASE IF EXISTS {name}")).await;
            run(&mut conn, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
            conn.close().await.expect("the connection closes");
            Database::postgres(named(server, &name))
        }
    }
}

/// Removes a world's database from its server. Not on the caller's runtime, and on a temporary server without waiting:
/// PostgreSQL waits for connections that are being opened, and the caller's runtime, which opens them, is blocked.
pub(crate) fn remove(database: &Database) {
    let Some(url) = database.postgres_url() else { return };
    let name = Url::parse(url).expect("a URL").path().trim_start_matches('/').to_owned();
    let removing = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(drop_database(&name));
    });
    if !machine::server_is_temporary() {
        removing.join().expect("the database is removed");
    }
}

async fn drop_database(name: &str) {
    /// Concurrent drops wait for each other inside PostgreSQL, sometimes for minutes.
    static ONE: Mutex<()> = Mutex::const_new(());
    let _alone = ONE.lock().await;
    let mut conn = connect(&machine::postgres().expect("the server is still named")).await;
    run(&mut conn, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
    conn.close().await.expect("the connection closes");
}

async fn file_template(seeds: &Seeds) -> Template {
    let home = &machine::target_tmp();
    let file = home.join(format!("template-{}.db", seeds.fingerprint()));
    if !file.exists() {
        let making = tempfile::tempdir_in(home).expect("a directory");
        let path = making.path().join("deeplink.db");
        fill(seeds, Database::sqlite(path.clone()), making.path()).await;
        // Another process may have been faster; both made the same.
        std::fs::rename(path, &file).expect("the template is renamed");
    }
    Template::File(file)
}

async fn postgres_template(seeds: &Seeds, server: Url) -> Template {
    let name = format!("deeplink_template_{}", seeds.fingerprint());
    let mut conn = connect(&server).await;
    run(&mut conn, "SELECT pg_advisory_lock(20261120)".into()).await;
    let known: Vec<String> =
        sqlx::query_scalar("SELECT datname::text FROM pg_database").fetch_all(&mut conn).await.expect("the databases");
    if !known.contains(&name) {
        let making = format!("{name}_making");
        run(&mut conn, format!("DROP DATABASE IF EXISTS {making} WITH (FORCE)")).await;
        let home = machine::directory();
        fill(seeds, Database::postgres(named(&server, &making)), home.path()).await;
        run(&mut conn, format!("ALTER DATABASE {making} RENAME TO {name}")).await;
    }
    conn.close().await.expect("the connection closes");
    Template::Postgres { server, name }
}

/// Migrates an empty database, seals its check value and stores the seeds.
async fn fill(seeds: &Seeds, database: Database, home: &Path) {
    let mut config = Config::for_tests(home);
    config.database = database.url();
    config.master_keys = vec![seeds.master_key()];
    let db =
        Db::open(config.database.as_str(), Access::Serve, config.database_timeout).await.expect("the database opens");
    let public_url = Url::parse("http://localhost").expect("a URL");
    Vault::unlock(&config, &db, &public_url).await.expect("the keys fit");
    db.close().await;
    database.execute(seeds.sql.clone()).await;
    if database.file().is_some() {
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
    }
    database.leave().await;
}

fn named(server: &Url, database: &str) -> String {
    let mut url = server.clone();
    url.set_path(database);
    url.into()
}

async fn connect(server: &Url) -> PgConnection {
    let options: sqlx::postgres::PgConnectOptions = server.as_str().parse().expect("a PostgreSQL URL");
    PgConnection::connect_with(&options.disable_statement_logging()).await.expect("TEST_DATABASE_URL answers")
}

async fn run(conn: &mut PgConnection, sql: String) {
    sqlx::query(AssertSqlSafe(sql.clone())).execute(conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}
