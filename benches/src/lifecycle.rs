//! Durable reports from click to conversion: installs that links open, that are bound to users, who convert.

use std::rc::Rc;
use std::time::Duration;

use crate::load::{self, Requests};
use crate::scenario::{CONNECTIONS, Failure, LINKS, Plan, median, ratio};
use crate::service::Service;

/// The reports on one install, sequentially: two touches in four reports, a binding, a conversion.
const STEPS: usize = 4;

/// Measures reports per second.
pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let service = Rc::new(Service::fresh(plan).await?);
    service.make_links("bench-", LINKS, r#"{"web_url":"https://example.com/landing/page"}"#).await?;
    let (mut rates, mut slow, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=plan.rounds {
        let reports = reports(&service, round);
        let before = service.server.cpu_seconds()?;
        // The first round warms up.
        let time = Duration::from_secs(if round == 0 { 1 } else { plan.seconds });
        let mut seen = load::run(&service.server.address, CONNECTIONS, time, usize::MAX, "200", reports).await?;
        if seen.wrong > 0 {
            return Err(format!("{} reports were refused", seen.wrong).into());
        }
        if round > 0 {
            rates.push(ratio(seen.answers, seen.elapsed.as_secs_f64()));
            slow.push(seen.quantile_millis(0.99));
            cpu.push(ratio(seen.answers, service.server.cpu_seconds()? - before));
        }
    }
    println!(
        "lifecycle  {:>6.0} durable reports/s with {CONNECTIONS} clients (half touches, bindings, conversions), p99 {:.1} ms, {:.0} per CPU-second",
        median(&mut rates),
        median(&mut slow),
        median(&mut cpu),
    );
    let service = Rc::into_inner(service).ok_or("a round still runs")?;
    service.server.stop().await
}

fn reports(service: &Rc<Service>, round: usize) -> Requests {
    let service = Rc::clone(service);
    Rc::new(move |connection, nth| {
        let name = format!("{round}-{connection}-{}", nth / STEPS);
        let link = (connection * 7_919 + nth * 31) % LINKS;
        let touch = || format!(r#"{{"link_id":"bench-{link}","install_id":"{name}","app_version":"1.0"}}"#);
        let binding = format!(r#"{{"install_id":"{name}","user_id":"{name}"}}"#);
        match nth % STEPS {
            1 => service.request("PUT", "/v1/lifecycle/identify", &binding),
            2 => {
                let conversion = format!(
                    r#"{{"user_id":"{name}","type":"purchase","idempotency_key":"{name}","amount_cents":995,"currency":"EUR"}}"#
                );
                service.post("/v1/lifecycle/convert", &conversion)
            }
            _ => service.post("/v1/lifecycle/attribute", &touch()),
        }
    })
}
