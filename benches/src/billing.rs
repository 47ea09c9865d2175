//! The cost of plans and payments: quotas in a bulk create, a request for payment, and an invalid payment.

use std::rc::Rc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use deeplink_core::x402;
use serde_json::json;

use crate::load::{self, Requests};
use crate::scenario::{CONNECTIONS, Failure, Plan, batches, measured, median, ratio};
use crate::service::Service;

/// The account of a first start.
const OWNER: &str = "owner@deeplink.invalid";
/// Four connections send 80,000 links, which the largest plan has room for.
const BATCHES: usize = 200;

/// Bulk creates with plans enforced against those without, in turn.
pub(crate) async fn quotas(plan: &Plan) -> Result<(), Failure> {
    let mut ratios = Vec::new();
    // The first round warms up.
    for round in 0..=plan.rounds {
        let free = bulk(plan, "off").await?;
        let counted = bulk(plan, "enforce").await?;
        if round > 0 {
            ratios.push(free / counted);
        }
    }
    println!(
        "quotas     {:>6.3} x the CPU time of a bulk create without them, {:.3} to {:.3}",
        median(&mut ratios),
        ratios[0],
        ratios[ratios.len() - 1]
    );
    Ok(())
}

/// Rows per CPU-second in batches of 100.
async fn bulk(plan: &Plan, quotas: &str) -> Result<f64, Failure> {
    let service = Service::with(plan, &[("DEEPLINK_QUOTAS", quotas)]).await?;
    service.operator(plan, &["tenant", "comp", OWNER, "--tier", "scale"]).await?;
    let before = service.server.cpu_seconds()?;
    let requests = batches(&service, 0);
    let seen = load::run(&service.server.address, 4, Duration::from_mins(1), BATCHES, "201", requests).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = service.server.cpu_seconds()? - before;
    if seen.wrong > 0 {
        return Err(format!("{} batches were refused", seen.wrong).into());
    }
    service.server.stop().await?;
    Ok(ratio(seen.answers * 100, used))
}

/// CPU time of a request without a key that is asked for a payment, and of one whose payment has expired, which is the
/// last check before the facilitator is asked.
pub(crate) async fn payments(plan: &Plan) -> Result<(), Failure> {
    const PAY_TO: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
    let facilitator = facilitator()?;
    let settings = [
        ("DEEPLINK_X402_FACILITATOR_URL", facilitator.as_str()),
        ("DEEPLINK_X402_PAY_TO", PAY_TO),
        ("DEEPLINK_X402_NETWORK", "base-sepolia"),
        ("DEEPLINK_X402_PRICE", "10000"),
        ("DEEPLINK_LIMIT_PAYER", "0"),
    ];
    let service = Service::with(plan, &settings).await?;
    let expired = json!({
        "x402Version": 1, "scheme": "exact", "network": "base-sepolia",
        "payload": {"signature": format!("0x{}", "1b".repeat(65)), "authorization": {
            "from": "0x857b06519E91e3A54538791bDbb0E22373e36b66", "to": PAY_TO, "value": "10000",
            "validAfter": "0", "validBefore": "1", "nonce": format!("0x{}", "ab".repeat(32)),
        }},
    });
    let header = format!("X-PAYMENT: {}\r\n", x402::to_header(&expired)?);
    let (mut asked, mut refused) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        for (header, micros) in [("", &mut asked), (&header, &mut refused)] {
            let body = r#"{"web_url":"https://example.com/landing/page"}"#;
            let request = format!(
                "POST /v1/links HTTP/1.1\r\nHost: localhost\r\n{header}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let requests: Requests = Rc::new(move |_, _| request.clone().into_bytes());
            let (rate, seen) = measured(&service.server, Duration::from_secs(plan.seconds), "402", requests).await?;
            if seen.wrong > 0 {
                return Err(format!("{} answers were not 402", seen.wrong).into());
            }
            micros.push(1e6 / rate);
        }
    }
    println!(
        "payments   {:>6.1} µs of CPU to ask for one, {:.1} µs to refuse one by its form, with {CONNECTIONS} clients",
        median(&mut asked),
        median(&mut refused),
    );
    service.server.stop().await
}

/// A facilitator that states what it supports, on its own thread until the process ends. Nothing is sent to it to
/// settle.
fn facilitator() -> Result<String, Failure> {
    let kinds = json!({"kinds": [
        {"x402Version": 1, "scheme": "exact", "network": "base-sepolia"},
        {"x402Version": 2, "scheme": "exact", "network": "eip155:84532"},
    ], "extensions": [], "signers": {}});
    let said = kinds.to_string();
    let supported = get(move || async move { ([(CONTENT_TYPE, "application/json")], said) });
    let router = axum::Router::new().route("/supported", supported);
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = format!("http://{}", listener.local_addr()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async move { axum::serve(tokio::net::TcpListener::from_std(listener)?, router).await })
    });
    Ok(address)
}
