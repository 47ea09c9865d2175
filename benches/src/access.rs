//! The cost of authenticating callers, and of refusing those that call too often.

use std::rc::Rc;
use std::time::Duration;

use crate::load::{self, Requests};
use crate::scenario::{CONNECTIONS, Failure, Plan, measured, median, ratio};
use crate::service::Service;

/// Not a link id, so nothing more is looked up once the caller is known.
const NO_LINK: &str = "DELETE /v1/links/_ HTTP/1.1\r\nHost: localhost\r\n";

fn same(request: String) -> Requests {
    Rc::new(move |_, _| request.clone().into_bytes())
}

/// The cost of a cached key: the same request with and without it, next to a complete request.
pub(crate) async fn key(plan: &Plan) -> Result<(), Failure> {
    let service = Service::fresh(plan).await?;
    service.make_links("bench-", 1, r#"{"web_url":"https://example.com/landing/page"}"#).await?;
    let bearer = format!("Authorization: Bearer {}\r\n\r\n", service.key());
    let kinds = [
        ("404", same(format!("{NO_LINK}{bearer}"))),
        ("401", same(format!("{NO_LINK}\r\n"))),
        ("200", same(format!("GET /v1/links/bench-0 HTTP/1.1\r\nHost: localhost\r\n{bearer}"))),
    ];
    for (status, requests) in &kinds {
        let second = Duration::from_secs(1);
        load::run(&service.server.address, CONNECTIONS, second, usize::MAX, status, Rc::clone(requests)).await?;
    }
    let (mut keys, mut wholes) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let mut micros = [0.0; 3];
        for (micros, (status, requests)) in micros.iter_mut().zip(&kinds) {
            let time = Duration::from_secs(plan.seconds);
            let (rate, seen) = measured(&service.server, time, status, Rc::clone(requests)).await?;
            if seen.wrong > 0 {
                return Err(format!("{} answers were not {status}", seen.wrong).into());
            }
            *micros = 1e6 / rate;
        }
        let [known, unknown, whole] = micros;
        keys.push(known - unknown);
        wholes.push(whole);
    }
    println!(
        "key        {:>6.1} µs of CPU to know who calls, of {:.1} µs for showing a link",
        median(&mut keys),
        median(&mut wholes),
    );
    service.server.stop().await
}

/// A thousand sign-ins a second that the limit refuses, as a share of one core.
pub(crate) async fn refused_signins(plan: &Plan) -> Result<(), Failure> {
    const PER_SECOND: f64 = 1_000.0;
    // 64 connections, each once in 64 ms.
    const EVERY: Duration = Duration::from_millis(64);
    const BODY: &str = r#"{"email":"you@example.com"}"#;
    let service = Service::with(plan, &[("DEEPLINK_LIMIT_SIGNIN", "1")]).await?;
    let request = format!(
        "POST /v1/auth/signin HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    // The one request that the limit allows.
    load::once(&service.server.address, request.as_bytes()).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut shares = Vec::new();
    for _ in 0..plan.rounds {
        let time = Duration::from_secs(plan.seconds);
        let before = service.server.cpu_seconds()?;
        let requests = same(request.clone());
        let seen = load::paced(&service.server.address, CONNECTIONS, time, EVERY, "429", requests).await?;
        let used = service.server.cpu_seconds()? - before;
        // The limit lets one through each minute.
        if seen.wrong > 1 {
            return Err(format!("{} sign-ins were not refused", seen.wrong).into());
        }
        shares.push(used * PER_SECOND / ratio(seen.answers, 1.0) * 100.0);
    }
    println!("signin-refused {:>6.1} % of a core for 1,000 refused sign-ins a second", median(&mut shares));
    service.server.stop().await
}
