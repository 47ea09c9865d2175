//! A home whose account has a webhook, and its receiver.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use deeplink_core::signature::{Signer, WebhookSecret};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::home::Home;
use crate::load::BROWSER;
use crate::node::Node;
use crate::wire::{Answer, Fate, Request, Wire};
use deeplink_doubles::authority::{Authority, Identity};
use deeplink_doubles::receiver::{Heard, Receiver, Say};

/// The host name in the receiver's certificate.
const HOST: &str = "127.0.0.2";

pub(crate) struct Hooked {
    pub(crate) home: Home,
    pub(crate) receiver: Receiver,
    pub(crate) link: String,
    signer: Option<Signer>,
}

impl Hooked {
    /// A home whose server may call the receiver, and that server. The webhook is not created yet.
    pub(crate) async fn new(speaks: impl Fn(&Heard, usize) -> Say + Send + Sync + 'static) -> (Self, Node) {
        let home = Home::new().await;
        let authority = Authority::new();
        std::fs::write(home.beside("roots.pem"), authority.pem()).expect("the roots are written");
        let receiver = Receiver::new(&authority, Identity::Days(1), speaks).await;
        let mut hooked = Self { home, receiver, link: String::new(), signer: None };
        let node = hooked.start().await;
        let body = json!({"web_url": "https://example.com/landing"});
        hooked.link = text(&hooked.ask(&node, "POST", "/v1/links", &body, 201).await, "link_id");
        (hooked, node)
    }

    /// Starts the server.
    pub(crate) async fn start(&self) -> Node {
        let mut command = self.home.command();
        command.env("DEEPLINK_OUTBOUND_CA", self.home.beside("roots.pem"));
        command.env("DEEPLINK_OUTBOUND_ALLOW", format!("{HOST}/32"));
        Node::start_as(&self.home, command).await
    }

    /// Creates a webhook to a path of the receiver and returns its id.
    pub(crate) async fn hook(&mut self, node: &Node, path: &str, events: &[&str]) -> String {
        let body = json!({"url": self.receiver.url(HOST, path), "events": events});
        let made = self.ask(node, "POST", "/v1/webhooks", &body, 201).await;
        let secret = WebhookSecret::new(text(&made, "secret"));
        self.signer = Some(Signer::new(&secret).expect("a secret"));
        text(&made, "id")
    }

    /// One request that must be answered with this status.
    pub(crate) async fn ask(&self, node: &Node, method: &'static str, path: &str, body: &Value, status: u16) -> Value {
        let request = self.authorized(method, path).json(body);
        let fate = Wire::to(node.address).send_until_taken(&request).await;
        match fate {
            Fate::Answered(answer) if answer.status == status => answer.json(),
            fate => panic!("{method} {path}: {fate:?}"),
        }
    }

    fn authorized(&self, method: &'static str, path: &str) -> Request {
        Request::new(method, path).header("authorization", &format!("Bearer {}", self.home.key))
    }

    /// Whether both signatures with the last webhook's secret are valid.
    pub(crate) fn is_signed(&self, post: &Heard) -> bool {
        let signer = self.signer.as_ref().expect("a webhook");
        let (id, at) = (post.id(), post.header("webhook-timestamp"));
        signer.is_service(post.header("x-service-signature"), &post.body)
            && signer.is_standard(post.header("webhook-signature"), id, at, &post.body)
    }

    /// The receiver's record by event id. Every POST must be signed, and have the same bytes as earlier ones.
    pub(crate) fn by_event(&self) -> HashMap<String, Vec<Heard>> {
        let mut events: HashMap<String, Vec<Heard>> = HashMap::new();
        for post in self.receiver.heard() {
            assert!(self.is_signed(&post), "{post:?}");
            let before = events.entry(post.id().to_owned()).or_default();
            assert!(before.first().is_none_or(|first| first.body == post.body), "{} has other bytes", post.id());
            before.push(post);
        }
        events
    }
}

fn text(body: &Value, member: &str) -> String {
    body[member].as_str().expect("a text").to_owned()
}

/// Clients that report facts to the running server, each repeated until it is acknowledged.
pub(crate) struct Makers {
    at: watch::Sender<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
    acknowledged: Arc<AtomicUsize>,
    /// Clicks that were sent; one that was cut off may be stored or not.
    taps: Arc<AtomicU64>,
}

impl Makers {
    /// Each of `clients` reports `each` facts: every fifth is a click on the link, the others are the first touches of
    /// installs that are named by client and number.
    pub(crate) fn start(hooked: &Hooked, node: &Node, clients: usize, each: usize) -> Self {
        let (at, _) = watch::channel(node.address);
        let (acknowledged, taps) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let tasks = (0..clients).map(|client| {
            let requests: Vec<_> = (0..each).map(|nth| request(hooked, client, nth)).collect();
            let (mut at, acknowledged, taps) = (at.subscribe(), Arc::clone(&acknowledged), Arc::clone(&taps));
            tokio::spawn(async move {
                let mut wire = Wire::to(*at.borrow_and_update());
                for (request, is_tap) in requests {
                    loop {
                        taps.fetch_add(u64::from(is_tap), Ordering::Relaxed);
                        match wire.send(&request).await {
                            Fate::Answered(Answer { status: 200 | 302, .. }) => break,
                            Fate::Answered(answer) if answer.status == 503 => sleep(Duration::from_millis(50)).await,
                            Fate::Answered(answer) => panic!("{request:?}: {answer:?}"),
                            Fate::Cut(_) | Fate::TurnedAway => {
                                let _ = timeout(Duration::from_millis(200), at.changed()).await;
                                wire = Wire::to(*at.borrow_and_update());
                            }
                        }
                    }
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let tasks = tasks.collect();
        Self { at, tasks, acknowledged, taps }
    }

    /// Waits until this many facts are acknowledged.
    pub(crate) async fn have_made(&self, facts: usize) {
        while self.acknowledged.load(Ordering::Relaxed) < facts {
            assert!(!self.tasks.iter().all(JoinHandle::is_finished), "the clients have ended");
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn turn_to(&self, node: &Node) {
        self.at.send_replace(node.address);
    }

    /// Waits until all facts are acknowledged and returns how many clicks were sent.
    pub(crate) async fn end(self) -> u64 {
        for task in self.tasks {
            task.await.expect("a client finishes");
        }
        self.taps.load(Ordering::Relaxed)
    }
}

/// Whether a client's nth fact is a click.
pub(crate) fn is_tap(nth: usize) -> bool {
    nth % 5 == 4
}

fn request(hooked: &Hooked, client: usize, nth: usize) -> (Request, bool) {
    if is_tap(nth) {
        return (Request::get(format!("/r/{}", hooked.link)).header("user-agent", BROWSER), true);
    }
    let touch = json!({"link_id": hooked.link, "install_id": install(client, nth), "app_version": "1.0"});
    (hooked.authorized("POST", "/v1/lifecycle/attribute").json(&touch), false)
}

/// The install of a client's nth fact.
pub(crate) fn install(client: usize, nth: usize) -> String {
    format!("install-{client}-{nth}")
}
