//! The cost that a tenant's own host adds to a redirect: the same links on both hosts of one server, in turn.

use std::time::Duration;

use crate::load;
use crate::name_server::{self, Value};
use crate::scenario::{BROWSER, CONNECTIONS, Failure, LINKS, Plan, gets_at, measured, median};
use crate::service::Service;

const HOST: &str = "go.example.com";

/// Measures both and prints the ratio.
pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    let value = Value::default();
    let dns = name_server::start(Value::clone(&value)).await?.to_string();
    let service = Service::with(plan, &[("DEEPLINK_DNS_SERVER", &dns)]).await?;
    service.make_links("bench-", LINKS, r#"{"web_url":"https://example.com/landing/page"}"#).await?;
    claim(&service, &value).await?;
    let time = Duration::from_secs(plan.seconds);
    let own = || gets_at(HOST, "/", "bench-", BROWSER);
    let shared = || gets_at("localhost", "/r/", "bench-", BROWSER);
    for requests in [own(), shared()] {
        let second = Duration::from_secs(1);
        load::run(&service.server.address, CONNECTIONS, second, usize::MAX, "302", requests).await?;
    }
    let mut ratios = Vec::new();
    for _ in 0..plan.rounds {
        let (on_shared, _) = measured(&service.server, time, "302", shared()).await?;
        let (on_own, seen) = measured(&service.server, time, "302", own()).await?;
        if seen.wrong > 0 {
            return Err(format!("{} answers were not 302", seen.wrong).into());
        }
        ratios.push(on_own / on_shared);
    }
    println!("hosted     {:>6.2} x the redirect on the service's own host", median(&mut ratios));
    service.server.stop().await
}

/// Claims the host and proves the claim.
async fn claim(service: &Service, value: &Value) -> Result<(), Failure> {
    let ask = |path: String, body: &str| service.post(&path, body);
    let body = format!("{{\"domain\":\"{HOST}\"}}");
    let (_, claimed) = load::once(&service.server.address, &ask("/v1/domains".into(), &body)).await?;
    let claimed: serde_json::Value = serde_json::from_str(&claimed)?;
    let token = claimed["verification_token"].as_str().ok_or("no token")?;
    value.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push_str(token);
    let verify = ask(format!("/v1/domains/{HOST}/verify"), "");
    let (_, verified) = load::once(&service.server.address, &verify).await?;
    let verified: serde_json::Value = serde_json::from_str(&verified)?;
    if verified["verified"] == true { Ok(()) } else { Err(format!("not verified: {verified}").into()) }
}
