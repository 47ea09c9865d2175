//! What every reporting operation refuses, including earlier forms.

use http::Method;
use serde_json::{Value, json};

use super::{DOMAIN, page_of};
use deeplink_testing::{Ask, Caller, spawn, spawn_with};

/// Each operation that takes a publishable key, with a valid body.
const REPORTS: [(&str, &str); 6] = [
    ("POST", "/v1/lifecycle/click"),
    ("POST", "/v1/lifecycle/attribute"),
    ("PUT", "/v1/lifecycle/identify"),
    ("POST", "/v1/lifecycle/convert"),
    ("POST", "/v1/attribution/click"),
    ("POST", "/v1/attribution/report"),
];

fn body(link: &str, install: &str) -> Value {
    json!({"link_id": link, "install_id": install, "app_version": "1", "user_id": "ann", "type": "purchase"})
}

fn report(caller: &Caller, method: &str, path: &str, body: &Value) -> Ask {
    caller.ask(Method::from_bytes(method.as_bytes()).expect("a method"), path).json(body)
}

/// The same key with another body is a conflict, for any caller.
#[tokio::test]
async fn an_idempotency_key_is_for_one_report() {
    let world = spawn().await;
    world.a.make("one").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    for (method, path) in REPORTS.into_iter().filter(|(method, _)| *method == "POST") {
        let ask = |install: &str| report(&page, method, path, &body("one", install)).header("idempotency-key", path);
        assert_eq!(ask("first").send().await.status, 200, "{path}");
        assert_eq!(ask("first").send().await.header("idempotency-replayed"), "true", "{path}");
        assert_eq!(ask("second").send().await.outcome(), "409 idempotency_conflict Idempotency-Key", "{path}");
    }
}

/// Reports on missing links are refused; an install has one user, in the earlier form too.
#[tokio::test]
async fn links_and_users_are_whose_they_are() {
    let world = spawn().await;
    world.a.make("one").await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    for (method, path) in
        REPORTS.into_iter().filter(|(_, path)| !path.ends_with("identify") && !path.ends_with("convert"))
    {
        let refused = report(&page, method, path, &body("nowhere", "first")).send().await;
        assert_eq!(refused.outcome(), "404 not_found", "{path}");
    }
    for (user, outcome) in [("ann", "200"), ("ben", "409 identify_conflict")] {
        let binding = json!({"install_id": "first", "user_id": user});
        assert_eq!(world.a.put("/v1/attribution/link", &binding).await.outcome(), outcome);
    }
}

/// I9: the limit of a publishable key applies to each operation that takes it.
#[tokio::test]
async fn i9_each_report_counts_against_the_limit() {
    let world = spawn_with(|config| config.limits.reports_per_second = 1).await;
    world.a.make("one").await;
    for (at, (method, path)) in REPORTS.into_iter().enumerate() {
        let page = page_of(&world, &world.a, &format!("keys-{at}.example.com")).await;
        let ask = report(&page, method, path, &body("one", "first"));
        let mut outcomes = Vec::new();
        for _ in 0..6 {
            outcomes.push(ask.clone().send().await.outcome());
        }
        assert_eq!((&*outcomes[0], &*outcomes[5]), ("200", "429 rate_limited"), "{path}: {outcomes:?}");
    }
}
