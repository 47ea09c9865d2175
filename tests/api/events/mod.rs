//! Events: published once, in order, to the account that they belong to.

mod data;
mod log;
mod once;
mod order;
mod reading;

use std::time::Duration;

use serde_json::{Value, json};

use deeplink_testing::{Caller, World, eventually};

pub(super) const STREAM: &str = "/v1/events/stream";
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// A frame of the stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Frame {
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) body: Value,
}

/// An open stream.
pub(super) struct Reading {
    answer: reqwest::Response,
    text: String,
    /// The comments received.
    pub(super) comments: Vec<String>,
    /// The position in the last one, as an id.
    pub(super) place: String,
}

impl Reading {
    /// Opens the stream, with a query and the id of the last event unless they are empty.
    pub(super) async fn ask(caller: &Caller, query: &str, last: &str) -> reqwest::Response {
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("an HTTP client");
        let mut ask =
            http.get(format!("{}{STREAM}{query}", caller.base())).bearer_auth(caller.key().unwrap_or_default());
        if !last.is_empty() {
            ask = ask.header("last-event-id", last);
        }
        ask.send().await.expect("an answer")
    }

    pub(super) async fn of(caller: &Caller) -> Self {
        Self::after(caller, "").await
    }

    pub(super) async fn after(caller: &Caller, last: &str) -> Self {
        let answer = Self::ask(caller, "", last).await;
        assert_eq!(answer.status(), 200, "{:?}", answer.text().await);
        Self::from(answer)
    }

    /// Some text of the stream up to an empty line; `None` at its end.
    async fn piece(&mut self) -> Option<String> {
        loop {
            if let Some((piece, rest)) = self.text.split_once("\n\n") {
                let (piece, rest) = (piece.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(piece);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.answer.chunk()).await.expect("something in time");
            self.text.push_str(std::str::from_utf8(&chunk.ok()??).expect("UTF-8"));
        }
    }

    /// Records a comment; `false` if the piece is not one.
    fn note(&mut self, piece: &str) -> bool {
        let Some(comment) = piece.strip_prefix(": ") else { return false };
        let (words, place) = comment.split_once("\nid: ").unwrap_or((comment, ""));
        self.comments.push(words.to_owned());
        place.clone_into(&mut self.place);
        true
    }

    /// The next comment; no event may come before it.
    pub(super) async fn comment(&mut self) -> String {
        let piece = self.piece().await.expect("the stream continues");
        assert!(self.note(&piece), "a comment: {piece}");
        self.comments.last().cloned().unwrap_or_default()
    }

    /// The next event; `None` when the stream ends.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            let piece = self.piece().await?;
            if self.note(&piece) {
                continue;
            }
            let lines: Vec<&str> = piece.split('\n').collect();
            let [id, kind, data] = lines[..] else { panic!("a frame has three lines: {piece}") };
            let value = |line: &str, name: &str| {
                line.strip_prefix(name).unwrap_or_else(|| panic!("no {name} in {piece}")).to_owned()
            };
            let body = serde_json::from_str(&value(data, "data: ")).expect("JSON");
            return Some(Frame { id: value(id, "id: "), kind: value(kind, "event: "), body });
        }
    }

    /// The next `count` events.
    pub(super) async fn take(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::with_capacity(count);
        while frames.len() < count {
            frames.push(self.next().await.expect("the stream continues"));
        }
        frames
    }

    /// Checks that nothing more comes, by an event that is caused now.
    pub(super) async fn rest(&mut self, caller: &Caller) -> Vec<Frame> {
        // A report has the clicks stored that its node has answered: what follows comes after them.
        caller.get("/v1/analytics/stats?link_ids=none").await;
        let install = format!("last-{}", rand_text());
        let last = caller.put("/v1/lifecycle/identify", &json!({"install_id": install, "user_id": install})).await;
        assert_eq!(last.status, 200, "{}", last.text());
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await.expect("the stream continues");
            if frame.body["data"]["install_id"] == install {
                return frames;
            }
            frames.push(frame);
        }
    }
}

impl From<reqwest::Response> for Reading {
    fn from(answer: reqwest::Response) -> Self {
        Self { answer, text: String::new(), comments: Vec::new(), place: String::new() }
    }
}

/// Opens a link and waits for its click: a visit is answered even if the log stores it later.
pub(super) async fn click(world: &World, link: &str) {
    const STORED: &str = "SELECT COUNT(*) FROM clicks";
    let before = world.db.number(STORED).await;
    assert_eq!(world.a.tap(link).await.status, 302);
    eventually("the click is stored", PATIENCE, || async { world.db.number(STORED).await > before }).await;
}

/// Waits until every event has its position: on PostgreSQL events other than clicks get theirs moments later.
pub(super) async fn placed(world: &World) {
    eventually("every event has its position", PATIENCE, || async {
        world.db.number("SELECT COUNT(*) FROM events WHERE position IS NULL").await == 0
    })
    .await;
}

fn rand_text() -> String {
    format!("{:016x}", u64::from_ne_bytes(deeplink_core::secret::Random::system().bytes()))
}

/// A webhook of the caller's at an address where nothing listens.
pub(super) async fn webhook(caller: &Caller, name: &str, events: &[&str], filters: &Value) -> String {
    let body = json!({"url": format!("https://{name}.example.com/"), "events": events, "filters": filters});
    let made = caller.post("/v1/webhooks", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.member("id")
}

/// The events of all deliveries to a webhook: their bodies, in their order.
pub(super) async fn deliveries(world: &World, webhook: &str) -> Vec<String> {
    let sql = format!(
        "SELECT e.body FROM deliveries d JOIN events e ON e.id = d.event_id WHERE d.webhook_id = '{webhook}' ORDER BY d.id"
    );
    world.db.texts(sql).await
}

/// Waits until there are this many deliveries.
pub(super) async fn expect_deliveries(world: &World, webhook: &str, count: i64) {
    let sql = format!("SELECT COUNT(*) FROM deliveries WHERE webhook_id = '{webhook}'");
    eventually("deliveries are made", PATIENCE, || async { world.db.number(&sql).await >= count }).await;
    assert_eq!(world.db.number(&sql).await, count);
}
