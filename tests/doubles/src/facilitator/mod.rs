//! A double of an x402 facilitator, and a wallet whose signatures are not checked (`payer`).
//!
//! It remembers nonces as a chain does: a payment that was settled cannot be settled again. What else happens to a payment
//! is scripted by its nonce.

mod payer;

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use self::payer::{Payer, Signed, decoded};
use crate::wait::{PATIENCE, eventually};

/// The payee.
pub const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
/// USDC on Base Sepolia.
pub const ASSET: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
/// Base Sepolia.
pub const NETWORK: &str = "eip155:84532";
/// Base Sepolia in version 1.
pub const NETWORK_V1: &str = "base-sepolia";
/// Another address.
pub const OTHER: &str = "0x0000000000000000000000000000000000000bad";

/// A separate address for each: it releases its port and takes it again, and in between a connection or another double
/// on the same address could take it. Only Linux has these addresses without configuration.
fn own_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., second, third] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, second | 128, third, NEXT.fetch_add(1, Ordering::Relaxed));
    (if cfg!(target_os = "linux") { own } else { Ipv4Addr::LOCALHOST }, 0).into()
}

/// What happens to a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// It is invalid, for this reason.
    Invalid(&'static str),
    /// Verifying it answers 500 with a text.
    VerifyFails,
    /// Verifying it answers with something that is not JSON.
    VerifyText,
    /// Verifying it answers with JSON that lacks the required members.
    VerifyEmpty,
    /// Verifying it is not answered.
    VerifyHangs,
    /// Verifying it names another payer.
    VerifyOther,
    /// It is valid, and from then on no connections are accepted until [`Facilitator::come_back`].
    VerifiedAndGone,
    /// It is valid, and from then on connections are not answered until [`Facilitator::come_back`]; those are then
    /// reset.
    VerifiedAndDeaf,
    /// Settling it is refused, for this reason.
    Refused(&'static str),
    /// It is sent to the chain, which reverts it: it is refused as already used, with the transaction. No money moves.
    Reverted,
    /// It is settled, and the answer says that it was refused, without a transaction.
    FailedAfterSending,
    /// It is settled, and the answer says that it was refused, with the transaction.
    RefusedWithTransaction,
    /// Settling it answers 500 with a text, and no money moves.
    SettleFails,
    /// Settling it is not answered the first time, and no money moves.
    SettleHangs,
    /// It is settled, and the request is not answered.
    SettledUnheard,
    /// It is settled, and the answer lacks the required members.
    SettleEmpty,
    /// It is settled, and the answer names another payer.
    SettleOther,
    /// It is settled, and the answer names another network.
    SettleElsewhere,
    /// Settling it waits until [`Facilitator::release`].
    SettleWaits,
}

/// The calls so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// The number of calls to verify a payment.
    pub verify: usize,
    /// The number of calls to settle one.
    pub settle: usize,
    /// The number of payments settled.
    pub moved: usize,
}

#[derive(Default)]
struct Known {
    scripts: HashMap<String, Script>,
    settled: HashSet<String>,
    calls: Calls,
    kinds: Vec<Value>,
    is_down: bool,
    messages: Vec<Value>,
    token: Option<&'static str>,
    /// Its error for a payment that was already used.
    used: Option<&'static str>,
    asked: usize,
}

type Now = Box<dyn Fn() -> i64 + Send>;

struct Shared {
    known: Mutex<Known>,
    /// Accepts the connections.
    serving: Mutex<Option<(AbortHandle, SocketAddr)>>,
    /// Holds connections open without answering.
    deaf: Mutex<Option<TcpListener>>,
    /// Keeps the port while no connections are accepted: nothing else may get it.
    away: Mutex<Option<TcpSocket>>,
    /// The chain's time in seconds; `None` means that authorizations do not expire.
    now_secs: Mutex<Option<Now>>,
    released: Notify,
    reached: Notify,
}

/// A facilitator at its own address.
pub struct Facilitator {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Facilitator {
    /// At a free port of this machine; it settles `exact` on Base Sepolia in both versions.
    pub async fn start() -> Self {
        let kinds = [(1, NETWORK_V1), (2, NETWORK)]
            .map(|(version, network)| json!({"x402Version": version, "scheme": "exact", "network": network}));
        let known = Mutex::new(Known { kinds: kinds.to_vec(), ..Known::default() });
        let shared = Arc::new(Shared {
            known,
            serving: Mutex::default(),
            deaf: Mutex::default(),
            away: Mutex::default(),
            now_secs: Mutex::default(),
            released: Notify::new(),
            reached: Notify::new(),
        });
        let listener = TcpListener::bind(own_address()).await.expect("a port");
        let address = serve(&shared, listener);
        Self { address, shared }
    }

    /// Accepts connections again.
    pub fn come_back(&self) {
        drop(self.shared.deaf.lock().expect("a lock").take());
        let away = self.shared.away.lock().expect("a lock").take();
        let listener = away.unwrap_or_else(|| bound(self.address)).listen(1_024).expect("its port");
        serve(&self.shared, listener);
    }

    /// Gives the chain a clock: expired authorizations cannot be settled.
    pub fn keep_time(&self, now_secs: impl Fn() -> i64 + Send + 'static) {
        *self.shared.now_secs.lock().expect("a lock") = Some(Box::new(now_secs));
    }

    /// Sets its error for a payment that was already used.
    pub fn says_used(&self, reason: &'static str) {
        self.known().used = Some(reason);
    }

    /// From now on, answers only callers with this token.
    pub fn wants(&self, token: &'static str) {
        self.known().token = Some(token);
    }

    /// The number of calls for what it supports.
    pub fn asked(&self) -> usize {
        self.known().asked
    }

    /// Where its endpoints are.
    pub fn base(&self) -> url::Url {
        format!("http://{}", self.address).parse().expect("a URL")
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.known.lock().expect("a lock")
    }

    /// Sets what happens to the payments with this nonce.
    pub fn script(&self, payment: &Signed, script: Option<Script>) {
        match script {
            Some(script) => self.known().scripts.insert(payment.nonce(), script),
            None => self.known().scripts.remove(&payment.nonce()),
        };
    }

    /// Sets what it says it settles.
    pub fn settles(&self, kinds: Vec<Value>) {
        self.known().kinds = kinds;
    }

    /// Sets whether it answers every call with a 502 page.
    pub fn is_down(&self, is_down: bool) {
        self.known().is_down = is_down;
    }

    /// The calls so far.
    pub fn calls(&self) -> Calls {
        self.known().calls
    }

    /// Forgets the calls, but not what it settled.
    pub fn forget_calls(&self) {
        self.known().calls = Calls::default();
    }

    /// The bodies of all requests so far.
    pub fn messages(&self) -> Vec<Value> {
        self.known().messages.clone()
    }

    /// Waits for the call to settle a held payment.
    pub async fn reached(&self) {
        self.shared.reached.notified().await;
    }

    /// Settles the held payment.
    pub fn release(&self) {
        self.shared.released.notify_one();
    }

    /// Settles this many payments, held now or later, sequentially.
    pub async fn release_all(&self, count: usize) {
        let until = self.calls().moved + count;
        eventually("they are settled", PATIENCE, async || {
            self.release();
            self.calls().moved >= until
        })
        .await;
    }
}

fn serve(shared: &Arc<Shared>, listener: TcpListener) -> SocketAddr {
    let router = Router::new()
        .route("/supported", get(supported))
        .route("/verify", post(verify))
        .route("/settle", post(settle))
        .layer(from_fn_with_state(Arc::clone(shared), customers_only))
        .with_state(Arc::clone(shared));
    let address = listener.local_addr().expect("an address");
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    *shared.serving.lock().expect("a lock") = Some((serving.abort_handle(), address));
    address
}

/// A socket at this address, which refuses connections until it listens. A process that a test is just starting has a copy of
/// the closed listener until it runs its own program; the address is in use until then.
fn bound(address: SocketAddr) -> TcpSocket {
    const PAUSE: Duration = Duration::from_millis(1);
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option");
    let mut left = PATIENCE;
    while let Err(error) = socket.bind(address) {
        assert!(error.kind() == ErrorKind::AddrInUse && !left.is_zero(), "the same port: {error}");
        std::thread::sleep(PAUSE);
        left = left.saturating_sub(PAUSE);
    }
    socket
}

/// Stops accepting connections, or answering them.
async fn leave(shared: &Shared, is_deaf: bool) {
    let serving = shared.serving.lock().expect("a lock").take();
    if let Some((serving, address)) = serving {
        serving.abort();
        while !serving.is_finished() {
            tokio::task::yield_now().await;
        }
        if is_deaf {
            let listener = bound(address).listen(1_024).expect("its port");
            *shared.deaf.lock().expect("a lock") = Some(listener);
        } else {
            *shared.away.lock().expect("a lock") = Some(bound(address));
        }
    }
}

async fn customers_only(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let token = shared.known.lock().expect("a lock").token;
    let sent = request.headers().get("authorization").map(|value| value.as_bytes().to_vec());
    if token.is_some_and(|token| sent != Some(format!("Bearer {token}").into_bytes())) {
        return (StatusCode::UNAUTHORIZED, axum::Json(json!({"error": "unauthorized"}))).into_response();
    }
    next.run(request).await
}

/// The authorization, in either of the known shapes.
fn authorized(payload: &Value) -> &Value {
    let shapes = ["authorization", "permit2Authorization"];
    shapes.iter().find_map(|shape| payload.get(*shape)).unwrap_or(&Value::Null)
}

fn nonce_of(message: &Value) -> String {
    let authorized = authorized(&message["paymentPayload"]["payload"]);
    authorized["nonce"].as_str().unwrap_or_default().to_ascii_lowercase()
}

fn payer_of(message: &Value) -> Value {
    authorized(&message["paymentPayload"]["payload"])["from"].clone()
}

fn bad_gateway() -> Response {
    (StatusCode::BAD_GATEWAY, "<html>bad gateway</html>").into_response()
}

async fn forever() -> Response {
    tokio::time::sleep(Duration::from_mins(10)).await;
    bad_gateway()
}

async fn supported(State(shared): State<Arc<Shared>>) -> Response {
    let mut known = shared.known.lock().expect("a lock");
    known.asked += 1;
    if known.is_down {
        return bad_gateway();
    }
    axum::Json(json!({"kinds": known.kinds, "extensions": [], "signers": {}})).into_response()
}

/// Records a call, and returns what is scripted for its payment.
fn called(shared: &Shared, message: &Value, count: impl FnOnce(&mut Calls)) -> Result<Option<Script>, Box<Response>> {
    let mut known = shared.known.lock().expect("a lock");
    known.messages.push(message.clone());
    if known.is_down {
        return Err(Box::new(bad_gateway()));
    }
    count(&mut known.calls);
    let (payload, required) = (&message["paymentPayload"], &message["paymentRequirements"]);
    let version = &message["x402Version"];
    let (network, amount) = if *version == 1 { (NETWORK_V1, "maxAmountRequired") } else { (NETWORK, "amount") };
    let is_right = payload["x402Version"] == *version
        && required["network"] == network
        && required["scheme"] == "exact"
        && required[amount].is_string()
        && required["asset"].is_string()
        && required["payTo"].is_string();
    if !is_right {
        let malformed = (StatusCode::BAD_REQUEST, axum::Json(json!({"error": "malformed"})));
        return Err(Box::new(malformed.into_response()));
    }
    Ok(known.scripts.get(&nonce_of(message)).copied())
}

async fn verify(State(shared): State<Arc<Shared>>, axum::Json(message): axum::Json<Value>) -> Response {
    let script = match called(&shared, &message, |calls| calls.verify += 1) {
        Ok(script) => script,
        Err(response) => return *response,
    };
    let payer = payer_of(&message);
    let valid = |payer: Value| axum::Json(json!({"isValid": true, "payer": payer})).into_response();
    match script {
        // As some facilitators do, with a status that is not 200.
        Some(Script::Invalid(reason)) => {
            let said = json!({"isValid": false, "invalidReason": reason, "payer": payer});
            (StatusCode::BAD_REQUEST, axum::Json(said)).into_response()
        }
        Some(Script::VerifyFails) => (StatusCode::INTERNAL_SERVER_ERROR, "it broke").into_response(),
        Some(Script::VerifyText) => "fine".into_response(),
        Some(Script::VerifyEmpty) => axum::Json(json!({})).into_response(),
        Some(Script::VerifyHangs) => forever().await,
        Some(Script::VerifyOther) => valid(json!(OTHER)),
        Some(Script::VerifiedAndGone) => {
            leave(&shared, false).await;
            valid(payer)
        }
        Some(Script::VerifiedAndDeaf) => {
            leave(&shared, true).await;
            valid(payer)
        }
        _ => valid(payer),
    }
}

async fn settle(State(shared): State<Arc<Shared>>, axum::Json(message): axum::Json<Value>) -> Response {
    let script = match called(&shared, &message, |calls| calls.settle += 1) {
        Ok(script) => script,
        Err(response) => return *response,
    };
    let (nonce, payer) = (nonce_of(&message), payer_of(&message));
    let network = message["paymentRequirements"]["network"].clone();
    let transaction = format!("0x{}", hex(&Sha256::digest(&nonce)));
    match script {
        Some(Script::Refused(reason)) => return refused(reason, "", &payer, &network),
        Some(Script::Reverted) => return refused("invalid_transaction_state", &transaction, &payer, &network),
        Some(Script::SettleFails) => return (StatusCode::INTERNAL_SERVER_ERROR, "it broke").into_response(),
        Some(Script::SettleHangs) => {
            shared.known.lock().expect("a lock").scripts.remove(&nonce);
            return forever().await;
        }
        Some(Script::SettleWaits) => {
            shared.reached.notify_one();
            shared.released.notified().await;
        }
        _ => {}
    }
    let until = message["paymentPayload"]["payload"]["authorization"]["validBefore"].as_str().map(str::parse::<i64>);
    let now = shared.now_secs.lock().expect("a lock").as_ref().map(|now| now());
    if let (Some(now), Some(Ok(until))) = (now, until)
        && now >= until
    {
        return refused("invalid_exact_evm_payload_authorization_valid_before", "", &payer, &network);
    }
    {
        let mut known = shared.known.lock().expect("a lock");
        if !known.settled.insert(nonce.clone()) {
            return refused(known.used.unwrap_or("invalid_transaction_state"), "", &payer, &network);
        }
        known.calls.moved += 1;
    }
    let success = |payer: Value, network: Value| {
        let said = json!({"success": true, "payer": payer, "transaction": transaction, "network": network});
        axum::Json(said).into_response()
    };
    match script {
        Some(Script::SettledUnheard) => forever().await,
        Some(Script::RefusedWithTransaction) => refused("unexpected_settle_error", &transaction, &payer, &network),
        Some(Script::FailedAfterSending) => refused("transaction_failed", "", &payer, &network),
        Some(Script::SettleEmpty) => axum::Json(json!({"success": true})).into_response(),
        Some(Script::SettleOther) => success(json!(OTHER), network),
        Some(Script::SettleElsewhere) => success(payer, json!("eip155:1")),
        _ => success(payer, network),
    }
}

fn refused(reason: &str, transaction: &str, payer: &Value, network: &Value) -> Response {
    let said = json!({
        "success": false, "errorReason": reason, "payer": payer, "transaction": transaction, "network": network,
    });
    axum::Json(said).into_response()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
