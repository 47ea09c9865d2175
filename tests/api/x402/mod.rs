//! Paying for single requests, with a scripted facilitator.

mod failures;
mod header;
mod keeping;
mod operations;
mod paying;
mod refusals;
mod repeats;

use std::time::Duration;

use deeplink_server::config::{Config, X402};
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::facilitator::{ASSET, Calls, Facilitator, NETWORK, PAY_TO, Payer, Script, Signed, decoded};
use deeplink_testing::{Ask, Reply, World, eventually, spawn_nodes_with, wire};

/// The price of every operation.
const PRICE: &str = "10000";

/// A world in which requests can be paid for.
struct Scene {
    world: World,
    facilitator: Facilitator,
}

async fn scene() -> Scene {
    scene_with(|_| {}).await
}

async fn scene_with(adjust: impl Fn(&mut Config)) -> Scene {
    scene_of(1, adjust).await
}

async fn scene_of(nodes: usize, adjust: impl Fn(&mut Config)) -> Scene {
    let facilitator = Facilitator::start().await;
    let world = spawn_nodes_with(nodes, |config| {
        config.x402 = Some(X402::new(facilitator.base(), PAY_TO, PRICE));
        adjust(config);
    })
    .await;
    let clock = world.clock.clone();
    facilitator.keep_time(move || clock.now().as_millis() / 1_000);
    Scene { world, facilitator }
}

/// The same with facilitator timeouts of two seconds.
async fn hasty_scene() -> Scene {
    scene_with(|config| {
        let x402 = config.x402.as_mut().expect("x402");
        (x402.verify_timeout, x402.settle_timeout) = (Duration::from_secs(2), Duration::from_secs(2));
    })
    .await
}

/// The requirement of version 2.
fn accepted() -> Value {
    json!({
        "scheme": "exact", "network": NETWORK, "amount": PRICE, "asset": ASSET, "payTo": PAY_TO, "maxTimeoutSeconds": 600,
        "extra": {"name": "USDC", "version": "2"},
    })
}

impl Scene {
    /// A payment of the price, whose signature is a secret.
    fn sign(&self, payer: &Payer) -> Signed {
        let signed = payer.sign(&accepted(), self.world.clock.now().as_millis() / 1_000);
        self.world.note_secret(signed.signature());
        signed
    }

    /// The same, with a scripted fate.
    fn scripted(&self, payer: &Payer, script: Script) -> Signed {
        let signed = self.sign(payer);
        self.facilitator.script(&signed, Some(script));
        signed
    }

    /// A request without a key, paid for by version 2.
    fn ask(&self, method: Method, path: &str, signed: &Signed) -> Ask {
        let (name, value) = signed.v2();
        self.world.nobody.ask(method, path).header(name, value)
    }

    async fn get(&self, path: &str, signed: &Signed) -> Reply {
        self.ask(Method::GET, path, signed).send().await
    }

    async fn post(&self, path: &str, body: &Value, signed: &Signed) -> Reply {
        self.ask(Method::POST, path, signed).json(body).send().await
    }

    /// The same with an `Idempotency-Key`.
    async fn post_keyed(&self, path: &str, body: &Value, signed: &Signed, key: &str) -> Reply {
        self.ask(Method::POST, path, signed).json(body).header("idempotency-key", key).send().await
    }

    /// Makes a link and returns its id.
    async fn make(&self, payer: &Payer, custom_id: &str) -> String {
        let made = self.post("/v1/links", &json!({"custom_id": custom_id}), &self.sign(payer)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        made.member("link_id")
    }

    /// The states of all payments.
    async fn states(&self) -> Vec<String> {
        self.world.db.texts("SELECT state FROM payments ORDER BY state").await
    }

    /// The metric of this name.
    async fn figure(&self, name: &str) -> u64 {
        let address = self.world.node(0).admin_address.expect("an admin address");
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let figures = wire::send(address, request.as_bytes()).await;
        let value = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or_else(|| panic!("no {name} in {figures}"))
    }

    /// Waits until the background task has tried to settle the one payment this many times and stored the results.
    async fn tried(&self, attempts: i64) {
        eventually(&format!("try {attempts}"), deeplink_doubles::wait::PATIENCE, || async {
            let now = self.world.clock.now().as_millis();
            let sql = format!(
                "SELECT CAST(count(*) AS BIGINT) FROM payments WHERE attempts = {attempts} AND lease_until <= {now}"
            );
            self.world.db.number(sql).await == 1
        })
        .await;
    }

    /// How many payments are being settled now.
    async fn leases(&self) -> i64 {
        let now = self.world.clock.now().as_millis();
        let sql = format!("SELECT CAST(count(*) AS BIGINT) FROM payments WHERE lease_until > {now}");
        self.world.db.number(sql).await
    }

    /// Repeats a request until its payment is not being settled elsewhere.
    async fn insist(&self, path: &str, body: &Value, signed: &Signed) -> Reply {
        let last = std::sync::Mutex::new(None);
        eventually("it is not being settled elsewhere", deeplink_doubles::wait::PATIENCE, || async {
            let reply = self.post(path, body, signed).await;
            let is_over = reply.outcome() != "409 payment_in_progress";
            *last.lock().expect("a lock") = Some(reply);
            is_over
        })
        .await;
        last.into_inner().expect("a lock").expect("a reply")
    }

    async fn links(&self) -> i64 {
        self.world.db.number("SELECT CAST(count(*) AS BIGINT) FROM links").await
    }

    async fn wallets(&self) -> i64 {
        self.world.db.number("SELECT CAST(count(*) AS BIGINT) FROM wallets").await
    }

    /// Waits until every payment is in this state.
    async fn until(&self, state: &str) {
        eventually(&format!("the payment is {state}"), deeplink_doubles::wait::PATIENCE, || async {
            self.states().await.iter().all(|found| found == state)
        })
        .await;
    }

    /// Ends the lease of a payment whose settlement was abandoned.
    fn let_lease_end(&self) {
        self.world.clock.advance(Duration::from_secs(36));
    }
}

/// The receipt in an answer.
fn receipt(reply: &Reply) -> Value {
    let header = [reply.header("payment-response"), reply.header("x-payment-response")].concat();
    assert!(!header.is_empty(), "no receipt: {} {}", reply.status, reply.text());
    decoded(&header)
}

const fn calls(verify: usize, settle: usize, moved: usize) -> Calls {
    Calls { verify, settle, moved }
}
