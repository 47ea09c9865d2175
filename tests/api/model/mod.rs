//! The funnel against a model of its rules: random histories of many tenants, through the API only, and then random
//! queries.
//!
//! A history on which the service and the model disagree is shrunk while they still disagree, and printed with its
//! seed.

mod backfill;
mod events;
mod sums;
mod truth;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deeplink_core::funnel::{FunnelReport, GroupBy, LinkStats};
use deeplink_core::id::{SecretKeyId, TenantId};
use deeplink_core::secret::{Random, SecretKey};
use deeplink_core::time::Timestamp;
use deeplink_doubles::machine::told;
use futures_util::StreamExt;
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::events::{AGENTS, Ask, Event, History, LINKS, REFERERS, clock, country, history};
use self::sums::Sums;
use self::truth::{Outcome, Truth, currency, kind_name};
use deeplink_testing::{POOL_IDLE, World, spawn_with, told_countries};

/// Histories of one run, unless `MODEL_HISTORIES` is set, and how many of them run concurrently.
const HISTORIES: usize = 400;
const AT_ONCE: usize = 100;
/// Steps of the clock in a history, and queries after it.
const ROUNDS: usize = 12;
const ASKS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_history_is_reported_as_the_rules_say() {
    let seed = seed();
    let stage = Stage::new().await;
    let histories =
        told("MODEL_HISTORIES").map_or(HISTORIES, |count| count.parse().expect("MODEL_HISTORIES is a number"));
    let batches = histories.div_ceil(AT_ONCE);
    for batch in 0..batches {
        let mut random = Random::seeded(seed.wrapping_add(batch as u64));
        let begin = stage.begins[usize::from(2 * batch >= batches)];
        let times = clock(&mut random, begin, ROUNDS);
        let histories: Vec<_> = (0..AT_ONCE).map(|_| history(&mut random, &times, ASKS)).collect();
        let found = stage.play(&histories, &times).await;
        if let Some((nth, _)) = found.iter().enumerate().find_map(|(nth, found)| Some((nth, found.as_ref()?))) {
            let (shorter, why) = stage.shorten(histories[nth].clone(), &times).await;
            panic!("seed {seed}, batch {batch}, history {nth}: {why}\n{shorter:#?}\nat first: {:?}", found[nth]);
        }
    }
    backfill::counts_as_they_were_counted(&stage.world).await;
}

/// A different one for each run; a run is repeated with the one it printed.
fn seed() -> u64 {
    let named = told("MODEL_SEED").map(|seed| seed.parse().expect("MODEL_SEED is a number"));
    named.unwrap_or_else(|| Random::system().below(1 << 40))
}

/// Where histories run: one service, and a tenant for each history.
struct Stage {
    world: World,
    http: reqwest::Client,
    /// When histories begin, the earliest first.
    begins: [i64; 2],
    tenants: AtomicUsize,
    clicks: AtomicUsize,
}

/// One running history.
struct Actor {
    /// The prefix of the tenant's link ids.
    name: String,
    key: String,
    truth: Truth,
}

impl Actor {
    fn link(&self, nth: usize) -> String {
        // The last one does not exist.
        format!("{}-{nth}", self.name)
    }
}

impl Stage {
    async fn new() -> Self {
        let world = spawn_with(told_countries).await;
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).tls_certs_only([]);
        let http = http.pool_idle_timeout(POOL_IDLE);
        // In some zones clocks go back while the first half of the histories lasts, and forward while the second does.
        let begins = ["2026-10-23T00:00:00Z", "2027-03-26T00:00:00Z"];
        let begins = begins.map(|begin| begin.parse::<Timestamp>().expect("a time").as_millis());
        let http = http.build().expect("an HTTP client");
        Self { world, http, begins, tenants: AtomicUsize::new(0), clicks: AtomicUsize::new(0) }
    }

    /// New tenants with their links, straight into the database, because their creation is not tested here.
    async fn actors(&self, count: usize) -> Vec<Actor> {
        let mut random = Random::system();
        let at = Timestamp::from_millis(self.begins[0]);
        let (mut sql, mut actors) = (vec!["BEGIN;".to_owned()], Vec::new());
        for _ in 0..count {
            let number = self.tenants.fetch_add(1, Ordering::Relaxed);
            let (tenant, id) = (TenantId::new(at, &mut random), SecretKeyId::new(at, &mut random));
            let key = SecretKey::generate(&mut random);
            let (hash, prefix, at) = (key.hash(), key.shown_prefix(), self.begins[0]);
            // As the migration numbers accounts.
            let account = -2 * i64::try_from(number + 1).expect("a number");
            sql.push(format!(
                "INSERT INTO tenants (id, created_at, account) VALUES ('{tenant}', {at}, {account});
                 INSERT INTO secret_keys (id, tenant_id, key_hash, key_prefix, created_at)
                 VALUES ('{id}', '{tenant}', '{hash}', '{prefix}', {at});"
            ));
            for nth in 0..LINKS {
                let position = 1_000 + number * LINKS + nth;
                sql.push(format!(
                    "INSERT INTO links (tenant_id, link_id, position, claimed, web_url, created_at, updated_at)
                     VALUES ('{tenant}', 'model{number}-{nth}', {position}, TRUE, 'https://example.com/', {at}, {at});"
                ));
            }
            let key = key.expose().to_owned();
            actors.push(Actor { name: format!("model{number}"), key, truth: Truth::default() });
        }
        sql.push("COMMIT".to_owned());
        self.world.db.execute(sql.join("\n")).await;
        actors
    }

    /// Runs histories concurrently, each event at its time of the clock, and then their queries. Returns what was wrong
    /// with each, if anything.
    async fn play(&self, histories: &[History], times: &[i64]) -> Vec<Option<String>> {
        let mut actors = self.actors(histories.len()).await;
        let mut wrong: Vec<Option<String>> = vec![None; histories.len()];
        // An event belongs to its round, not to its time, to which the clock may return.
        let mut nexts = vec![0; histories.len()];
        for &now in times {
            self.world.clock.set(Timestamp::from_millis(now));
            let acts = actors.iter_mut().zip(histories).zip(&mut nexts).zip(&mut wrong);
            join_all(acts.map(|(((actor, history), next), wrong)| async move {
                while let Some((_, event)) = history.events.get(*next).filter(|(at, _)| *at == now) {
                    *next += 1;
                    let expected = actor.truth.add(now, event);
                    let outcome = self.act(actor, now, event).await;
                    if outcome.as_ref() != Ok(&expected) && wrong.is_none() {
                        *wrong = Some(format!("{event:?} at {now}: {outcome:?} instead of {expected:?}"));
                    }
                }
            }))
            .await;
        }
        self.wait_for_clicks(&actors, wrong.iter().flatten().next()).await;
        let asked = actors.iter().zip(histories).map(|(actor, history)| self.ask_all(actor, history));
        let answers: Vec<_> = futures_util::stream::iter(asked).buffered(16).collect().await;
        wrong.into_iter().zip(answers).map(|(wrong, answer)| wrong.or(answer)).collect()
    }

    /// Clicks are stored after the answers to visits. Refused visits have none to wait for: `wrong` says why.
    async fn wait_for_clicks(&self, actors: &[Actor], wrong: Option<&String>) {
        let new: usize = actors.iter().map(|actor| actor.truth.clicks()).sum();
        let expected = self.clicks.fetch_add(new, Ordering::Relaxed) + new;
        let expected = i64::try_from(expected).expect("a count");
        let end = Instant::now() + if wrong.is_none() { Duration::from_mins(5) } else { Duration::from_secs(10) };
        loop {
            let stored = self.world.db.number("SELECT COUNT(*) FROM clicks").await;
            if stored == expected {
                return;
            }
            assert!(Instant::now() < end, "{stored} clicks are stored instead of {expected}; wrong before: {wrong:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn act(&self, actor: &Actor, now: i64, event: &Event) -> Result<Outcome, String> {
        let name = |what: &str, number: usize| format!("{what} {number}");
        match *event {
            Event::Click { link, agent, referer, reported } => {
                let base = self.world.nobody.base();
                let mut visit = if reported {
                    let body = json!({"link_id": actor.link(link)}).to_string();
                    let report = self.http.post(format!("{base}/v1/lifecycle/click")).bearer_auth(&actor.key);
                    report.header("content-type", "application/json").body(body)
                } else {
                    self.http.get(format!("{base}/r/{}", actor.link(link))).header("accept", "text/html")
                };
                visit = visit.header("user-agent", AGENTS[agent].0).header("cf-ipcountry", country(link, agent).0);
                if let Some(referer) = referer {
                    visit = visit.header("referer", REFERERS[referer].0);
                }
                let status = visit.send().await.map_err(|error| format!("{error:?}"))?.status().as_u16();
                if matches!(status, 200 | 302) { Ok(Outcome::Done) } else { Err(format!("a visit: {status}")) }
            }
            Event::Touch { link, install, model } => {
                let mut body =
                    json!({"link_id": actor.link(link), "install_id": name("install", install), "app_version": "1"});
                if let Some(model) = model {
                    body["context"] = json!({"device_model": name("model", model)});
                }
                done(self.send(actor, Method::POST, "/v1/lifecycle/attribute", &body).await?)
            }
            Event::Identify { install, user } => {
                let body = json!({"install_id": name("install", install), "user_id": name("user", user)});
                done(self.send(actor, Method::PUT, "/v1/lifecycle/identify", &body).await?)
            }
            Event::Convert { user, kind, key, after, cents } => {
                let mut body = json!({"user_id": name("user", user), "type": kind_name(kind)});
                if let Some(key) = key {
                    body["idempotency_key"] = name("key", key).into();
                }
                if let Some(after) = after {
                    body["occurred_at"] = Timestamp::from_millis(now + after).to_string().into();
                }
                if let Some(cents) = cents {
                    (body["amount_cents"], body["currency"]) = (cents.into(), currency(user).into());
                }
                let (status, reply) = self.send(actor, Method::POST, "/v1/lifecycle/convert", &body).await?;
                let counts = ["accepted", "deduped", "unattributed", "failed"].map(|count| reply[count].as_i64());
                match (status, counts) {
                    (200, [Some(1), Some(0), Some(0), Some(0)]) => Ok(Outcome::Accepted),
                    (200, [Some(0), Some(1), Some(0), Some(0)]) => Ok(Outcome::Deduped),
                    (200, [Some(0), Some(0), Some(1), Some(0)]) => Ok(Outcome::Unattributed),
                    _ => Err(format!("{status} {reply}")),
                }
            }
        }
    }

    async fn send(&self, actor: &Actor, method: Method, path: &str, body: &Value) -> Result<(u16, Value), String> {
        let url = format!("{}{path}", self.world.nobody.base());
        let request = self.http.request(method, url).bearer_auth(&actor.key);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let reply = request.send().await.map_err(|error| error.to_string())?;
        let status = reply.status().as_u16();
        let bytes = reply.bytes().await.map_err(|error| error.to_string())?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// Runs all queries and returns what was answered wrongly.
    async fn ask_all(&self, actor: &Actor, history: &History) -> Option<String> {
        for ask in &history.asks {
            if let Err(wrong) = self.ask(actor, ask).await {
                return Some(format!("{ask:?}: {wrong}"));
            }
            if let Err(wrong) = self.ask_account(actor, ask).await {
                return Some(format!("the account, {ask:?}: {wrong}"));
            }
        }
        let link = history.events.len() % LINKS;
        let expected = actor.truth.stats(link, actor.link(link));
        let stats: Result<LinkStats, String> =
            self.get(actor, &format!("/v1/links/{}/stats", actor.link(link)), &[]).await;
        (stats.as_ref() != Ok(&expected)).then(|| format!("stats of link {link}: {stats:?} instead of {expected:?}"))
    }

    async fn ask(&self, actor: &Actor, ask: &Ask) -> Result<(), String> {
        let ids: Vec<String> = ask.links.iter().map(|link| actor.link(*link)).collect();
        self.compare(actor, ask, Some(("link_ids", ids.join(",")))).await.map(drop)
    }

    /// The same query on the whole account, which its links must add up to. By link, it names those with clicks, the
    /// most first.
    async fn ask_account(&self, actor: &Actor, ask: &Ask) -> Result<(), String> {
        let ask = Ask { links: (0..LINKS).collect(), ..ask.clone() };
        let report = self.compare(actor, &ask, None).await?;
        let unattributed = actor.truth.unattributed(&ask);
        if report.unattributed.clone().zip(report.unattributed_revenue.clone()).as_ref() != Some(&unattributed) {
            let told = (report.unattributed, report.unattributed_revenue);
            return Err(format!("unattributed {told:?} instead of {unattributed:?}"));
        }
        let mut sums = Sums::default();
        for link in 0..LINKS {
            let query = ask.query(Some(("link_ids", actor.link(link))));
            sums.add(&self.get(actor, "/v1/analytics/stats", &query).await?);
        }
        sums.compare(&report)
    }

    async fn compare(&self, actor: &Actor, ask: &Ask, of: Option<(&str, String)>) -> Result<FunnelReport, String> {
        let is_account = of.is_none();
        let report: FunnelReport = self.get(actor, "/v1/analytics/stats", &ask.query(of)).await?;
        let (funnel, mut groups) = actor.truth.report(ask, |link| actor.link(link));
        if let Some(links) = groups.as_mut().filter(|_| is_account && ask.group_by == Some(GroupBy::Link)) {
            links.retain(|link| link.clicks > 0);
            links.sort_by(|a, b| b.clicks.cmp(&a.clicks).then_with(|| a.key.cmp(&b.key)));
        }
        if report.funnel != funnel {
            return Err(format!("{:?} instead of {funnel:?}", report.funnel));
        }
        if report.groups != groups {
            let pairs = report.groups.iter().flatten().zip(groups.iter().flatten());
            let differing: Vec<_> = pairs.filter(|(group, expected)| group != expected).take(3).collect();
            return Err(format!("groups (told, expected) {differing:?} of {:?}", report.groups.as_ref().map(Vec::len)));
        }
        Ok(report)
    }

    async fn get<T>(&self, actor: &Actor, path: &str, query: &[(&str, String)]) -> Result<T, String>
    where
        T: serde::de::DeserializeOwned,
    {
        let mut url = url::Url::parse(&format!("{}{path}", self.world.nobody.base())).expect("a URL");
        url.query_pairs_mut().extend_pairs(query);
        let reply = self.http.get(url).bearer_auth(&actor.key).send().await.map_err(|error| error.to_string())?;
        let (status, bytes) = (reply.status(), reply.bytes().await.map_err(|error| error.to_string())?);
        serde_json::from_slice(&bytes).map_err(|error| format!("{status} {error}: {}", String::from_utf8_lossy(&bytes)))
    }

    /// Removes everything from a history that is not needed for a wrong answer.
    async fn shorten(&self, mut history: History, times: &[i64]) -> (History, String) {
        let mut why = None;
        for of_asks in [true, false] {
            let mut nth = 0;
            loop {
                let mut shorter = history.clone();
                match of_asks {
                    true if nth < shorter.asks.len() => drop(shorter.asks.remove(nth)),
                    false if nth < shorter.events.len() => drop(shorter.events.remove(nth)),
                    _ => break,
                }
                match self.play(std::slice::from_ref(&shorter), times).await.pop().flatten() {
                    Some(wrong) => (history, why) = (shorter, Some(wrong)),
                    None => nth += 1,
                }
            }
        }
        (history, why.unwrap_or_else(|| "it went well when it was repeated alone".into()))
    }
}

fn done((status, reply): (u16, Value)) -> Result<Outcome, String> {
    match (status, reply["success"].as_bool(), reply["code"].as_str()) {
        (200, Some(true), _) => Ok(Outcome::Done),
        (409, _, Some("identify_conflict")) => Ok(Outcome::Conflict),
        _ => Err(format!("{status} {reply}")),
    }
}

/// The model itself, on a history whose counts can be computed by hand.
#[test]
fn the_model_counts_a_small_history_right() {
    use deeplink_core::funnel::{Credit, NewUsers, ReturningUsers};
    let mut truth = Truth::default();
    let touch = |link, install| Event::Touch { link, install, model: Some(install) };
    let convert = |after| Event::Convert { user: 0, kind: 1, key: None, after, cents: None };
    for (at, event, outcome) in [
        (10, touch(0, 0), Outcome::Done),
        (20, touch(1, 0), Outcome::Done),
        (15, convert(None), Outcome::Unattributed),
        (30, Event::Identify { install: 0, user: 0 }, Outcome::Done),
        (30, Event::Identify { install: 0, user: 1 }, Outcome::Conflict),
        (40, touch(2, 1), Outcome::Done),
        (50, Event::Identify { install: 1, user: 0 }, Outcome::Done),
        (60, convert(None), Outcome::Accepted),
    ] {
        assert_eq!(truth.add(at, &event), outcome, "{event:?}");
    }
    let funnel = |links: &[usize], credit: Credit| {
        let ask = Ask { links: links.to_vec(), from: 0, to: 100, credit, group_by: None, tz: None };
        let funnel = truth.report(&ask, |_| String::new()).0;
        (funnel.new_users, funnel.returning_users, funnel.conversions.values().sum::<i64>())
    };
    let new = |installed, identified| NewUsers { installed, identified };
    let returning = |new_device, engaged| ReturningUsers { reinstalled: 0, new_device, engaged };
    assert_eq!(funnel(&[0], Credit::LastTouch), (new(1, 0), returning(0, 0), 1));
    assert_eq!(funnel(&[1], Credit::LastTouch), (new(0, 1), returning(0, 1), 0));
    assert_eq!(funnel(&[0], Credit::FirstTouch), (new(1, 1), returning(0, 0), 2));
    assert_eq!(funnel(&[0, 1], Credit::FirstTouch), (new(1, 1), returning(0, 1), 2));
    assert_eq!(funnel(&[1, 2], Credit::Touched), (new(1, 1), returning(1, 1), 1));
}
