//! The worst that one caller can do to others: another account's redirects, creates and key look-ups beside 160
//! connections of bulk creates and of filtered lists, and the memory held by requests and answers that are never
//! completed.
//!
//! On SQLite, and then on the PostgreSQL server that `--postgres` names.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use deeplink_core::secret::{Random, SecretKey};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::load::{self, LoadResult, Requests};
use crate::scenario::{BROWSER, Failure, Plan, median};
use crate::service::{Service, write_private};
use crate::unread;

/// Connections of the abusive tenant.
const CROWD: usize = 160;
/// Minimum interval of each of them: immediate refusals must not let the load take the whole core.
const CROWD_PACE: Duration = Duration::from_millis(50);
/// Connections for each of the other account's requests: enough that no request waits for an earlier one on its connection,
/// and few enough that the account stays below its own share.
const OTHERS: usize = 10;
const OTHERS_PACE: Duration = Duration::from_millis(200);
/// Links of the tenant that lists them.
const LISTED: usize = 400_000;
/// Links of the other account; each is visited at most once, so that none is cached.
const VISITED: usize = 40_000;
const LINK: &str = r#"{"web_url":"https://example.com/landing/page"}"#;

/// A service with two accounts.
pub(crate) struct Stage {
    pub(crate) service: Service,
    /// The key of the second account.
    other: String,
    next_visit: Rc<Cell<usize>>,
}

pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let stage = Stage::new(plan, None).await?;
    latencies(plan, &stage, "SQLite").await?;
    stage.service.server.stop().await?;
    if let Some(url) = &plan.postgres {
        let stage = Stage::new(plan, Some(database(url, "shares").await?)).await?;
        latencies(plan, &stage, "PostgreSQL").await?;
        stage.service.server.stop().await?;
    }
    Box::pin(unread::run(plan)).await
}

/// A new database on this PostgreSQL server.
pub(crate) async fn database(url: &str, prefix: &str) -> Result<String, Failure> {
    let name = format!("{prefix}_{}", std::process::id());
    let mut server = PgConnection::connect(url).await?;
    sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}"))).execute(&mut server).await?;
    let (before, _) = url.rsplit_once('/').ok_or("no database in the URL")?;
    Ok(format!("{before}/{name}"))
}

/// Makes an account and returns its key.
pub(crate) async fn account(
    plan: &Plan,
    data: &Path,
    settings: &[(&str, &str)],
    name: &str,
) -> Result<String, Failure> {
    let made = tokio::process::Command::new(&plan.server)
        .args(["tenant", "create", "--json", "--email", &format!("{name}@example.com")])
        .env("DEEPLINK_DATA_DIR", data)
        .envs(settings.iter().copied())
        .stderr(std::process::Stdio::null())
        .output()
        .await?;
    let made: Value = serde_json::from_slice(&made.stdout)?;
    Ok(made["api_key"].as_str().ok_or("no key")?.to_owned())
}

impl Stage {
    async fn new(plan: &Plan, database: Option<String>) -> Result<Self, Failure> {
        let folder = tempfile::tempdir_in(".")?;
        let data: PathBuf = folder.path().join("data");
        let settings: Vec<(&str, &str)> =
            database.as_deref().map(|url| ("DEEPLINK_DATABASE_URL", url)).into_iter().collect();
        let mut keys = Vec::new();
        for name in ["crowd", "other"] {
            keys.push(account(plan, &data, &settings, name).await?);
        }
        write_private(&folder.path().join("key"), &keys[0])?;
        let service = Service::on(plan, folder, &settings).await?;
        service.make_links("listed-", LISTED, LINK).await?;
        let stage = Self { service, other: keys.remove(1), next_visit: Rc::default() };
        for first in (0..VISITED).step_by(100) {
            let ids: Vec<String> = (first..first + 100).map(|n| format!("\"seen-{n}\"")).collect();
            let body = format!("{{\"template\":{LINK},\"custom_ids\":[{}]}}", ids.join(","));
            let request = post(&stage.other, "/v1/links/bulk", &body);
            let (status, answer) = load::once(&stage.service.server.address, &request).await?;
            if status != "201" {
                return Err(format!("bulk answered {status}: {answer}").into());
            }
        }
        Ok(stage)
    }

    /// Another account's wait for a redirect, a create and an uncached key: p99 in milliseconds.
    async fn others(&self, time: Duration) -> Result<[f64; 3], Failure> {
        let address = &self.service.server.address;
        let next = Rc::clone(&self.next_visit);
        let visits: Requests = Rc::new(move |_, _| {
            let nth = next.replace(next.get() + 1) % VISITED;
            format!("GET /r/seen-{nth} HTTP/1.1\r\nHost: localhost\r\n{BROWSER}\r\n").into_bytes()
        });
        let create = post(&self.other, "/v1/links", LINK);
        let creates: Requests = Rc::new(move |_, _| create.clone());
        // A key that does not exist is looked up each time.
        let random = Cell::new(Some(Random::system()));
        let keys: Requests = Rc::new(move |_, _| {
            let mut drawn = random.take().unwrap_or_else(Random::system);
            let key = SecretKey::generate(&mut drawn);
            random.set(Some(drawn));
            get(key.expose(), "/v1/links/none")
        });
        let (visits, creates, keys) = tokio::join!(
            load::paced(address, OTHERS, time, OTHERS_PACE, "302", visits),
            load::paced(address, OTHERS, time, OTHERS_PACE, "201", creates),
            load::paced(address, OTHERS, time, OTHERS_PACE, "401", keys),
        );
        let mut slow = [0.0; 3];
        for (slow, (name, seen)) in slow.iter_mut().zip([("redirects", visits), ("creates", creates), ("keys", keys)]) {
            let mut seen = seen?;
            if seen.wrong > 0 {
                println!("shares     !! {} of {} {name} of the other account were refused", seen.wrong, seen.answers);
            }
            *slow = seen.quantile_millis(0.99);
        }
        Ok(slow)
    }
}

/// The other account alone, beside bulk creates, and beside lists.
async fn latencies(plan: &Plan, stage: &Stage, database: &str) -> Result<(), Failure> {
    let time = Duration::from_secs(plan.seconds);
    let address = &stage.service.server.address;
    let (key, lists) = (stage.service.key().to_owned(), stage.service.get("/v1/links?limit=1&status=flagged"));
    let round = Cell::new(0_usize);
    // A row of 8 KB, close to the maximum of a link.
    let template = format!(
        r#"{{"web_url":"https://example.com/{0}","ios_deep_link":"myapp://{0}","metadata":{{"note":"{0}{0}"}}}}"#,
        "d".repeat(1_950)
    );
    let bulk = || -> Requests {
        let (key, template) = (key.clone(), template.clone());
        let round = round.replace(round.get() + 1);
        Rc::new(move |connection, nth| {
            let ids: Vec<String> = (0..100).map(|n| format!("\"w{round}-{connection}-{nth}-{n}\"")).collect();
            post(&key, "/v1/links/bulk", &format!("{{\"template\":{template},\"custom_ids\":[{}]}}", ids.join(",")))
        })
    };
    let list = || -> Requests {
        let lists = lists.clone();
        Rc::new(move |_, _| lists.clone())
    };
    let mut rows: [(&str, Vec<[f64; 3]>, LoadResult); 3] = [
        ("alone", Vec::new(), LoadResult::default()),
        ("beside 160 connections of bulk creates", Vec::new(), LoadResult::default()),
        ("beside 160 connections of filtered lists", Vec::new(), LoadResult::default()),
    ];
    for _ in 0..plan.rounds {
        rows[0].1.push(stage.others(time).await?);
        for (row, requests, status) in [(1, bulk(), "201"), (2, list(), "200")] {
            let (slow, crowd) =
                tokio::join!(stage.others(time), load::paced(address, CROWD, time, CROWD_PACE, status, requests),);
            rows[row].1.push(slow?);
            rows[row].2 = crowd?;
        }
    }
    for (name, slow, crowd) in rows {
        let [redirect, create, key] =
            [0, 1, 2].map(|at| median(&mut slow.iter().map(|each| each[at]).collect::<Vec<f64>>()));
        println!(
            "shares     {database}: another account's p99 {name}: redirect {redirect:.1} ms, create {create:.1} ms, key {key:.1} ms; {} answered to the crowd, {} of them refused",
            crowd.answers, crowd.wrong
        );
    }
    Ok(())
}

pub(crate) fn get(key: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n").into_bytes()
}

fn post(key: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
