//! The cost of reports: the median time of a query over HTTP, minus that of a bare request, on a database made by
//! [`crate::generate`].

use std::rc::Rc;
use std::time::Duration;

use deeplink_core::session::COOKIE;
use deeplink_core::time::Timestamp;

use crate::generate::{self, Amounts};
use crate::load::{self, Requests};
use crate::scenario::{Failure, Plan};
use crate::service::Service;

/// How many times each query is sent.
const TIMES: usize = 60;

/// Fills databases and measures.
pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let year = Amounts {
        database: "".into(),
        clicks: 5_000_000,
        links: 20_000,
        installs: 300_000,
        touches: 1_000_000,
        conversions: 200_000,
        days: 90,
        seed: 1,
    };
    let service = filled(plan, &year).await?;
    measure(&service, "funnel", year.links, 30).await?;
    service.server.stop().await?;
    let wide = Amounts { links: 500_000, ..year.clone() };
    let service = filled(plan, &wide).await?;
    measure_account(&service, "500,000", 30).await?;
    service.server.stop().await?;
    // Ten times the clicks and links, at the same rate: the window of ten days holds the same amount.
    let short = Amounts {
        clicks: 1_000_000,
        links: 4_000,
        installs: 60_000,
        touches: 200_000,
        conversions: 40_000,
        days: 18,
        ..year.clone()
    };
    let long = Amounts {
        clicks: 10_000_000,
        links: 40_000,
        installs: 600_000,
        touches: 2_000_000,
        conversions: 400_000,
        days: 180,
        ..year
    };
    for (name, amounts) in [("funnel 1 M", short), ("funnel 10 M", long)] {
        let service = filled(plan, &amounts).await?;
        measure(&service, name, amounts.links, 10).await?;
        service.server.stop().await?;
    }
    Ok(())
}

/// A service with this much data.
async fn filled(plan: &Plan, amounts: &Amounts) -> Result<Service, Failure> {
    let folder = Service::fresh(plan).await?.stopped().await?;
    let database = folder.path().join("data").join("deeplink.db");
    generate::run(&Amounts { database, ..amounts.clone() }).await?;
    let country = [("DEEPLINK_COUNTRY_HEADER", "cf-ipcountry"), ("DEEPLINK_TRUSTED_PROXIES", "127.0.0.1")];
    let service = Service::on(plan, folder, &country).await?;
    let request = service.get("/v1/analytics/stats?from=2020-01-01T00:00:00Z");
    let (_, report) = load::once(&service.server.address, &request).await?;
    let report: serde_json::Value = serde_json::from_str(&report)?;
    if report["funnel"]["clicks"] == 0 {
        return Err("the clicks were not counted".into());
    }
    Ok(service)
}

async fn measure_account(service: &Service, name: &str, days: i64) -> Result<(), Failure> {
    let (_, window) = window_of(service, days).await?;
    let bare = time(service, "/health").await?;
    let print = |what: String, millis: f64| print_time(name, &what, millis - bare);
    let account = format!("/v1/analytics/stats?{window}");
    print("the account".into(), time(service, &account).await?);
    for by in ["day", "hour", "platform", "referer_host", "browser", "country", "link"] {
        print(format!("the account, by {by}"), time(service, &format!("{account}&group_by={by}")).await?);
    }
    let page = format!(
        "GET /account HTTP/1.1\r\nHost: {}\r\nCookie: {COOKIE}={}\r\n\r\n",
        service.server.address,
        generate::SESSION
    );
    print("the overview page, 30 days".into(), time_of(service, page.into_bytes()).await?);
    Ok(())
}

fn print_time(name: &str, what: &str, millis: f64) {
    println!("{name:<12}{what:<44}{millis:>8.2} ms");
}

async fn measure(service: &Service, name: &str, links: usize, days: i64) -> Result<(), Failure> {
    measure_account(service, name, days).await?;
    let (now, window) = window_of(service, days).await?;
    let bare = time(service, "/health").await?;
    let print = |what: String, millis: f64| print_time(name, &what, millis - bare);
    let hottest: Vec<usize> = (0..100).collect();
    let some: Vec<usize> = (0..100).map(|nth| (nth * 7_919 + 13) % links).collect();
    let sets =
        [("the hottest link", &hottest[..1]), ("100 links at random", &some), ("the 100 hottest links", &hottest)];
    for (what, asked) in sets {
        let ids: Vec<String> = asked.iter().map(|nth| format!("bench-{nth}")).collect();
        let path = format!("/v1/analytics/stats?link_ids={}&{window}", ids.join(","));
        for credit in ["last_touch", "first_touch", "touched"] {
            print(format!("{what}, {credit}"), time(service, &format!("{path}&credit={credit}")).await?);
        }
        for by in ["day", "link", "platform", "referer_host"] {
            print(format!("{what}, by {by}"), time(service, &format!("{path}&group_by={by}")).await?);
        }
    }
    let series = |rest: &str| format!("/v1/links/bench-0/timeseries?{rest}");
    print("days of the hottest link".into(), time(service, &series(&window)).await?);
    print("hours of the hottest link".into(), time(service, &series(&format!("granularity=hourly&{window}"))).await?);
    let day = series(&format!("from={}&to={now}", now.plus_days(-1)));
    print("clicks of the hottest link in a day".into(), time(service, &day).await?);
    Ok(())
}

/// A window of `days` days until now, as query parameters.
async fn window_of(service: &Service, days: i64) -> Result<(Timestamp, String), Failure> {
    let (_, report) = load::once(&service.server.address, &service.get("/v1/analytics/stats?link_ids=bench-0")).await?;
    let report: serde_json::Value = serde_json::from_str(&report)?;
    let now: Timestamp = report["to"].as_str().ok_or("no end")?.parse()?;
    Ok((now, format!("from={}&to={now}", now.plus_days(-days))))
}

/// The median time of a request, in milliseconds.
async fn time(service: &Service, path: &str) -> Result<f64, Failure> {
    time_of(service, service.get(path)).await
}

async fn time_of(service: &Service, request: Vec<u8>) -> Result<f64, Failure> {
    let asked = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
    let requests: Requests = Rc::new(move |_, _| request.clone());
    let mut seen = load::run(&service.server.address, 1, Duration::from_secs(30), TIMES, "200", requests).await?;
    if seen.wrong > 0 {
        return Err(format!("{asked} was not answered 200").into());
    }
    Ok(seen.quantile_millis(0.5))
}
