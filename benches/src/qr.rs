//! The cost of a QR code, from the request to the last byte, and its effect on redirects. No image is requested twice,
//! so that none comes from a cache.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::load::{self, Requests};
use crate::scenario::{BROWSER, CONNECTIONS, Failure, LINKS, Plan, gets_at, median, ratio};
use crate::service::Service;

/// With the service's own address and three digits these make addresses of 36 characters.
const PREFIX: &str = "bench-qr";
/// The interval of each connection's redirects: far below the service's capacity.
const PACE: Duration = Duration::from_millis(40);

/// The interval of each of the crowd's requests: together several times what can be drawn.
const CROWD_PACE: Duration = Duration::from_millis(250);

/// CPU of a code by format and size, and redirects beside a crowd that requests the largest.
pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let service = Service::fresh(plan).await?;
    service.make_links(PREFIX, LINKS, r#"{"web_url":"https://example.com/landing/page"}"#).await?;
    let address = service.server.address.clone();
    for (name, file) in [("png 600", "png?size=600"), ("svg 600", "svg?size=600"), ("png 2048", "png?size=2048")] {
        cost(plan, &service, name, file).await?;
    }
    let redirects = || gets_at("localhost", "/r/", PREFIX, BROWSER);
    let time = Duration::from_secs(plan.seconds);
    let (mut calm, mut crowded, mut rises) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let mut alone = load::paced(&address, CONNECTIONS, time, PACE, "302", redirects()).await?;
        let codes = drawn(&service, "png?size=2048");
        let (beside, codes) = tokio::join!(
            load::paced(&address, CONNECTIONS, time, PACE, "302", redirects()),
            load::paced(&address, CONNECTIONS, time, CROWD_PACE, "200", codes),
        );
        let (mut beside, codes) = (beside?, codes?);
        if alone.wrong + beside.wrong > 0 || codes.answers == codes.wrong {
            return Err("redirects or codes were refused".into());
        }
        let (before, with) = (alone.quantile_millis(0.99), beside.quantile_millis(0.99));
        calm.push(before);
        crowded.push(with);
        rises.push(with - before);
    }
    println!(
        "qr         redirects p99 {:.2} ms alone, {:.2} ms beside {CONNECTIONS} connections that ask for 2,048 px: +{:.2} ms",
        median(&mut calm),
        median(&mut crowded),
        median(&mut rises),
    );
    service.server.stop().await
}

/// CPU milliseconds of the server for one code, requested sequentially.
async fn cost(plan: &Plan, service: &Service, name: &str, file: &'static str) -> Result<(), Failure> {
    let time = Duration::from_secs(plan.seconds);
    let (_, body) = load::whole(&service.server.address, &drawn(service, file)(0, 30)).await?;
    let (mut costs, mut waits) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let before = service.server.cpu_seconds()?;
        let mut seen = load::run(&service.server.address, 1, time, usize::MAX, "200", drawn(service, file)).await?;
        let used = service.server.cpu_seconds()? - before;
        if seen.wrong > 0 {
            return Err(format!("{} codes were refused", seen.wrong).into());
        }
        costs.push(used * 1_000.0 / ratio(seen.answers, 1.0));
        waits.push(seen.quantile_millis(0.5));
    }
    println!(
        "qr         {name}: {:.2} ms of CPU with everything around it, {:.2} ms until it is there, {} bytes",
        median(&mut costs),
        median(&mut waits),
        body.len(),
    );
    Ok(())
}

/// Requests for images, each in a unique colour.
fn drawn(service: &Service, file: &'static str) -> Requests {
    thread_local!(static NEXT: Cell<u32> = const { Cell::new(0) });
    let key = service.key().to_owned();
    Rc::new(move |connection, nth| {
        let link = (connection * 7_919 + nth * 31) % LINKS;
        let nth = NEXT.replace(NEXT.get() + 1);
        // Dark enough to contrast with white.
        let colour = (nth >> 12 & 0x3f) << 16 | (nth >> 6 & 0x3f) << 8 | nth & 0x3f;
        let line = format!("GET /v1/links/{PREFIX}{link}/qr.{file}&fgColor={colour:06x} HTTP/1.1");
        format!("{line}\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n").into_bytes()
    })
}
