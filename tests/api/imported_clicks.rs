//! Clicks that a previous service counted: a starting count that only the link's owner sees, and that no report adds.

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, spawn, spawn_with};

const MOST: i64 = 9_007_199_254_740_991;

async fn shown(caller: &Caller, id: &str) -> Value {
    caller.get(&format!("/v1/links/{id}")).await.json()["imported_clicks"].clone()
}

#[tokio::test]
async fn a_count_is_set_changed_and_removed_in_every_request() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "one", "imported_clicks": 1_234})).await;
    let different = json!({"links": [{"custom_id": "two", "imported_clicks": MOST}, {"custom_id": "three"}]});
    assert_eq!(world.a.post("/v1/links/bulk", &different).await.status, 201);
    let same = json!({"template": {"imported_clicks": 7}, "custom_ids": ["four"]});
    assert_eq!(world.a.post("/v1/links/bulk", &same).await.status, 201);
    for (id, count) in [("one", json!(1_234)), ("two", json!(MOST)), ("three", Value::Null), ("four", json!(7))] {
        assert_eq!(shown(&world.a, id).await, count, "{id}");
    }
    for (update, count) in [
        (json!({"imported_clicks": 0}), json!(0)),
        (json!({"name": "Spring"}), json!(0)),
        (json!({"imported_clicks": null}), Value::Null),
    ] {
        let changed = world.a.put("/v1/links/one", &update).await;
        assert_eq!((changed.status, &changed.json()["imported_clicks"]), (200, &count), "{update}");
    }
    let bulk = json!({"link_ids": ["one", "two"], "set": {"imported_clicks": 5}});
    assert_eq!(world.a.patch("/v1/links/bulk", &bulk).await.status, 200);
    assert_eq!((shown(&world.a, "one").await, shown(&world.a, "two").await), (json!(5), json!(5)));
    let listed = world.a.get("/v1/links?id_prefix=two").await.json();
    assert_eq!(listed["links"][0]["imported_clicks"], 5);
}

#[tokio::test]
async fn a_count_is_a_whole_number_within_its_limits() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for value in [json!(-1), json!(MOST + 1), json!(i64::MIN), json!(u64::MAX), json!(1.5), json!("7"), json!([7])] {
        let body = json!({"imported_clicks": value});
        let outcome = "400 bad_request imported_clicks";
        assert_eq!(world.a.post("/v1/links", &body).await.outcome(), outcome, "{body}");
        assert_eq!(world.a.put("/v1/links/spring-42", &body).await.outcome(), outcome, "{body}");
        for (method, many) in [
            (Method::POST, json!({"template": body, "count": 2})),
            (Method::POST, json!({"links": [{}, body]})),
            (Method::PATCH, json!({"link_ids": ["spring-42"], "set": body})),
        ] {
            let refused = world.a.ask(method, "/v1/links/bulk").json(&many).send().await;
            assert!(refused.status == 400 && refused.text().contains("imported_clicks"), "{many} {}", refused.text());
        }
    }
    assert_eq!(shown(&world.a, "spring-42").await, Value::Null, "nothing was changed");
}

/// Visitors and affiliates do not see a count, and an affiliate's credential cannot set one.
#[tokio::test]
async fn a_count_is_for_the_owner_alone() {
    let world = spawn_with(|config| config.unverified_link_ttl_days = 0).await;
    let link = json!({
        "custom_id": "mine", "web_url": "https://example.com/", "imported_clicks": 123_457,
        "affiliate_id": world.a1.affiliate_id(),
    });
    world.a.make_of(&link).await;
    assert_eq!(shown(&world.a, "mine").await, 123_457);
    assert_eq!(shown(&world.a1, "mine").await, Value::Null);
    let resolved = world.nobody.resolve("mine").await;
    assert!(resolved.status == 200 && !resolved.text().contains("imported_clicks"), "{}", resolved.text());
    let page = world.nobody.browse(Method::GET, "/r/mine").send().await;
    for seen in [world.a1.get("/v1/links").await.text(), resolved.text(), page.text()] {
        assert!(!seen.contains("123457") && !seen.contains("123,457"), "{seen}");
    }
    let own = json!({"imported_clicks": 1});
    let outcome = "400 bad_request imported_clicks";
    assert_eq!(world.a1.post("/v1/links", &own).await.outcome(), outcome);
    assert_eq!(world.a1.post("/v1/links/bulk", &json!({"template": own, "count": 1})).await.outcome(), outcome);
    let rows = world.a1.post("/v1/links/bulk", &json!({"links": [{"custom_id": "good"}, own]})).await;
    assert_eq!(rows.outcome(), "400 invalid_batch");
    assert_eq!(
        (&rows.json()["errors"][0]["index"], &rows.json()["errors"][0]["code"]),
        (&json!(1), &json!("bad_request"))
    );
}

/// A change of it can be undone, also after the link was deleted.
#[tokio::test]
async fn a_count_is_restored_from_the_history() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "promo", "imported_clicks": 1_234})).await;
    assert_eq!(world.a.put("/v1/links/promo", &json!({"imported_clicks": 9})).await.status, 200);
    let history = world.a.get("/v1/links/promo/history").await.json();
    assert_eq!(history["versions"][0]["content"]["imported_clicks"], 1_234);
    // The same again is no change.
    assert_eq!(world.a.put("/v1/links/promo", &json!({"imported_clicks": 9})).await.status, 200);
    let history = world.a.get("/v1/links/promo/history").await.json();
    assert_eq!(history["versions"].as_array().map(Vec::len), Some(1));
    let restore = async || world.a.post("/v1/links/promo/restore", &json!({})).await;
    assert_eq!(restore().await.json()["imported_clicks"], 1_234);
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    assert_eq!(restore().await.json()["imported_clicks"], 1_234);
    assert_eq!(shown(&world.a, "promo").await, 1_234);
}

/// Reports on one link have it beside their sums, and others not at all.
#[tokio::test]
async fn no_report_adds_a_count_to_clicks() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "promo", "web_url": "https://example.com/", "imported_clicks": 1_234})).await;
    world.a.make("other").await;
    assert_eq!(world.nobody.tap("promo").await.status, 302);
    let ask = async |query: &str| world.a.get(&format!("/v1/analytics/stats{query}")).await.json();
    for query in ["?link_ids=promo", "?link_ids=promo&group_by=day", "?link_ids=promo&group_by=link"] {
        let report = ask(query).await;
        assert_eq!((&report["funnel"]["clicks"], &report["imported_clicks"]), (&json!(1), &json!(1_234)), "{query}");
        let groups = report["groups"].as_array().cloned().unwrap_or_default();
        assert!(groups.iter().all(|group| group["clicks"].as_i64() <= Some(1)), "{report}");
    }
    for query in ["", "?link_ids=promo,other", "?link_ids=other", "?link_ids=nobodys-link", "?group_by=link"] {
        let report = ask(query).await;
        assert!(report["funnel"]["clicks"].as_i64() <= Some(1) && report.get("imported_clicks").is_none(), "{report}");
    }
    let stats = world.a.get("/v1/links/promo/stats").await.json();
    assert_eq!((&stats["click_count"], &stats["imported_clicks"]), (&json!(1), &json!(1_234)));
    assert!(world.a.get("/v1/links/other/stats").await.json().get("imported_clicks").is_none());
    assert_eq!(world.a.clicks_of("promo").await, 1);
    let csv = world.a.get("/v1/analytics/stats?link_ids=promo&format=csv").await.text();
    assert!(!csv.contains("1234") && !csv.contains("1235"), "{csv}");
}
