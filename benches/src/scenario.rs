//! The scenarios: what is sent, what is counted, what is printed.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::load::{self, Requests};
use crate::process::Server;
use crate::service::Service;

pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) const CONNECTIONS: usize = 64;
pub(crate) const LINKS: usize = 1_000;
/// Headers of a phone's browser, so that visits are classified like real ones.
pub(crate) const BROWSER: &str = "User-Agent: Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en\r\n";

/// A link that shows a landing page.
const PAGE: &str = r#"{"web_url":"https://example.com/","ios_store_url":"https://apps.apple.com/app/id1234567890","ios_deep_link":"myapp://promo/1","agent_context":{"action":"purchase","cta":"Buy now"},"social_preview":{"title":"Spring sale","description":"Everything must go"}}"#;

/// What to measure, and for how long.
pub(crate) struct Plan {
    pub(crate) server: PathBuf,
    pub(crate) dl: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    /// A PostgreSQL server, for scenarios that run on both databases.
    pub(crate) postgres: Option<String>,
}

/// Runs the named scenarios.
pub(crate) async fn run(plan: &Plan, names: &[String]) -> Result<(), Failure> {
    for name in names {
        match name.as_str() {
            "redirect" => {
                visits(plan, "redirect", r#"{"web_url":"https://example.com/landing/page"}"#, BROWSER, "302").await?;
            }
            "json" => {
                let accept = "User-Agent: example-agent/1.0\r\nAccept: application/json\r\n";
                visits(
                    plan,
                    "json",
                    r#"{"web_url":"https://example.com/landing/page","metadata":{"campaign":"spring"}}"#,
                    accept,
                    "200",
                )
                .await?;
            }
            "landing" => {
                visits(plan, "landing", PAGE, BROWSER, "200").await?;
            }
            "clicks" => crate::clicks::run(plan).await?,
            "hosted" => crate::hosted::run(plan).await?,
            "qr" => crate::qr::run(plan).await?,
            "funnel" => crate::funnel::run(plan).await?,
            "key" => crate::access::key(plan).await?,
            "signin-refused" => crate::access::refused_signins(plan).await?,
            "pace" => pace(plan).await?,
            "create" => create(plan).await?,
            "lifecycle" => crate::lifecycle::run(plan).await?,
            "bulk" => bulk(plan).await?,
            "quotas" => crate::billing::quotas(plan).await?,
            "payments" => crate::billing::payments(plan).await?,
            "import" => import(plan).await?,
            "webhooks" => crate::webhooks::run(plan).await?,
            "shares" => Box::pin(crate::shares::run(plan)).await?,
            "nodes" => crate::faults::nodes(plan).await?,
            "outage" => crate::faults::outage(plan).await?,
            "start" => start(plan).await?,
            "memory" => memory(plan).await?,
            "version" => version(plan).await?,
            other => return Err(format!("no such scenario: {other}").into()),
        }
    }
    Ok(())
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
pub(crate) fn ratio(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

fn gets(prefix: &'static str, headers: &'static str) -> Requests {
    gets_at("localhost", "/r/", prefix, headers)
}

/// Visits of every link, in a different order on each connection.
pub(crate) fn gets_at(host: &'static str, path: &'static str, prefix: &'static str, headers: &'static str) -> Requests {
    gets_among(LINKS, host, path, prefix, headers)
}

/// Visits of as many links, each as often as the others, in a different order on each connection.
pub(crate) fn gets_among(
    links: usize,
    host: &'static str,
    path: &'static str,
    prefix: &'static str,
    headers: &'static str,
) -> Requests {
    Rc::new(move |connection, nth| {
        let link = (connection * 7_919 + nth * 31) % links;
        format!("GET {path}{prefix}{link} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").into_bytes()
    })
}

/// Visits of 1,000 links against the yardstick, in turn.
async fn visits(
    plan: &Plan,
    name: &str,
    template: &str,
    headers: &'static str,
    status: &'static str,
) -> Result<(), Failure> {
    let yardstick = Server::start(&std::env::current_exe()?, &["yardstick", "0"], &[]).await?;
    let service = Service::fresh(plan).await?;
    service.make_links("bench-", LINKS, template).await?;
    let time = Duration::from_secs(plan.seconds);
    let (mut ratios, mut ours, mut theirs, mut slow) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut answered = 0;
    let warm = load::run(
        &service.server.address,
        CONNECTIONS,
        Duration::from_secs(1),
        usize::MAX,
        status,
        gets("bench-", headers),
    )
    .await?;
    answered += warm.answers;
    for _ in 0..plan.rounds {
        let (bare, _) = measure(&yardstick, time, "302", headers).await?;
        let (rate, mut seen) = measure(&service.server, time, status, headers).await?;
        answered += seen.answers;
        if seen.wrong > 0 {
            return Err(format!("{} answers were not {status}", seen.wrong).into());
        }
        ratios.push(rate / bare);
        ours.push(rate);
        theirs.push(bare);
        slow.push(seen.quantile_millis(0.99));
    }
    let stored = service.clicks("bench-").await?;
    println!(
        "{name:<10} {:>6.2} x the constant 302 ({:.0} against {:.0} requests per CPU-second), p99 {:.1} ms, {stored} clicks stored of {answered} answered",
        median(&mut ratios),
        median(&mut ours),
        median(&mut theirs),
        median(&mut slow),
    );
    service.server.stop().await?;
    yardstick.stop().await
}

/// Requests per CPU-second of one round; work after the answers (folding clicks) is waited for and included.
async fn measure(
    server: &Server,
    time: Duration,
    status: &'static str,
    headers: &'static str,
) -> Result<(f64, load::LoadResult), Failure> {
    measured(server, time, status, gets("bench-", headers)).await
}

/// The same for any requests.
pub(crate) async fn measured(
    server: &Server,
    time: Duration,
    status: &'static str,
    requests: Requests,
) -> Result<(f64, load::LoadResult), Failure> {
    let before = server.cpu_seconds()?;
    let seen = load::run(&server.address, CONNECTIONS, time, usize::MAX, status, requests).await?;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let used = server.cpu_seconds()? - before;
    Ok((ratio(seen.answers, used), seen))
}

/// How long a landing page takes to its last byte while 64 connections send requests at a steady pace, far below the
/// service's capacity: the wait of one visitor. The first byte comes earlier.
async fn pace(plan: &Plan) -> Result<(), Failure> {
    const EVERY: Duration = Duration::from_millis(40);
    let service = Service::fresh(plan).await?;
    service.make_links("bench-", LINKS, PAGE).await?;
    let (mut half, mut slow, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let time = Duration::from_secs(plan.seconds);
        let requests = gets("bench-", BROWSER);
        let mut seen = load::paced(&service.server.address, CONNECTIONS, time, EVERY, "200", requests).await?;
        if seen.wrong > 0 {
            return Err(format!("{} answers were not 200", seen.wrong).into());
        }
        half.push(seen.quantile_millis(0.5));
        slow.push(seen.quantile_millis(0.99));
        rates.push(ratio(seen.answers, seen.elapsed.as_secs_f64()));
    }
    println!(
        "pace       a landing page in {:.2} ms, p99 {:.2} ms, at {:.0} a second on {CONNECTIONS} connections",
        median(&mut half),
        median(&mut slow),
        median(&mut rates),
    );
    service.server.stop().await
}

/// Durable creates, one link per request.
async fn create(plan: &Plan) -> Result<(), Failure> {
    let service = Service::fresh(plan).await?;
    let fsync = fsync_millis(service.folder.path())?;
    let request = service.post("/v1/links", r#"{"web_url":"https://example.com/landing/page"}"#);
    let mut rates = Vec::new();
    for _ in 0..plan.rounds {
        let requests = request.clone();
        let requests: Requests = Rc::new(move |_, _| requests.clone());
        let mut seen = load::run(
            &service.server.address,
            CONNECTIONS,
            Duration::from_secs(plan.seconds),
            usize::MAX,
            "201",
            requests,
        )
        .await?;
        if seen.wrong > 0 {
            return Err(format!("{} creates were refused", seen.wrong).into());
        }
        rates.push((ratio(seen.answers, seen.elapsed.as_secs_f64()), seen.quantile_millis(0.99)));
    }
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (rate, slow) = rates[rates.len() / 2];
    println!(
        "create     {rate:>6.0} durable links/s with {CONNECTIONS} clients, p99 {slow:.1} ms, one fsync here takes {fsync:.1} ms"
    );
    service.server.stop().await
}

fn fsync_millis(folder: &Path) -> Result<f64, Failure> {
    use std::io::Write;
    let mut file = std::fs::File::create(folder.join("probe"))?;
    let mut times = Vec::new();
    for _ in 0..50 {
        file.write_all(&[1; 4096])?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&mut times))
}

/// Bulk creates of 100 links, different ones in each round.
pub(crate) fn batches(service: &Service, round: usize) -> Requests {
    let key = service.key().to_owned();
    Rc::new(move |connection, nth| {
        let ids: Vec<String> = (0..100).map(|n| format!("\"b{round}-{connection}-{nth}-{n}\"")).collect();
        let body = format!(
            "{{\"template\":{{\"web_url\":\"https://example.com/landing/page\"}},\"custom_ids\":[{}]}}",
            ids.join(",")
        );
        format!("POST /v1/links/bulk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nIdempotency-Key: b{round}-{connection}-{nth}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
}

/// Bulk creates of 100 links, over four connections.
async fn bulk(plan: &Plan) -> Result<(), Failure> {
    let service = Service::fresh(plan).await?;
    let mut rates = Vec::new();
    for round in 0..plan.rounds {
        let requests = batches(&service, round);
        let before = service.server.cpu_seconds()?;
        let seen =
            load::run(&service.server.address, 4, Duration::from_secs(plan.seconds), usize::MAX, "201", requests)
                .await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let used = service.server.cpu_seconds()? - before;
        if seen.wrong > 0 {
            return Err(format!("{} batches were refused", seen.wrong).into());
        }
        rates.push(ratio(seen.answers * 100, used));
    }
    println!("bulk       {:>6.0} rows per CPU-second in batches of 100", median(&mut rates));
    service.server.stop().await
}

/// `dl links import` of a million rows of one template.
async fn import(plan: &Plan) -> Result<(), Failure> {
    const ROWS: usize = 1_000_000;
    let service = Service::fresh(plan).await?;
    let folder = service.folder.path();
    let (csv, key) = (folder.join("links.csv"), folder.join("key"));
    use std::fmt::Write;
    let mut text = String::from("custom_id,web_url\n");
    for n in 0..ROWS {
        writeln!(text, "row-{n:07},https://example.com/landing/page")?;
    }
    std::fs::write(&csv, text)?;
    let report = folder.join("time");
    let started = Instant::now();
    let status = tokio::process::Command::new("/usr/bin/env")
        .args(["bash", "-c", "\"$0\" \"$@\" & pid=$!; peak=0; while kill -0 $pid 2>/dev/null; do p=$(awk '/VmHWM/{print $2}' /proc/$pid/status 2>/dev/null); peak=${p:-$peak}; sleep 0.2; done; wait $pid; code=$?; echo $peak > \"$REPORT\"; exit $code"])
        .arg(&plan.dl)
        .args(["--base-url", &format!("http://{}", service.server.address), "--progress", "off", "links", "import"])
        .arg(&csv)
        .env("REPORT", &report)
        .env("DL_API_KEY_FILE", &key)
        .env("DL_CONFIG_DIR", folder.join("config"))
        .env("DL_STATE_DIR", folder.join("state"))
        .status()
        .await?;
    let seconds = started.elapsed().as_secs_f64();
    let peak: f64 = std::fs::read_to_string(&report)?.trim().parse()?;
    if !status.success() {
        return Err(format!("the import ended with {status}").into());
    }
    println!("import     {seconds:>6.1} s for {ROWS} rows of one template, dl at most {:.0} MiB", peak / 1024.0);
    service.server.stop().await
}

/// From process start to the first answer, on a database with a million links.
async fn start(plan: &Plan) -> Result<(), Failure> {
    let service = Service::fresh(plan).await?;
    service.make_links("row-", 1_000_000, r#"{"web_url":"https://example.com/landing/page"}"#).await?;
    let Service { server, folder, .. } = service;
    server.stop().await?;
    let data = folder.path().join("data");
    let mut times = Vec::new();
    for round in 0..plan.rounds.max(5) {
        let port = 20_000 + u16::try_from(round).unwrap_or(0) + u16::try_from(std::process::id() % 20_000).unwrap_or(0);
        let address = format!("127.0.0.1:{port}");
        let started = Instant::now();
        let mut child = tokio::process::Command::new(&plan.server)
            .env("DEEPLINK_DATA_DIR", &data)
            .env("DEEPLINK_LISTEN", &address)
            .env("DEEPLINK_LOG", "warn")
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let request = b"GET /r/row-77 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        loop {
            if let Ok((status, _)) = load::once(&address, request).await {
                if status != "302" {
                    return Err(format!("the first answer was {status}").into());
                }
                break;
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        times.push(started.elapsed().as_secs_f64() * 1e3);
        child.kill().await?;
    }
    println!("start      {:>6.1} ms to the first redirect on 1,000,000 links", median(&mut times));
    Ok(())
}

/// Resident memory: idle, and with 100,000 links in the cache.
async fn memory(plan: &Plan) -> Result<(), Failure> {
    const CACHED: usize = 100_000;
    let service = Service::fresh(plan).await?;
    service.make_links("row-", CACHED, r#"{"web_url":"https://example.com/landing/page"}"#).await?;
    let Service { server, folder, .. } = service;
    server.stop().await?;
    let service = Service::on(plan, folder, &[]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (idle, _) = service.server.memory_mb()?;
    let per_connection = CACHED / 16;
    let requests: Requests = Rc::new(move |connection, nth| {
        let link = connection * per_connection + nth;
        format!("GET /r/row-{link} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
    });
    let seen = load::run(&service.server.address, 16, Duration::from_mins(2), per_connection, "302", requests).await?;
    let (full, peak) = service.server.memory_mb()?;
    println!(
        "memory     {idle:>6.1} MB idle, {full:.1} MB (at most {peak:.1}) with {} links in the cache",
        seen.answers
    );
    service.server.stop().await
}

/// `dl --version`.
async fn version(plan: &Plan) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..50 {
        let started = Instant::now();
        tokio::process::Command::new(&plan.dl).arg("--version").stdout(std::process::Stdio::null()).status().await?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    println!("version    {:>6.1} ms for dl --version", median(&mut times));
    Ok(())
}
