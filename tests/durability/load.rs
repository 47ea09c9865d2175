//! Clients that keep a server busy: each sends requests sequentially on its own connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deeplink_core::secret::Random;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::home::Home;
use crate::journal::{Creation, Journal, Kind, Outcome, Timing, Visit, address, referer};
use crate::node::Node;
use crate::wire::{Answer, Fate, Request, Wire};
use deeplink_doubles::wait::PATIENCE;

/// A browser's User-Agent.
pub(crate) const BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0";
/// The number of links in one bulk create.
pub(crate) const BULK: usize = 20;

/// The mix of a client's actions, as weights.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mix {
    pub(crate) create: u64,
    pub(crate) bulk: u64,
    /// Updates, and a delete now and then.
    pub(crate) change: u64,
    /// A repeat of an earlier creation, byte for byte, with its key.
    pub(crate) repeat: u64,
    pub(crate) read: u64,
    pub(crate) visit: u64,
    /// An install from its touch to its user's conversion.
    pub(crate) report: u64,
}

impl Mix {
    /// A bit of everything.
    pub(crate) const ALL: Self = Self { create: 35, bulk: 10, change: 10, repeat: 5, read: 0, visit: 35, report: 5 };
    /// Only creations.
    pub(crate) const CREATE: Self = Self { create: 1, bulk: 0, change: 0, repeat: 0, read: 0, visit: 0, report: 0 };
    /// Only reads of created links.
    pub(crate) const READ: Self = Self { read: 1, create: 0, ..Self::CREATE };
    /// Only visits.
    pub(crate) const VISIT: Self = Self { visit: 1, create: 0, ..Self::CREATE };
}

/// One client with its journal.
pub(crate) struct Client {
    name: String,
    mix: Mix,
    /// The pause between two requests.
    pub(crate) pause: Duration,
    random: Random,
    bearer: String,
    wire: Wire,
    drawn: u64,
    answers: Answers,
    pub(crate) journal: Journal,
}

impl Client {
    /// A client with its own name, whose choices follow from the seed.
    pub(crate) fn new(home: &Home, node: &Node, seed: u64, number: u64, mix: Mix) -> Self {
        Self {
            name: format!("{seed}-{number}"),
            mix,
            pause: Duration::ZERO,
            random: Random::seeded(seed.wrapping_mul(1_000).wrapping_add(number)),
            bearer: format!("Bearer {}", home.key),
            wire: Wire::to(node.address),
            drawn: 0,
            answers: Answers::default(),
            journal: Journal::default(),
        }
    }

    /// Switches to another server.
    pub(crate) fn turn_to(&mut self, node: &Node) {
        self.wire = Wire::to(node.address);
    }

    /// Makes links to begin with.
    pub(crate) async fn prepare(&mut self, links: usize) {
        while self.journal.links.len() < links {
            self.create(links.min(BULK)).await;
            assert!(self.journal.wrong.is_empty() && self.journal.cut.is_empty(), "{:?}", self.journal.wrong);
        }
    }

    /// Continues until it is stopped or the server no longer answers.
    async fn run(mut self, end: Arc<AtomicBool>) -> Self {
        while !end.load(Ordering::Relaxed) && self.act().await {
            if !self.pause.is_zero() {
                sleep(self.pause).await;
            }
        }
        self
    }

    /// Does one action. `false` if the server does not answer.
    async fn act(&mut self) -> bool {
        let Mix { create, bulk, change, repeat, read, visit, report } = self.mix;
        let mut drawn = self.random.below(create + bulk + change + repeat + read + visit + report);
        let mut is = |part: u64| {
            let hit = drawn < part;
            drawn = drawn.wrapping_sub(part);
            hit
        };
        if is(create) {
            return self.create(1).await;
        }
        if is(bulk) {
            return self.create(BULK).await;
        }
        let is_change = is(change);
        if is(repeat) {
            return self.repeat_any().await;
        }
        let Some(link) = self.any_link() else { return self.create(1).await };
        if is_change {
            self.change(&link).await
        } else if is(read) {
            self.read(&link).await
        } else if is(report) {
            self.report(&link).await
        } else {
            self.visit(&link).await
        }
    }

    pub(crate) fn token(&mut self) -> String {
        self.drawn += 1;
        format!("{}-{}", self.name, self.drawn)
    }

    /// One of the client's links with a known state.
    fn any_link(&mut self) -> Option<String> {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            let creations = self.journal.creations.len() as u64;
            let at = usize::try_from(self.random.below(creations)).expect("a place");
            let Some(Outcome::There(ids)) = self.journal.creations.get(at).map(|creation| &creation.outcome) else {
                continue;
            };
            let id = &ids[usize::try_from(self.random.below(ids.len() as u64)).expect("a place")];
            if self.journal.version(id).is_some() {
                return Some(id.clone());
            }
        }
        None
    }

    pub(crate) async fn send(&mut self, kind: Kind, request: &Request) -> Option<Answer> {
        match self.wire.send(request).await {
            Fate::Answered(answer) => {
                let (at, took) = (Instant::now(), self.wire.took);
                self.answers[kind as usize].fetch_add(1, Ordering::Relaxed);
                self.journal.timings.push(Timing { kind, status: answer.status, at, took });
                Some(answer)
            }
            Fate::Cut(how) => {
                self.journal.cut.push((Instant::now(), format!("{request:?}: {how}")));
                None
            }
            Fate::TurnedAway => None,
        }
    }

    pub(crate) fn authorized(&self, method: &'static str, path: &str) -> Request {
        Request::new(method, path).header("authorization", &self.bearer)
    }

    /// Creates this many links, in one of the possible forms.
    pub(crate) async fn create(&mut self, rows: usize) -> bool {
        let token = self.token();
        let form = self.random.below(3);
        let named: Vec<String> = match form {
            0 => Vec::new(),
            _ => (0..rows).map(|row| format!("c{token}-{row}")).collect(),
        };
        let content = |id: Option<&String>| {
            let mut link = json!({"web_url": address(&token, 0), "metadata": {"token": token, "version": 0}});
            if let Some(id) = id {
                link["custom_id"] = Value::from(id.as_str());
            }
            link
        };
        let (path, body) = match (rows, form) {
            (1, _) => ("/v1/links", content(named.first())),
            (_, 0) => ("/v1/links/bulk", json!({"template": content(None), "count": rows})),
            (_, 1) => ("/v1/links/bulk", json!({"template": content(None), "custom_ids": named})),
            _ => ("/v1/links/bulk", json!({"links": named.iter().map(|id| content(Some(id))).collect::<Vec<_>>()})),
        };
        let mut request = self.authorized("POST", path).json(&body);
        // Generated ids cannot be assigned without a key.
        let has_key = named.is_empty() || self.random.below(2) == 0;
        if has_key {
            request = request.header("idempotency-key", &token);
        }
        self.journal.creations.push(Creation {
            token,
            has_key,
            request: request.clone(),
            rows,
            named,
            outcome: Outcome::Open,
            reply: None,
        });
        let Some(answer) = self.send(Kind::Write, &request).await else { return false };
        self.note_creation(self.journal.creations.len() - 1, &answer);
        true
    }

    fn note_creation(&mut self, at: usize, answer: &Answer) {
        match answer.status {
            201 => {
                let ids = created_ids(answer);
                let creation = &self.journal.creations[at];
                let as_asked = creation.named.is_empty() || creation.named == ids;
                if ids.len() != creation.rows || !as_asked {
                    self.journal.wrong.push(format!("{:?} was answered with {}", creation.request, answer.body));
                }
                self.journal.acknowledged += 1;
                self.journal.is_there(at, ids);
                self.journal.creations[at].reply = Some(answer.body.clone());
            }
            503 => {
                self.journal.refusals.push(answer.code());
                self.journal.creations[at].outcome = Outcome::Nowhere;
            }
            // The outcome stays open.
            _ => self.journal.wrong.push(format!("a creation was answered with {answer:?}")),
        }
    }

    /// Repeats a creation that was acknowledged: the same answer, and nothing new.
    async fn repeat_any(&mut self) -> bool {
        let creations = self.journal.creations.len() as u64;
        let at = usize::try_from(self.random.below(creations)).expect("a place");
        match self.journal.creations.get(at) {
            Some(creation) if creation.has_key && matches!(creation.outcome, Outcome::There(_)) => {
                self.repeat(at, true).await
            }
            _ => self.create(1).await,
        }
    }

    /// Repeats a creation with its key. `replayed` says whether the answer must be the first one.
    async fn repeat(&mut self, at: usize, replayed: bool) -> bool {
        let request = self.journal.creations[at].request.clone();
        let Some(answer) = self.send(Kind::Write, &request).await else { return false };
        if answer.status == 503 {
            self.journal.refusals.push(answer.code());
            return true;
        }
        let says_replayed = answer.header("idempotency-replayed") == Some("true");
        let creation = &self.journal.creations[at];
        let is_same = match (&creation.reply, &creation.outcome) {
            (Some(reply), _) => *reply == answer.body,
            (None, Outcome::There(ids)) => sorted(ids.clone()) == sorted(created_ids(&answer)),
            (None, _) => true,
        };
        if answer.status == 201 && is_same && says_replayed == replayed {
            self.note_creation(at, &answer);
        } else {
            let again = if replayed { "as before" } else { "as new" };
            self.journal.wrong.push(format!("{creation:?}, repeated, must be answered {again}: {answer:?}"));
        }
        true
    }

    /// Repeats the creations that were never answered, which the oracle has found stored or not: each has one effect in
    /// the end.
    pub(crate) async fn settle(&mut self, open: &[usize]) {
        for &at in open {
            let was_there = matches!(self.journal.creations[at].outcome, Outcome::There(_));
            assert!(self.repeat(at, was_there).await, "the server answers");
        }
    }

    async fn change(&mut self, link: &str) -> bool {
        let token = self.journal.links[link].token.clone();
        let version = self.journal.version(link).expect("a known version");
        let path = format!("/v1/links/{link}");
        let (request, next) = if self.random.below(4) == 0 {
            (self.authorized("DELETE", &path), None)
        } else {
            let next = version + 1;
            let body = json!({"web_url": address(&token, next), "metadata": {"token": token, "version": next}});
            (self.authorized("PUT", &path).json(&body), Some(next))
        };
        self.journal.possible(link).push(next);
        let Some(answer) = self.send(Kind::Write, &request).await else { return false };
        match answer.status {
            200 | 204 => {
                self.journal.acknowledged += 1;
                *self.journal.possible(link) = vec![next];
            }
            503 => {
                self.journal.refusals.push(answer.code());
                *self.journal.possible(link) = vec![Some(version)];
            }
            _ => self.journal.wrong.push(format!("{request:?} was answered with {answer:?}")),
        }
        true
    }

    /// Reads a link from the database.
    async fn read(&mut self, link: &str) -> bool {
        let version = self.journal.version(link).expect("a known version");
        let expected = address(&self.journal.links[link].token, version);
        let request = self.authorized("GET", &format!("/v1/links/{link}"));
        let Some(answer) = self.send(Kind::Read, &request).await else { return false };
        if answer.status != 200 || answer.json()["web_url"] != expected.as_str() {
            self.journal.wrong.push(format!("{link} must lead to {expected}: {answer:?}"));
        }
        true
    }

    /// Visits a link as a browser does.
    pub(crate) async fn visit(&mut self, link: &str) -> bool {
        let token = self.token();
        let version = self.journal.version(link).expect("a known version");
        let expected = address(&self.journal.links[link].token, version);
        let request = Request::get(format!("/r/{link}"))
            .header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
            .header("user-agent", BROWSER)
            .header("referer", &referer(&token));
        self.journal.visits.push(Visit { token, link: link.to_owned(), answered: false });
        let Some(answer) = self.send(Kind::Visit, &request).await else { return false };
        if answer.status == 302 && answer.header("location") == Some(&expected) {
            if let Some(visit) = self.journal.visits.last_mut() {
                visit.answered = true;
            }
        } else {
            self.journal.wrong.push(format!("a visit of {link} must lead to {expected}: {answer:?}"));
        }
        true
    }
}

fn created_ids(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    let id = |link: &Value| link["link_id"].as_str().unwrap_or_default().to_owned();
    match body["links"].as_array() {
        Some(links) => links.iter().map(id).collect(),
        None => vec![id(&body)],
    }
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

/// How many answers came, of each kind.
type Answers = Arc<[AtomicUsize; 3]>;

/// Clients at work.
pub(crate) struct Load {
    end: Arc<AtomicBool>,
    answers: Answers,
    clients: Vec<JoinHandle<Client>>,
}

impl Load {
    /// Sets all clients to work.
    pub(crate) fn start(clients: Vec<Client>) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let answers = Answers::default();
        let clients = clients.into_iter().map(|mut client| {
            client.answers = Arc::clone(&answers);
            tokio::spawn(client.run(Arc::clone(&end)))
        });
        let clients = clients.collect();
        Self { end, answers, clients }
    }

    /// How many answers of a kind came so far.
    pub(crate) fn answers(&self, kind: Kind) -> usize {
        self.answers[kind as usize].load(Ordering::Relaxed)
    }

    /// Waits for this many more answers of each kind: a slow machine takes longer for a meaningful load.
    pub(crate) async fn go_on(&self, more: usize, kinds: &[Kind]) {
        let began = Instant::now();
        let enough: Vec<_> = kinds.iter().map(|kind| (*kind, self.answers(*kind) + more)).collect();
        while began.elapsed() < PATIENCE && enough.iter().any(|(kind, enough)| self.answers(*kind) < *enough) {
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lets each client finish its current action.
    pub(crate) async fn end(self) -> Vec<Client> {
        self.end.store(true, Ordering::Relaxed);
        self.gone().await
    }

    /// Waits until every client has ended because the server no longer answers.
    pub(crate) async fn gone(self) -> Vec<Client> {
        let mut clients = Vec::with_capacity(self.clients.len());
        for client in self.clients {
            clients.push(client.await.expect("a client finishes"));
        }
        clients
    }
}

/// The `percent`th percentile of the answer times.
pub(crate) fn percentile(timings: &[Timing], percent: usize) -> Duration {
    let mut took: Vec<_> = timings.iter().map(|timing| timing.took).collect();
    took.sort_unstable();
    assert!(!took.is_empty(), "nothing was measured");
    took[(took.len() * percent / 100).min(took.len() - 1)]
}

/// The limit at the 99th percentile for requests that do not depend on the fault.
const ANSWERED_WITHIN: Duration = Duration::from_millis(50);

/// Compares answers during a fault with those before it. `lost` is the machine's longest delay of one answer.
pub(crate) fn assert_as_before(before: &[Timing], during: &[Timing], lost: Duration) {
    let (before, during) = (percentile(before, 99), percentile(during, 99));
    let limit = ANSWERED_WITHIN.max(2 * before) + lost;
    assert!(during <= limit, "at the 99th percentile {during:?}, and {before:?} before; {lost:?} lost by the machine");
}
