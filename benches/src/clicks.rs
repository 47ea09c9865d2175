//! The cost of a click: redirects of one link, of 1,000 and of 100,000 on both databases; their latency at a steady
//! pace; and a report at once after a burst.

use std::time::{Duration, Instant};

use crate::load::{self, Requests};
use crate::process::{self, Server};
use crate::scenario::{BROWSER, CONNECTIONS, Failure, Plan, gets_among, median, ratio};
use crate::service::{Service, write_private};
use crate::shares;

const LINK: &str = r#"{"web_url":"https://example.com/landing/page"}"#;
/// 20,000 requests a second on all connections.
const PACE: Duration = Duration::from_micros(3_200);
const BURST: usize = 100_000;

pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    for links in [1, 1_000, 100_000] {
        let service = Service::fresh(plan).await?;
        against_the_yardstick(plan, &service, "SQLite", links).await?;
        if links == 1_000 {
            steady(plan, &service, links).await?;
        }
        if links == 1 {
            burst(plan, &service).await?;
        }
        service.server.stop().await?;
    }
    if let Some(url) = &plan.postgres {
        for links in [1, 1_000, 100_000] {
            let database = shares::database(url, &format!("clicks_{links}")).await?;
            let settings = [("DEEPLINK_DATABASE_URL", &*database)];
            let folder = tempfile::tempdir_in(".")?;
            let key = shares::account(plan, &folder.path().join("data"), &settings, "clicks").await?;
            write_private(&folder.path().join("key"), &key)?;
            let service = Service::on(plan, folder, &settings).await?;
            against_the_yardstick(plan, &service, "PostgreSQL", links).await?;
            service.server.stop().await?;
        }
    }
    Ok(())
}

fn visits(links: usize) -> Requests {
    gets_among(links, "localhost", "/r/", "bench-", BROWSER)
}

/// Redirects per CPU-second, loading and counting included, against a constant 302, in turn.
async fn against_the_yardstick(plan: &Plan, service: &Service, database: &str, links: usize) -> Result<(), Failure> {
    let yardstick = Server::start(&std::env::current_exe()?, &["yardstick", "0"], &[]).await?;
    service.make_links("bench-", links, LINK).await?;
    let address = &service.server.address;
    // Every link is in the cache, as far as it fits.
    let mut answered =
        load::run(address, CONNECTIONS, Duration::from_mins(1), links.div_ceil(CONNECTIONS), "302", visits(links))
            .await?
            .answers;
    settle(service).await?;
    let time = Duration::from_secs(plan.seconds);
    let (mut ratios, mut slow, mut of_database) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let before = yardstick.cpu_seconds()?;
        let bare = load::run(&yardstick.address, CONNECTIONS, time, usize::MAX, "302", visits(links)).await?;
        let bare = ratio(bare.answers, yardstick.cpu_seconds()? - before);
        let (before, stored) = (service.server.cpu_seconds()?, process::cpu_seconds_of("postgres")?);
        let mut seen = load::run(address, CONNECTIONS, time, usize::MAX, "302", visits(links)).await?;
        settle(service).await?;
        if seen.wrong > 0 {
            return Err(format!("{} answers were not 302", seen.wrong).into());
        }
        ratios.push(ratio(seen.answers, service.server.cpu_seconds()? - before) / bare);
        of_database.push(1e6 / ratio(seen.answers, process::cpu_seconds_of("postgres")? - stored));
        slow.push(seen.quantile_millis(0.99));
        answered += seen.answers;
    }
    let counted = counted(service, links).await?;
    let (ratio, slow, micros) = (median(&mut ratios), median(&mut slow), median(&mut of_database));
    let of_database =
        if database == "PostgreSQL" { format!(", {micros:.1} µs of its CPU a click") } else { String::new() };
    println!(
        "clicks     {ratio:>6.2} x the constant 302 on {database} with {links} links, p99 {slow:.1} ms, {counted} counted of {answered} answered{of_database}"
    );
    yardstick.stop().await
}

/// Redirects at a steady pace, whether or not earlier ones are answered.
async fn steady(plan: &Plan, service: &Service, links: usize) -> Result<(), Failure> {
    let (mut slow, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let time = Duration::from_secs(plan.seconds);
        let address = &service.server.address;
        let mut seen = load::paced(address, CONNECTIONS, time, PACE, "302", visits(links)).await?;
        rates.push(ratio(seen.answers, seen.elapsed.as_secs_f64()));
        slow.push(seen.quantile_millis(0.99));
    }
    println!("clicks     {:>6.2} ms p99 of a redirect at {:.0} a second", median(&mut slow), median(&mut rates));
    Ok(())
}

/// A report at once after a burst of clicks on one link.
async fn burst(plan: &Plan, service: &Service) -> Result<(), Failure> {
    let mut times = Vec::new();
    for _ in 0..plan.rounds {
        let before = counted(service, 1).await?;
        let each = BURST / CONNECTIONS;
        let seen =
            load::run(&service.server.address, CONNECTIONS, Duration::from_mins(1), each, "302", visits(1)).await?;
        let asked = Instant::now();
        let after = counted(service, 1).await?;
        times.push(asked.elapsed().as_secs_f64() * 1e3);
        if after - before != seen.answers {
            return Err(format!("a report counted {} of {} clicks", after - before, seen.answers).into());
        }
    }
    println!("clicks     {:>6.1} ms for an exact report at once after {BURST} clicks", median(&mut times));
    Ok(())
}

/// Waits until the service has nothing left to do: a report has what came counted.
async fn settle(service: &Service) -> Result<(), Failure> {
    loop {
        counted(service, 1).await?;
        let before = service.server.cpu_seconds()?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        if service.server.cpu_seconds()? - before < 0.03 {
            return Ok(());
        }
    }
}

/// The clicks of the links, as reports say.
pub(crate) async fn counted(service: &Service, links: usize) -> Result<u64, Failure> {
    let mut all = 0;
    for first in (0..links).step_by(100) {
        let ids: Vec<String> = (first..(first + 100).min(links)).map(|n| format!("bench-{n}")).collect();
        let path = format!("/v1/analytics/stats?link_ids={}", ids.join(","));
        let (status, body) = load::once(&service.server.address, &service.get(&path)).await?;
        let report: serde_json::Value = serde_json::from_str(&body)?;
        all += report["funnel"]["clicks"].as_u64().ok_or_else(|| format!("a report answered {status}: {body}"))?;
    }
    Ok(all)
}
