//! Payments for single requests whose server is killed at the worst moment.

use std::time::Duration;

use deeplink_doubles::facilitator::{ASSET, Facilitator, NETWORK, PAY_TO, Payer, Script, Signed};
use deeplink_doubles::wait::eventually;
use serde_json::json;
use sqlx::{Connection, Executor};

use crate::process::{Home, PATIENCE, Reply, Server, ask};

/// Direct access to the database.
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

    /// Waits until a payment is stored in this state.
    async fn stored(&mut self, state: &str) {
        const SQL: &str = "SELECT COUNT(*) FROM payments WHERE state = $1";
        let stored = async {
            loop {
                let found: Result<i64, _> = match self {
                    Self::Sqlite(conn) => sqlx::query_scalar(SQL).bind(state).fetch_one(conn).await,
                    Self::Postgres(conn) => sqlx::query_scalar(SQL).bind(state).fetch_one(conn).await,
                };
                if found.expect(SQL) > 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, stored).await.expect("the payment is stored");
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

/// When the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    /// The payment is stored, and its settlement was not asked for.
    BeforeTheCall,
    /// The settlement was asked for, and no money has moved.
    BeforeMoneyMoves,
    /// Money has moved, and the answer was not received.
    AfterMoneyMoved,
    /// The answer was received, and could not be stored.
    BeforeCommit,
}

impl Death {
    const ALL: [Self; 4] = [Self::BeforeTheCall, Self::BeforeMoneyMoves, Self::AfterMoneyMoved, Self::BeforeCommit];

    fn script(self) -> Script {
        match self {
            Self::BeforeTheCall => Script::VerifiedAndDeaf,
            Self::AfterMoneyMoved => Script::SettledUnheard,
            Self::BeforeMoneyMoves | Self::BeforeCommit => Script::SettleWaits,
        }
    }

    /// Waits until the time has come.
    async fn comes(self, facilitator: &Facilitator, beside: &mut Beside, moved: usize) {
        let money_moved = async || {
            eventually("money moved", PATIENCE, async || facilitator.calls().moved == moved + 1).await;
        };
        match self {
            Self::BeforeTheCall => beside.stored("settling").await,
            Self::BeforeMoneyMoves => facilitator.reached().await,
            Self::AfterMoneyMoved => money_moved().await,
            Self::BeforeCommit => {
                facilitator.reached().await;
                beside.hold("payments").await;
                facilitator.release();
                money_moved().await;
            }
        }
    }
}

/// PX8: the process is killed before the payment is settled, after that, and before what it pays for is committed.
/// After a restart a repeat gets what was paid for: one link, and money moved once, whatever the facilitator's error
/// for a used payment is.
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
    let used = ["invalid_transaction_state", "duplicate_settlement", "invalid_exact_evm_nonce_already_used"];
    for reason in used {
        facilitator.says_used(reason);
        for death in Death::ALL {
            die(home, &facilitator, &payer, death).await;
        }
    }
    let made = used.len() * Death::ALL.len() + die_before_the_effect(home, &facilitator, &payer).await;
    let mut server = home.serve();
    let (name, value) = sign(&payer).v2();
    let listed = ask(server.address, "GET", "/v1/links", &[(name, &value)], "");
    assert_eq!(listed.json()["links"].as_array().map(Vec::len), Some(made), "{listed:?}");
    let wallet = Beside::of(home).await.wallet().await;
    let plan: serde_json::Value = serde_json::from_str(&home.ok(&["tenant", "plan", &wallet, "--json"])).expect("JSON");
    assert_eq!((&plan["billing_method"], &plan["usage"]["links"]), (&json!("x402"), &json!(made)));
    assert!(server.child.try_wait().expect("its state").is_none());
}

async fn die(home: &Home, facilitator: &Facilitator, payer: &Payer, death: Death) {
    let before = facilitator.calls();
    let server = home.serve();
    let signed = sign(payer);
    facilitator.script(&signed, Some(death.script()));
    let mut beside = Beside::of(home).await;
    begin(&server, &signed);
    death.comes(facilitator, &mut beside, before.moved).await;
    // Dropped, it is killed.
    drop(server);
    drop(beside);
    facilitator.script(&signed, None);
    if death == Death::BeforeTheCall {
        assert_eq!(facilitator.calls().settle, before.settle, "no settlement was asked for");
        facilitator.come_back();
    }

    let server = home.serve();
    let early = create(server.address, &signed);
    assert_eq!((early.status, &early.json()["code"]), (409, &json!("payment_in_progress")), "{death:?}");
    Beside::of(home).await.execute("UPDATE payments SET lease_until = 0 WHERE state <> 'done'").await;
    let listed = home.ok(&["check"]);
    assert!(listed.contains(&signed.nonce()), "{listed}");
    let made = create(server.address, &signed);
    assert_eq!(made.status, 201, "{death:?}: {made:?}");
    let again = create(server.address, &signed);
    assert_eq!((again.status, again.json()), (201, made.json()), "{death:?}");
    assert_eq!(facilitator.calls().moved, before.moved + 1, "{death:?}");
    server.stop();
}

/// Once the settlement is stored, a repeat needs no further one. On SQLite the write of what was paid for cannot be
/// blocked alone. Returns how many links were made.
async fn die_before_the_effect(home: &Home, facilitator: &Facilitator, payer: &Payer) -> usize {
    if home.is_sqlite() {
        return 0;
    }
    let before = facilitator.calls();
    let server = home.serve();
    let signed = sign(payer);
    facilitator.script(&signed, Some(Script::SettleWaits));
    let [mut holder, mut beside] = [Beside::of(home).await, Beside::of(home).await];
    begin(&server, &signed);
    facilitator.reached().await;
    holder.hold("links").await;
    facilitator.release();
    beside.stored("credit").await;
    drop(server);
    drop(holder);
    let server = home.serve();
    let made = create(server.address, &signed);
    assert_eq!(made.status, 201, "{made:?}");
    assert!(made.head.to_ascii_lowercase().contains("payment-response"), "{made:?}");
    let after = facilitator.calls();
    assert_eq!((after.settle, after.moved), (before.settle + 1, before.moved + 1));
    server.stop();
    1
}
