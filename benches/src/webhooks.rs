//! Webhooks: the cost of a delivery, its delay, and the effect of a hanging receiver on others.
//!
//! The events are first touches, one report each, of eight tenants with a webhook each. The receiver speaks HTTPS on
//! keep-alive connections, in this process, on the core that the server does not use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::load::{self, Connection, LoadResult, Requests};
use crate::receiver::{Authority, Receiver};
use crate::scenario::{BROWSER, CONNECTIONS, Failure, LINKS, Plan, gets_at, measured, median, ratio};
use crate::service::{Service, write_private};

/// Tenants that behave.
const TENANTS: usize = 8;
/// The tenant whose receiver hangs, and whose other webhook subscribes to clicks.
const OTHER: usize = TENANTS;
/// Deliveries waiting for the hanging receiver.
const STALLED: usize = 2_000;
/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// A service, its tenants, and receivers.
struct Stage {
    service: Service,
    keys: Vec<String>,
    /// Each tenant's webhook for first touches.
    hooks: Vec<String>,
    fine: Receiver,
    hangs: Receiver,
}

/// Measures in less than a minute, whatever the plan's seconds.
pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let rounds = plan.rounds.clamp(1, 3);
    let stage = Rc::new(Stage::new(plan).await?);
    backlog(&stage, rounds).await?;
    latency(&stage).await?;
    stalled(&stage).await?;
    clicks(&stage, rounds).await?;
    let stage = Rc::into_inner(stage).ok_or("a round still runs")?;
    stage.service.server.stop().await
}

impl Stage {
    async fn new(plan: &Plan) -> Result<Self, Failure> {
        let authority = Authority::new()?;
        let folder = tempfile::tempdir_in(".")?;
        let roots = folder.path().join("roots.pem");
        std::fs::write(&roots, authority.pem())?;
        let data = folder.path().join("data");
        let mut keys = Vec::new();
        for tenant in 0..=OTHER {
            let made = tokio::process::Command::new(&plan.server)
                .args(["tenant", "create", "--json", "--email", &format!("{tenant}@example.com")])
                .env("DEEPLINK_DATA_DIR", &data)
                .stderr(Stdio::null())
                .output()
                .await?;
            let made: Value = serde_json::from_slice(&made.stdout)?;
            keys.push(made["api_key"].as_str().ok_or("no key")?.to_owned());
        }
        write_private(&folder.path().join("key"), &keys[0])?;
        let roots = roots.to_str().ok_or("path")?.to_owned();
        let settings = [("DEEPLINK_OUTBOUND_CA", &*roots), ("DEEPLINK_OUTBOUND_ALLOW", "127.0.0.0/8")];
        let service = Service::on(plan, folder, &settings).await?;
        service.make_links("bench-", LINKS, r#"{"web_url":"https://example.com/landing/page"}"#).await?;
        let (fine, hangs) = (Receiver::start(&authority)?, Receiver::start(&authority)?);
        hangs.set_open(false);
        let mut stage = Self { service, keys, hooks: Vec::new(), fine, hangs };
        for tenant in 0..=OTHER {
            let link = format!(r#"{{"web_url":"https://example.com/","custom_id":"own-{tenant}"}}"#);
            stage.ask(tenant, "POST", "/v1/links", &link, "201").await?;
            let to = if tenant == OTHER { &stage.hangs } else { &stage.fine };
            let hook = stage.hook(tenant, to, "attribute").await?;
            stage.hooks.push(hook);
        }
        Ok(stage)
    }

    /// Creates a webhook and returns its id.
    async fn hook(&self, tenant: usize, to: &Receiver, event: &str) -> Result<String, Failure> {
        let body = format!(r#"{{"url":"{}","events":["{event}"]}}"#, to.url);
        let made = self.ask(tenant, "POST", "/v1/webhooks", &body, "201").await?;
        Ok(made["id"].as_str().ok_or("no id")?.to_owned())
    }

    /// One request of a tenant, which must be answered with this status.
    async fn ask(&self, tenant: usize, method: &str, path: &str, body: &str, status: &str) -> Result<Value, Failure> {
        let request = request(&self.keys[tenant], method, path, body);
        let (answered, body) = load::once(&self.service.server.address, &request).await?;
        if answered == status { Ok(serde_json::from_str(&body)?) } else { Err(format!("{path}: {body}").into()) }
    }

    /// The report of an install's first touch.
    fn touch(&self, tenant: usize, install: &str) -> Vec<u8> {
        let body = format!(r#"{{"link_id":"own-{tenant}","install_id":"{install}","app_version":"1.0"}}"#);
        request(&self.keys[tenant], "POST", "/v1/lifecycle/attribute", &body)
    }

    /// Reports of all tenants that behave.
    fn touches(self: &Rc<Self>, name: String) -> Requests {
        let stage = Rc::clone(self);
        Rc::new(move |connection, nth| stage.touch(connection % TENANTS, &format!("{name}-{connection}-{nth}")))
    }

    /// Waits until `answered` posts were answered and the service has stored that nothing is pending.
    async fn all_arrived(&self, answered: u64) -> Result<(), Failure> {
        let began = Instant::now();
        while self.fine.answered() < answered {
            in_time(began)?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for tenant in 0..TENANTS {
            self.nothing_waits(tenant, began).await?;
        }
        Ok(())
    }

    async fn nothing_waits(&self, tenant: usize, began: Instant) -> Result<(), Failure> {
        let path = format!("/v1/webhooks/{}/deliveries?status=pending&limit=1", self.hooks[tenant]);
        while self.ask(tenant, "GET", &path, "", "200").await?["deliveries"] != Value::Array(Vec::new()) {
            in_time(began)?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

fn in_time(began: Instant) -> Result<(), Failure> {
    if began.elapsed() < PATIENCE { Ok(()) } else { Err("the deliveries do not arrive".into()) }
}

fn request(key: &str, method: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Deliveries per CPU-second of the server, including everything: reading due deliveries, signing, TLS, the answer, the
/// attempt's log, and storing the result.
///
/// Events are reported for two seconds while the receiver holds its posts, so that all but the first eight posts of
/// each tenant wait in the database. Then it releases them, and CPU time is counted until nothing is pending. The
/// second figure counts from the first report, so it includes the report, its event and its delivery.
async fn backlog(stage: &Rc<Stage>, rounds: usize) -> Result<(), Failure> {
    let server = &stage.service.server;
    let (mut rates, mut wholes, mut counts, mut seconds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let before = stage.fine.answered();
        stage.fine.set_open(false);
        let started = server.cpu_seconds()?;
        let time = Duration::from_secs(2);
        let touches = stage.touches(format!("backlog-{round}"));
        let seen = load::run(&server.address, CONNECTIONS, time, usize::MAX, "200", touches).await?;
        refuse_wrong(&seen)?;
        let reported = server.cpu_seconds()?;
        let opened = Instant::now();
        stage.fine.set_open(true);
        stage.all_arrived(before + seen.answers).await?;
        seconds.push(opened.elapsed().as_secs_f64());
        let ended = server.cpu_seconds()?;
        rates.push(ratio(seen.answers, ended - reported));
        wholes.push(ratio(seen.answers, ended - started));
        counts.push(ratio(seen.answers, 1.0));
    }
    println!(
        "webhooks   {:>6.0} deliveries per CPU-second from a backlog of {:.0} ({:.1} s); {:.0} per CPU-second with the reports themselves",
        median(&mut rates),
        median(&mut counts),
        median(&mut seconds),
        median(&mut wholes),
    );
    Ok(())
}

fn refuse_wrong(seen: &LoadResult) -> Result<(), Failure> {
    if seen.wrong == 0 { Ok(()) } else { Err(format!("{} requests were refused", seen.wrong).into()) }
}

/// Reports first touches at a steady pace over 16 connections, and returns the time from each acknowledgement, which
/// follows the commit, until the post's first bytes reached the receiver. A post that arrived first counts as zero.
async fn delays(stage: &Rc<Stage>, name: &'static str, every: Duration, time: Duration) -> Result<LoadResult, Failure> {
    const CONNECTIONS: u32 = 16;
    let before = stage.fine.answered();
    stage.fine.note();
    let acknowledged = Rc::<RefCell<HashMap<String, Instant>>>::default();
    let local = tokio::task::LocalSet::new();
    let began = Instant::now();
    let report = |number: u32| {
        let (stage, acknowledged) = (Rc::clone(stage), Rc::clone(&acknowledged));
        async move {
            let tenant = usize::try_from(number)? % TENANTS;
            let mut connection = Connection::to(&stage.service.server.address).await?;
            for nth in (number..).step_by(CONNECTIONS as usize).take_while(|nth| every * *nth < time) {
                tokio::time::sleep_until((began + every * nth).into()).await;
                let install = format!("{name}-{nth}");
                if !connection.ask(&stage.touch(tenant, &install), "200").await? {
                    return Err("a report was refused".into());
                }
                acknowledged.borrow_mut().insert(install, Instant::now());
            }
            Ok::<(), Failure>(())
        }
    };
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let report = report(number);
            local.spawn_local(async move { report.await.map_err(|error| error.to_string()) })
        })
        .collect();
    local
        .run_until(async {
            for task in tasks {
                task.await??;
            }
            Ok::<(), Failure>(())
        })
        .await?;
    let mut acknowledged = acknowledged.take();
    stage.all_arrived(before + u64::try_from(acknowledged.len())?).await?;
    let mut seen = LoadResult::default();
    for heard in stage.fine.noted() {
        let event: Value = serde_json::from_slice(&heard.body)?;
        let install = event["data"]["install_id"].as_str().ok_or("no install")?;
        if let Some(acknowledged) = acknowledged.remove(install) {
            seen.took(heard.at.saturating_duration_since(acknowledged));
        }
    }
    if acknowledged.is_empty() { Ok(seen) } else { Err(format!("{} did not arrive", acknowledged.len()).into()) }
}

/// From the acknowledgement to the receiver, at 500 events a second of eight tenants.
async fn latency(stage: &Rc<Stage>) -> Result<(), Failure> {
    let mut seen = delays(stage, "pace", Duration::from_millis(2), Duration::from_secs(5)).await?;
    println!(
        "webhooks   {:>6.1} ms from the acknowledgement to the receiver, p99 {:.1} ms, at 500 events a second",
        seen.quantile_millis(0.5),
        seen.quantile_millis(0.99),
    );
    Ok(())
}

/// The 99th percentiles of others' 1,000 visits, 250 reads of a link and 100 deliveries a second.
async fn others(stage: &Rc<Stage>, name: &'static str) -> Result<[f64; 3], Failure> {
    let address = &stage.service.server.address;
    let (connections, time) = (16, Duration::from_secs(4));
    let read = stage.service.get("/v1/links/bench-0");
    let reads: Requests = Rc::new(move |_, _| read.clone());
    let visits = gets_at("localhost", "/r/", "bench-", BROWSER);
    let (visits, reads, arrivals) = tokio::join!(
        load::paced(address, connections, time, Duration::from_millis(16), "302", visits),
        load::paced(address, connections, time, Duration::from_millis(64), "200", reads),
        delays(stage, name, Duration::from_millis(10), time),
    );
    let mut all = [visits?, reads?, arrivals?];
    all.iter().try_for_each(refuse_wrong)?;
    Ok(all.each_mut().map(|seen| seen.quantile_millis(0.99)))
}

/// The same alone, and while 2,000 deliveries wait for another tenant's receiver, which accepts them and never answers.
async fn stalled(stage: &Rc<Stage>) -> Result<(), Failure> {
    let [visit, read, arrival] = others(stage, "alone").await?;
    let piling = {
        let stage = Rc::clone(stage);
        Rc::new(move |connection, nth| stage.touch(OTHER, &format!("stalled-{connection}-{nth}")))
    };
    let address = &stage.service.server.address;
    let seen = load::run(address, 16, PATIENCE, STALLED / 16, "200", piling).await?;
    refuse_wrong(&seen)?;
    let [visit_beside, read_beside, arrival_beside] = others(stage, "beside").await?;
    println!(
        "webhooks   {visit_beside:>6.1} ms p99 of a visit while another tenant's receiver hangs ({visit:.1} alone), {read_beside:.1} ms of a read ({read:.1} alone), {arrival_beside:.1} ms of others' deliveries ({arrival:.1} alone), {} pending",
        seen.answers - stage.hangs.answered(),
    );
    stage.hangs.set_open(true);
    stage.nothing_waits(OTHER, Instant::now()).await
}

/// Redirects per CPU-second of one tenant's links, without any webhook for clicks and with another tenant's.
async fn clicks(stage: &Rc<Stage>, rounds: usize) -> Result<(), Failure> {
    let hook = stage.hook(OTHER, &stage.fine, "click").await?;
    let mut ratios = Vec::new();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // The second one finds more clicks in the database, so they alternate.
        for active in [round % 2 == 1, round % 2 == 0] {
            let body = format!(r#"{{"active":{active}}}"#);
            stage.ask(OTHER, "PATCH", &format!("/v1/webhooks/{hook}"), &body, "200").await?;
            let visits = gets_at("localhost", "/r/", "bench-", BROWSER);
            let (rate, seen) = measured(&stage.service.server, Duration::from_secs(1), "302", visits).await?;
            refuse_wrong(&seen)?;
            if active { &mut with } else { &mut without }.push(rate);
        }
        ratios.push(with[round] / without[round]);
    }
    println!(
        "webhooks   {:>6.2} x the redirects when another tenant has a webhook for clicks ({:.0} against {:.0} per CPU-second)",
        median(&mut ratios),
        median(&mut with),
        median(&mut without),
    );
    Ok(())
}
