//! Payments for single requests whose process is killed at the worst moment.

use deeplink_doubles::facilitator::{ASSET, Facilitator, NETWORK, PAY_TO, Payer, Script, Signed};
use deeplink_doubles::wait::eventually;
use serde_json::json;
use sqlx::{Connection, Executor};

use crate::process::{Home, PATIENCE, Reply, Server, ask};

/// The database, seen from beside the server.
pub(crate) enum Beside {
    Sqlite(sqlx::SqliteConnection),
    Postgres(sqlx::PgConnection),
}

impl Beside {
    pub(crate) async fn of(home: &Home) -> Self {
        match home.variable("DEEPLINK_DATABASE_URL") {
            Some(url) => Self::Postgres(sqlx::PgConnection::connect(url).await.expect("a connection")),
            None => {
                let url = format!("sqlite://{}", home.data("deeplink.db").display());
                Self::Sqlite(sqlx::SqliteConnection::connect(&url).await.expect("a connection"))
            }
        }
    }

    async fn execute(&mut self, sql: impl Into<String>) {
        let sql = sqlx::AssertSqlSafe(sql.into());
        match self {
            Self::Sqlite(conn) => conn.execute(sql).await.map(drop),
            Self::Postgres(conn) => conn.execute(sql).await.map(drop),
        }
        .expect("the statement runs");
    }

    /// The account of the one wallet.
    async fn wallet(&mut self) -> String {
        const SQL: &str = "SELECT tenant_id FROM wallets";
        match self {
            Self::Sqlite(conn) => sqlx::query_scalar(SQL).fetch_one(conn).await,
            Self::Postgres(conn) => sqlx::query_scalar(SQL).fetch_one(conn).await,
        }
        .expect(SQL)
    }

    /// Holds every write of a table up until the connection ends.
    pub(crate) async fn hold(&mut self, table: &'static str) {
        match self {
            Self::Sqlite(_) => self.execute("BEGIN IMMEDIATE").await,
            Self::Postgres(_) => {
                self.execute("BEGIN").await;
                let lock = format!("LOCK TABLE {table} IN EXCLUSIVE MODE");
                self.execute(lock).await;
            }
        }
    }
}

fn now_secs() -> i64 {
    let now = std::process::Command::new("date").arg("+%s").output().expect("a clock").stdout;
    String::from_utf8(now).expect("digits").trim().parse().expect("seconds")
}

fn sign(payer: &Payer) -> Signed {
    let accepted = json!({
        "scheme": "exact", "network": NETWORK, "amount": "10000", "asset": ASSET, "payTo": PAY_TO,
        "maxTimeoutSeconds": 600, "extra": {"name": "USDC", "version": "2"},
    });
    payer.sign(&accepted, now_secs())
}

fn create(address: std::net::SocketAddr, signed: &Signed) -> Reply {
    let (name, value) = signed.v2();
    ask(address, "POST", "/v1/links", &[("Content-Type", "application/json"), (name, &value)], "{}")
}

/// Sends a request that will not be answered, because the server is killed.
fn begin(server: &Server, signed: &Signed) {
    let (address, signed) = (server.address, signed.clone());
    std::thread::spawn(move || std::panic::catch_unwind(|| create(address, &signed)));
}

/// PX8: the process is killed before the payment is settled, after that, and before what it is for is committed. After a
/// restart a repeat gets what was paid for: one link, and money moved once.
#[test]
fn px8_killed_while_it_is_paid_for_a_request_is_done_once() {
    let mut home = Home::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(killed(&mut home));
}

async fn killed(home: &mut Home) {
    let facilitator = Facilitator::start().await;
    for (name, value) in [
        ("FACILITATOR_URL", facilitator.base().to_string()),
        ("PAY_TO", PAY_TO.to_owned()),
        ("NETWORK", "base-sepolia".to_owned()),
        ("PRICE", "10000".to_owned()),
    ] {
        home.set(&format!("DEEPLINK_X402_{name}"), value);
    }
    let payer = Payer::new("alice");
    for script in [Script::SettleWaits, Script::SettledUnheard, Script::SettleWaits] {
        let is_held = facilitator.calls().moved > 0 && script == Script::SettleWaits;
        let moved = facilitator.calls().moved;
        let server = home.serve();
        let signed = sign(&payer);
        facilitator.script(&signed, Some(script));
        begin(&server, &signed);
        if script == Script::SettleWaits {
            facilitator.reached().await;
        }
        let mut beside = Beside::of(home).await;
        if is_held {
            beside.hold("payments").await;
            facilitator.release();
        }
        if is_held || script == Script::SettledUnheard {
            eventually("money moved", PATIENCE, async || facilitator.calls().moved == moved + 1).await;
        }
        // Dropped, it is killed.
        drop(server);
        drop(beside);
        facilitator.script(&signed, None);

        let server = home.serve();
        assert_eq!(create(server.address, &signed).status, 409, "somebody may be settling it");
        Beside::of(home).await.execute("UPDATE payments SET lease_until = 0 WHERE state <> 'done'").await;
        let listed = home.ok(&["check"]);
        assert!(listed.contains(&signed.nonce()), "{listed}");
        let made = create(server.address, &signed);
        assert_eq!(made.status, 201, "{script:?}: {made:?}");
        let again = create(server.address, &signed);
        assert_eq!((again.status, again.json()), (201, made.json()), "{script:?}");
        assert_eq!(facilitator.calls().moved, moved + 1, "{script:?}");
        server.stop();
    }
    let mut server = home.serve();
    let (name, value) = sign(&payer).v2();
    let listed = ask(server.address, "GET", "/v1/links", &[(name, &value)], "");
    assert_eq!(listed.json()["links"].as_array().map(Vec::len), Some(3), "{listed:?}");
    let wallet = Beside::of(home).await.wallet().await;
    let plan: serde_json::Value = serde_json::from_str(&home.ok(&["tenant", "plan", &wallet, "--json"])).expect("JSON");
    assert_eq!((&plan["billing_method"], &plan["usage"]["links"]), (&json!("x402"), &json!(3)));
    assert!(server.child.try_wait().expect("its state").is_none());
}
