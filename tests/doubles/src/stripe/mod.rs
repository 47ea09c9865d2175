//! A double of Stripe's API: forms, idempotency keys, errors, both forms of a subscription; and what a test makes
//! happen there, with the events that Stripe would post.

mod answers;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::routing::{get, post};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

/// Our API key.
pub const SECRET_KEY: &str = "rk_test_51f0c9a3d7e2b4-of-tests";
/// The secret that events are signed with.
pub const WEBHOOK_SECRET: &str = "whsec_9a3c51f0d7e2b4-of-tests";
/// The same after a rotation.
pub const NEXT_WEBHOOK_SECRET: &str = "whsec_b47e2d0f15c3a9-of-tests";
/// The prices of pro, business and scale.
pub const PRICES: [&str; 3] = ["price_pro", "price_business", "price_scale"];

/// The only API version that it accepts.
const VERSION: &str = "2025-03-31.basil";

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Answers with this status.
    Status(u16),
    /// Answers with this status, and stores that as the answer for the request's idempotency key.
    Kept(u16),
    /// Never answers.
    Hangs,
    /// Closes the connection.
    Cut,
    /// Answers 200 with text.
    Text,
    /// Does what was asked, and then closes the connection.
    CutAfterwards,
}

/// Where the end of a period and an invoice's subscription are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// In the subscription and in the invoice, as before 2025-03-31.
    Old,
    /// In the subscription's items and in the invoice's parent.
    New,
}

/// A received call.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Method and path.
    pub line: String,
    /// The parameters of its form.
    pub form: BTreeMap<String, String>,
    /// The idempotency key.
    pub key: Option<String>,
}

/// What a customer bought.
#[derive(Debug, Clone)]
pub struct Paid {
    /// The customer's id.
    pub customer: String,
    /// The subscription's id.
    pub subscription: String,
    /// The checkout session, as events have it.
    pub session: Value,
}

/// An event as it is posted.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its id.
    pub id: String,
    /// Its bytes.
    pub body: String,
}

impl Event {
    /// Its signature header for a secret and a time.
    pub fn signature(&self, secret: &str, seconds: i64) -> String {
        format!("t={seconds},v1={}", signature(secret, seconds, &self.body))
    }
}

/// The signature of a body: hex HMAC-SHA-256 (RFC 2104) of the time, a full stop and the body, keyed with the whole secret.
pub fn signature(secret: &str, seconds: i64, body: &str) -> String {
    let mut block = [0; 64];
    block[..secret.len()].copy_from_slice(secret.as_bytes());
    let pad = |byte: u8| block.map(|part| part ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(format!("{seconds}.{body}")).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string can be written to");
        hex
    })
}

/// A held read, which will be answered with the state at its arrival.
#[derive(Clone, Default)]
pub struct HeldRead {
    reached: Arc<Notify>,
    open: Arc<Notify>,
    answered: Arc<Notify>,
}

impl HeldRead {
    /// Waits for the read.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Releases the answer.
    pub fn let_go(&self) {
        self.open.notify_one();
    }

    /// Waits until the answer has been sent.
    pub async fn answered(&self) {
        self.answered.notified().await;
    }
}

struct Session {
    id: String,
    url: String,
    form: BTreeMap<String, String>,
    is_paid: bool,
}

/// The request that a key was used for, and its answer.
type Kept = (String, u16, Value);

#[derive(Default)]
struct Inner {
    subscriptions: BTreeMap<String, Value>,
    customers: Vec<String>,
    sessions: Vec<Session>,
    kept: HashMap<String, Kept>,
    seen: Vec<Seen>,
    next_faults: VecDeque<Fault>,
    fault: Option<Fault>,
    held: VecDeque<HeldRead>,
    is_old: bool,
    numbers: u32,
}

impl Inner {
    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }
}

/// Stripe at its own address.
#[derive(Clone)]
pub struct Stripe {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
}

impl Stripe {
    /// At a free port of this machine.
    pub async fn start() -> Self {
        let inner = Arc::<Mutex<Inner>>::default();
        let router = Router::new()
            .route("/v1/checkout/sessions", post(answers::call))
            .route("/v1/billing_portal/sessions", post(answers::call))
            .route("/v1/subscriptions/{id}", get(answers::read).post(answers::call))
            .route("/v1/prices/{id}", get(answers::price))
            .with_state(Arc::clone(&inner));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, inner }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("a lock")
    }

    /// Where it is.
    pub fn base(&self) -> url::Url {
        format!("http://{}", self.address).parse().expect("a URL")
    }

    /// Sets how every call fails, if at all.
    pub fn fails(&self, fault: Option<Fault>) {
        self.inner().fault = fault;
    }

    /// Sets how the next calls fail, in this order.
    pub fn fails_next(&self, faults: &[Fault]) {
        self.inner().next_faults.extend(faults);
    }

    /// Holds the next read that is not held yet.
    pub fn hold_read(&self) -> HeldRead {
        let held = HeldRead::default();
        self.inner().held.push_back(held.clone());
        held
    }

    /// Uses this form from now on.
    pub fn speaks(&self, shape: Shape) {
        self.inner().is_old = shape == Shape::Old;
    }

    /// Every call so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.inner().seen.clone()
    }

    /// How many checkout sessions were made.
    pub fn sessions(&self) -> usize {
        self.inner().sessions.len()
    }

    /// Pays on a page, as a person with a card does, which creates a customer and a subscription.
    pub fn pay(&self, url: &str, period_end: i64) -> Paid {
        let inner = &mut *self.inner();
        let number = inner.number();
        let session = inner.sessions.iter_mut().find(|session| session.url == url).expect("a page that was made");
        assert!(!session.is_paid, "a page can be paid on once");
        let form = &session.form;
        let customer = form.get("customer").cloned().unwrap_or_else(|| format!("cus_{number}"));
        let subscription = format!("sub_{number}");
        let metadata = metadata(form, "subscription_data[metadata]");
        let wire = active(&subscription, &customer, &form["line_items[0][price]"], &metadata, period_end);
        let said = json!({
            "id": session.id, "object": "checkout.session", "mode": form["mode"], "status": "complete",
            "customer": customer, "subscription": subscription, "client_reference_id": form["client_reference_id"],
            "metadata": self::metadata(form, "metadata"),
        });
        session.is_paid = true;
        inner.subscriptions.insert(subscription.clone(), wire);
        inner.customers.push(customer.clone());
        Paid { customer, subscription, session: said }
    }

    /// Makes another subscription of a customer's, as an operator can by hand.
    pub fn subscribe(&self, customer: &str, tenant: &str, price: &str, period_end: i64) -> String {
        let inner = &mut *self.inner();
        let id = format!("sub_{}", inner.number());
        let wire = active(&id, customer, price, &json!({"tenant_id": tenant}), period_end);
        inner.subscriptions.insert(id.clone(), wire);
        inner.customers.push(customer.to_owned());
        id
    }

    /// Gives a subscription another id.
    pub fn is_known_as(&self, subscription: &str, id: &str) {
        let subscriptions = &mut self.inner().subscriptions;
        let mut wire = subscriptions.remove(subscription).expect("a subscription");
        wire["id"] = id.into();
        subscriptions.insert(id.to_owned(), wire);
    }

    /// Forgets all customers, as with a key of another account.
    pub fn forgets_everybody(&self) {
        let inner = &mut *self.inner();
        inner.customers.clear();
        inner.subscriptions.clear();
    }

    /// Changes a subscription.
    pub fn change(&self, subscription: &str, change: impl FnOnce(&mut Value)) {
        change(self.inner().subscriptions.get_mut(subscription).expect("a subscription"));
    }

    /// Changes the status of a subscription.
    pub fn set_status(&self, subscription: &str, status: &str) {
        self.change(subscription, |wire| wire["status"] = status.into());
    }

    /// A subscription in its current state.
    pub fn subscription(&self, id: &str) -> Value {
        let inner = self.inner();
        answers::shaped(&inner.subscriptions[id], inner.is_old)
    }

    /// An event about an object, in its current or an earlier state.
    pub fn event(&self, kind: &str, object: &Value) -> Event {
        let id = format!("evt_{}", self.inner().number());
        let body = json!({
            "id": id, "object": "event", "type": kind, "api_version": VERSION, "created": 1_795_167_000, "livemode": false,
            "data": {"object": object},
        });
        Event { id, body: body.to_string() }
    }

    /// An event about a subscription in its current state.
    pub fn event_of(&self, kind: &str, subscription: &str) -> Event {
        self.event(kind, &self.subscription(subscription))
    }

    /// An event about an invoice of a subscription.
    pub fn invoice_event(&self, kind: &str, subscription: &str) -> Event {
        let is_old = self.inner().is_old;
        let wire = self.subscription(subscription);
        let mut invoice = json!({"id": "in_1", "object": "invoice", "customer": wire["customer"], "metadata": {}});
        if is_old {
            invoice["subscription"] = subscription.into();
        } else {
            invoice["parent"] = json!({
                "type": "subscription_details",
                "subscription_details": {"subscription": subscription, "metadata": wire["metadata"]},
            });
        }
        self.event(kind, &invoice)
    }
}

/// A subscription that is paid, in the old form.
fn active(id: &str, customer: &str, price: &str, metadata: &Value, period_end: i64) -> Value {
    json!({
        "id": id, "object": "subscription", "customer": customer, "status": "active", "cancel_at_period_end": false,
        "cancel_at": null, "current_period_end": period_end, "metadata": metadata,
        "items": {"object": "list", "data": [{"id": "si_1", "price": {"id": price}}]},
    })
}

/// The parameters `prefix[name]` of a form, by name.
fn metadata(form: &BTreeMap<String, String>, prefix: &str) -> Value {
    let inside = |name: &str| Some(name.strip_prefix(prefix)?.strip_prefix('[')?.strip_suffix(']')?.to_owned());
    form.iter().filter_map(|(name, value)| Some((inside(name)?, Value::from(value.as_str())))).collect()
}
