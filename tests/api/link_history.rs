//! The history of links: what each was before a change, by whom, restoring it, and links that were deleted.

use std::time::Duration;

use deeplink_client::RestoreLink;
use deeplink_server::threats::ThreatFile;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, at_once, spawn, spawn_nodes, spawn_with};

const DAY: Duration = Duration::from_hours(24);

async fn create(of: &Caller, body: Value) {
    let made = of.post("/v1/links", &body).await;
    assert_eq!(made.status, 201, "{}", made.text());
}

async fn versions(of: &Caller, link_id: &str) -> Vec<Value> {
    let listed = of.get(&format!("/v1/links/{link_id}/history?limit=100")).await;
    assert_eq!(listed.status, 200, "{}", listed.text());
    listed.json()["versions"].as_array().expect("versions").clone()
}

/// The number, the change and the destination before it, of each version.
async fn listed(of: &Caller, link_id: &str) -> Vec<(u64, String, String)> {
    let line = |version: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (version["version"].as_u64().expect("a number"), text(&version["change"]), text(&version["content"]["web_url"]))
    };
    versions(of, link_id).await.iter().map(line).collect()
}

fn line(version: u64, change: &str, web_url: &str) -> (u64, String, String) {
    (version, change.to_owned(), web_url.to_owned())
}

async fn restore(of: &Caller, link_id: &str, body: Value) -> Reply {
    of.post(&format!("/v1/links/{link_id}/restore"), &body).await
}

async fn deleted(of: &Caller, filter: &str) -> Vec<Value> {
    let found = of.get(&format!("/v1/links?status=deleted{filter}")).await;
    assert_eq!(found.status, 200, "{}", found.text());
    found.json()["links"].as_array().expect("links").clone()
}

#[tokio::test]
async fn each_change_keeps_what_was_before() {
    let world = spawn().await;
    let prefix = world.a.get("/v1/auth/secret-keys").await.json()["keys"][0]["key_prefix"].clone();
    create(&world.a, json!({"custom_id": "promo", "web_url": "https://example.com/a", "tags": ["Poster"]})).await;
    create(&world.a, json!({"custom_id": "other"})).await;
    assert_eq!(versions(&world.a, "promo").await, [json!(null); 0]);
    let created = world.clock.now();
    world.clock.advance(Duration::from_secs(1));
    for change in [
        json!({"web_url": "https://example.com/b", "name": "Spring"}),
        json!({"enabled": false}),
        // Nothing changes.
        json!({"web_url": "https://example.com/b", "tags": ["POSTER"]}),
        json!({"tags": []}),
        json!({"enabled": true}),
    ] {
        assert_eq!(world.a.put("/v1/links/promo", &change).await.status, 200, "{change}");
    }
    let bulk = json!({"link_ids": ["promo", "other"], "set": {"expired_url": "https://example.com/over"}});
    assert_eq!(world.a.patch("/v1/links/bulk", &bulk).await.status, 200);
    let again = json!({"link_ids": ["promo", "other"], "add_tags": ["Poster"], "remove_tags": ["none"]});
    assert_eq!(world.a.patch("/v1/links/bulk", &again).await.status, 200);
    assert_eq!(world.a.patch("/v1/links/bulk", &again).await.status, 200, "nothing changes");
    // Refused, so nothing is kept of it.
    let refused = json!({"link_ids": ["promo", "nobodys"], "set": {"name": "x"}});
    assert_eq!(world.a.patch("/v1/links/bulk", &refused).await.outcome(), "400 invalid_batch");
    let [a, b] = ["https://example.com/a", "https://example.com/b"];
    let expected = [
        line(6, "updated", b),
        line(5, "updated", b),
        line(4, "enabled", b),
        line(3, "updated", b),
        line(2, "disabled", b),
        line(1, "updated", a),
    ];
    assert_eq!(listed(&world.a, "promo").await, expected);
    let all = versions(&world.a, "promo").await;
    let first = json!({
        "version": 1, "change": "updated", "changed_at": created.plus_millis(1_000), "actor_type": "secret_key",
        "actor": prefix, "bulk": false,
        "content": {
            "ios_deep_link": null, "ios_store_url": null, "android_deep_link": null, "android_store_url": null,
            "web_url": a, "metadata": null, "agent_context": null, "social_preview": null, "affiliate_id": null,
            "name": null, "enabled": true, "expires_at": null, "expired_url": null, "tags": ["Poster"], "aliases": [],
            "qr": null, "imported_clicks": null,
        },
    });
    assert_eq!(all[5], first);
    let field = |name: &str| -> Vec<Value> { all.iter().map(|version| version["content"][name].clone()).collect() };
    assert_eq!(field("enabled"), [true, true, false, false, true, true].map(Value::from));
    assert_eq!(
        field("tags"),
        [json!([]), json!([]), json!([]), json!(["Poster"]), json!(["Poster"]), json!(["Poster"])]
    );
    assert_eq!(
        all.iter().map(|version| version["bulk"] == true).collect::<Vec<_>>(),
        [true, true, false, false, false, false]
    );
    assert_eq!(versions(&world.a, "other").await.len(), 2);

    let numbers = |page: &Value| -> Vec<u64> {
        page["versions"].as_array().expect("versions").iter().filter_map(|one| one["version"].as_u64()).collect()
    };
    let page = world.a.get("/v1/links/promo/history?limit=4").await.json();
    assert_eq!(numbers(&page), [6, 5, 4, 3]);
    let cursor = page["next_cursor"].as_str().expect("there are more").to_owned();
    let rest = world.a.get(&format!("/v1/links/promo/history?limit=4&cursor={cursor}")).await.json();
    assert_eq!((numbers(&rest), &rest["next_cursor"]), (vec![2, 1], &Value::Null));
    let elsewhere = world.a.get(&format!("/v1/links/other/history?cursor={cursor}")).await;
    assert_eq!(elsewhere.outcome(), "400 invalid_cursor cursor");
    let whole = world.a.links().history("promo").await.expect("a history");
    assert_eq!(whole.iter().map(|one| one.version).collect::<Vec<_>>(), [6, 5, 4, 3, 2, 1]);
    for (caller, path) in [(&world.a, "nobodys"), (&world.a, "a%00b"), (&world.b, "promo")] {
        assert_eq!(caller.get(&format!("/v1/links/{path}/history")).await.outcome(), "404 not_found", "{path}");
        assert_eq!(restore(caller, path, json!({})).await.outcome(), "404 not_found", "{path}");
    }
}

#[tokio::test]
async fn a_version_is_restored_and_that_can_be_undone() {
    let world = spawn().await;
    let first = json!({
        "custom_id": "promo", "web_url": "https://example.com/a", "ios_deep_link": "shop://a", "name": "A",
        "metadata": {"b": 1.0, "a": []}, "agent_context": {"action": "purchase"}, "social_preview": {"title": "A"},
        "expires_at": "2099-01-01T00:00:00Z", "expired_url": "https://example.com/over", "tags": ["x", "Y"],
        "qr": {"dotType": "classy"}, "imported_clicks": 1_234,
    });
    create(&world.a, first).await;
    let before = world.a.get("/v1/links/promo").await.json();
    let second = json!({
        "web_url": "https://example.com/b", "ios_deep_link": null, "name": null, "metadata": null, "agent_context": null,
        "social_preview": null, "expires_at": null, "expired_url": null, "tags": ["z"], "qr": {"dotType": "dots"},
        "imported_clicks": null,
    });
    assert_eq!(world.a.put("/v1/links/promo", &second).await.status, 200);
    let after = world.a.get("/v1/links/promo").await.json();
    assert_eq!(world.nobody.resolve("promo").await.json()["web_url"], "https://example.com/b");
    let without_time = |mut link: Value| {
        link["updated_at"] = Value::Null;
        link
    };
    world.clock.advance(Duration::from_secs(1));
    for expected in [&before, &after, &before] {
        let restored = restore(&world.a, "promo", json!({})).await;
        assert_eq!(restored.status, 200, "{}", restored.text());
        assert_eq!(without_time(restored.json()), without_time(expected.clone()), "each undoes the one before");
        assert_eq!(world.a.get("/v1/links/promo").await.json(), restored.json());
        assert_eq!(restored.member("updated_at"), world.clock.now().to_string());
        let visit = world.nobody.resolve("promo").await;
        assert_eq!(visit.json()["web_url"], expected["web_url"], "caches know at once");
    }
    let [a, b] = ["https://example.com/a", "https://example.com/b"];
    let expected = [line(4, "restored", b), line(3, "restored", a), line(2, "restored", b), line(1, "updated", a)];
    assert_eq!(listed(&world.a, "promo").await, expected);
    let named = world.a.links().restore("promo", RestoreLink::new().version(2)).await.expect("a link");
    assert_eq!(named.web_url.as_deref(), Some(b));
    // What it is already, is no change.
    assert_eq!(restore(&world.a, "promo", json!({"version": 2})).await.status, 200);
    assert_eq!(versions(&world.a, "promo").await.len(), 5);

    for (body, outcome) in [
        (json!({"version": 6}), "404 version_not_found version"),
        (json!({"version": 0}), "404 version_not_found version"),
        (json!({"version": u64::MAX}), "404 version_not_found version"),
        (json!({"version": -1}), "400 bad_request version"),
        (json!({"version": "1"}), "400 bad_request version"),
    ] {
        assert_eq!(restore(&world.a, "promo", body.clone()).await.outcome(), outcome, "{body}");
    }
    create(&world.a, json!({"custom_id": "new"})).await;
    assert_eq!(restore(&world.a, "new", json!({})).await.outcome(), "404 version_not_found");
    // A repeated request restores once: twice would undo it.
    let keyed = || {
        let ask = world.a.ask(Method::POST, "/v1/links/promo/restore").json(&json!({}));
        ask.header("idempotency-key", "once").send()
    };
    let (one, two) = (keyed().await, keyed().await);
    assert_eq!((one.text(), two.header("idempotency-replayed")), (two.text(), "true"));
    assert_eq!(versions(&world.a, "promo").await.len(), 6);
}

#[tokio::test]
async fn a_deleted_link_is_listed_and_restored_with_its_clicks() {
    let world = spawn().await;
    let partner =
        world.a.post("/v1/affiliates", &json!({"name": "Partner", "partner_key": "partner"})).await.member("id");
    let body = json!({"custom_id": "promo", "web_url": "https://example.com/a", "name": "Spring", "tags": ["Poster"], "affiliate_id": partner});
    create(&world.a, body).await;
    create(&world.a, json!({"custom_id": "kept"})).await;
    create(&world.a, json!({"custom_id": "gone", "web_url": "https://example.com/x", "enabled": false})).await;
    let before = world.a.get("/v1/links/promo").await.json();
    assert_eq!(world.nobody.tap("promo").await.status, 302);
    world.clock.advance(DAY);
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    assert_eq!(
        world.a.ask(Method::DELETE, "/v1/links/bulk").json(&json!({"link_ids": ["gone"]})).send().await.status,
        200
    );
    let deleted_at = world.clock.now();
    assert_eq!(world.nobody.tap("promo").await.status, 404);
    assert_eq!(world.a.get("/v1/links/promo").await.status, 404);
    let ids = |links: &[Value]| -> Vec<String> {
        links.iter().map(|link| link["link_id"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let found = deleted(&world.a, "").await;
    assert_eq!(ids(&found), ["gone", "promo"], "newest first");
    let mut expected = before.clone();
    expected["status"] = json!("deleted");
    expected["updated_at"] = json!(deleted_at);
    assert_eq!(found[1], expected);
    for (filter, id) in [
        (format!("&affiliate_id={partner}"), "promo"),
        ("&tag=poster".to_owned(), "promo"),
        ("&q=SPRING".to_owned(), "promo"),
        ("&id_prefix=go".to_owned(), "gone"),
        ("&q=example.com/x".to_owned(), "gone"),
        ("&enabled=false".to_owned(), "gone"),
        ("&enabled=true".to_owned(), "promo"),
    ] {
        assert_eq!(ids(&deleted(&world.a, &filter).await), [id], "{filter}");
    }
    for nothing in
        [&format!("&created_after={}", world.clock.now()), "&enabled=false&tag=poster", "&domain=go.example.com"]
    {
        assert_eq!(deleted(&world.a, nothing).await, [json!(null); 0], "{nothing}");
    }
    assert_eq!(ids(&deleted(&world.a, "&sort=oldest").await), ["promo", "gone"]);
    let page = world.a.get("/v1/links?status=deleted&sort=oldest&limit=1").await.json();
    let cursor = page["next_cursor"].as_str().expect("there are more");
    let rest = world.a.get(&format!("/v1/links?cursor={cursor}")).await.json();
    assert_eq!(ids(rest["links"].as_array().expect("links")), ["gone"]);
    assert_eq!(deleted(&world.b, "").await, [json!(null); 0]);
    assert_eq!(ids(world.a.get("/v1/links").await.json()["links"].as_array().expect("links")), ["kept"]);
    let page = world.a.get("/v1/links?status=deleted&limit=1").await.json();
    let cursor = page["next_cursor"].as_str().expect("there are more");
    let rest = world.a.get(&format!("/v1/links?cursor={cursor}")).await.json();
    assert_eq!(
        (ids(rest["links"].as_array().expect("links")), &rest["next_cursor"]),
        (vec!["promo".to_owned()], &Value::Null)
    );
    assert_eq!(listed(&world.a, "promo").await, [line(1, "deleted", "https://example.com/a")]);
    assert!(versions(&world.a, "gone").await[0]["bulk"] == true);

    let restored = restore(&world.a, "promo", json!({})).await;
    assert_eq!(restored.status, 200, "{}", restored.text());
    let mut expected = before;
    expected["updated_at"] = json!(deleted_at);
    assert_eq!(restored.json(), expected);
    assert_eq!(world.a.get("/v1/links/promo").await.json(), expected);
    assert_eq!(ids(&deleted(&world.a, "").await), ["gone"]);
    assert_eq!(world.nobody.tap("promo").await.header("location"), "https://example.com/a");
    assert_eq!(world.a.clicks_of("promo").await, 2, "those of before, too");
    let total = world.a.get("/v1/analytics/stats?group_by=link").await.json();
    assert_eq!(total["groups"][0]["key"], "promo", "{total}");
    let lines = [line(2, "restored", "https://example.com/a"), line(1, "deleted", "https://example.com/a")];
    assert_eq!(listed(&world.a, "promo").await, lines);

    // Deleted again, and its earlier version restored.
    world.a.put("/v1/links/promo", &json!({"web_url": "https://example.com/b"})).await;
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    assert_eq!(ids(&deleted(&world.a, "").await), ["gone", "promo"]);
    assert_eq!(restore(&world.a, "promo", json!({"version": 9})).await.outcome(), "404 version_not_found version");
    assert_eq!(restore(&world.a, "promo", json!({"version": 1})).await.json()["web_url"], "https://example.com/a");
    assert_eq!(listed(&world.a, "promo").await[0], line(5, "restored", "https://example.com/b"));
}

/// U2: a deleted link counts towards no limit, so there may be no room for it afterwards.
#[tokio::test]
async fn u2_a_deleted_link_is_restored_if_the_plan_has_room() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    create(&world.a, json!({"custom_id": "promo"})).await;
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    let fifty = json!({"template": {}, "custom_ids": (0..50).map(|nth| format!("link-{nth}")).collect::<Vec<_>>()});
    assert_eq!(world.a.post("/v1/links/bulk", &fifty).await.status, 201);
    assert_eq!(restore(&world.a, "promo", json!({})).await.outcome(), "402 quota_exceeded");
    assert_eq!(deleted(&world.a, "").await.len(), 1);
    assert_eq!(world.a.delete("/v1/links/link-0").await.status, 204);
    assert_eq!(restore(&world.a, "promo", json!({})).await.status, 200);
    assert_eq!(restore(&world.a, "link-0", json!({})).await.outcome(), "402 quota_exceeded");
}

#[tokio::test]
async fn a_deleted_link_is_kept_for_thirty_days() {
    let world = spawn_with(|config| config.unverified_link_ttl_days = 0).await;
    for id in ["promo", "later"] {
        create(&world.a, json!({"custom_id": id})).await;
    }
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    world.clock.advance(DAY * 29);
    assert_eq!(world.a.delete("/v1/links/later").await.status, 204);
    assert_eq!(deleted(&world.a, "").await.len(), 2);
    world.clock.advance(DAY);
    assert_eq!(deleted(&world.a, "").await.len(), 1);
    assert_eq!(world.a.get("/v1/links/promo/history").await.outcome(), "404 not_found");
    assert_eq!(restore(&world.a, "promo", json!({})).await.outcome(), "404 not_found");
    assert_eq!(restore(&world.a, "later", json!({})).await.status, 200);
}

#[tokio::test]
async fn an_id_that_was_used_again_stays_with_its_link() {
    let world = spawn().await;
    for id in ["promo", "taken"] {
        create(&world.a, json!({"custom_id": id, "web_url": "https://example.com/first"})).await;
        assert_eq!(world.a.delete(&format!("/v1/links/{id}")).await.status, 204);
    }
    create(&world.a, json!({"custom_id": "promo", "web_url": "https://example.com/second"})).await;
    create(&world.b, json!({"custom_id": "taken"})).await;
    assert_eq!(restore(&world.a, "promo", json!({})).await.outcome(), "409 link_id_taken custom_id");
    assert_eq!(restore(&world.a, "taken", json!({})).await.outcome(), "409 link_id_taken custom_id");
    assert_eq!(restore(&world.a, "promo", json!({"version": 1})).await.outcome(), "404 version_not_found version");
    assert_eq!(deleted(&world.a, "").await.len(), 1, "promo is another link now");
    assert_eq!(world.nobody.tap("promo").await.header("location"), "https://example.com/second");
    // The first link can be restored again once the second is gone, which comes first.
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    assert_eq!(restore(&world.a, "promo", json!({})).await.json()["web_url"], "https://example.com/second");
}

/// R12: what the operator took down is not brought back by its owner. The history says that the operator did it.
#[tokio::test]
async fn r12_a_link_that_was_taken_down_stays_so() {
    let path = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(path.path(), "https://bad.example.com/\n").expect("a list");
    let world = spawn_with(|config| config.threat_list = Some(ThreatFile::read(path.path()).expect("a list"))).await;
    create(&world.a, json!({"custom_id": "promo", "web_url": "https://example.com/a"})).await;
    create(&world.a, json!({"custom_id": "listed", "web_url": "https://example.com/a"})).await;
    for id in ["promo", "listed"] {
        world.a.put(&format!("/v1/links/{id}"), &json!({"enabled": false})).await;
    }
    world.db.execute("UPDATE links SET status = 'disabled', taken_down = TRUE WHERE link_id = 'promo'").await;
    assert_eq!(restore(&world.a, "promo", json!({})).await.outcome(), "409 disabled_by_operator enabled");
    assert_eq!(world.a.delete("/v1/links/promo").await.status, 204);
    assert_eq!(deleted(&world.a, "").await.len(), 1);
    assert_eq!(restore(&world.a, "promo", json!({})).await.outcome(), "409 disabled_by_operator enabled");

    let bad =
        "UPDATE link_versions SET content = REPLACE(content, 'https://example.com/a', 'https://bad.example.com/')";
    world.db.execute(bad).await;
    assert_eq!(restore(&world.a, "listed", json!({})).await.outcome(), "400 threat_detected web_url");
    assert_eq!(world.a.delete("/v1/links/listed").await.status, 204);
    world.db.execute(bad).await;
    assert_eq!(restore(&world.a, "listed", json!({})).await.outcome(), "400 threat_detected web_url");
}

/// Changes of one link at the same time, through two nodes, have a version each, and 100 are kept.
#[tokio::test]
async fn versions_are_numbered_in_the_order_of_changes_and_a_hundred_are_kept() {
    let world = spawn_nodes(2).await;
    create(&world.a, json!({"custom_id": "promo", "web_url": "https://example.com/0"})).await;
    let nodes = [world.at(0, &world.a), world.at(1, &world.a)];
    for round in 0..13 {
        at_once(8, |nth| {
            let (caller, web_url) = (nodes[nth % 2].clone(), format!("https://example.com/{round}-{nth}"));
            async move { assert_eq!(caller.put("/v1/links/promo", &json!({"web_url": web_url})).await.status, 200) }
        })
        .await;
    }
    let found = listed(&world.a, "promo").await;
    assert_eq!(found.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), (5..=104).rev().collect::<Vec<_>>());
    let mut urls: Vec<_> = found.iter().map(|(.., url)| url).collect();
    urls.sort_unstable();
    urls.dedup();
    assert_eq!(urls.len(), 100, "each is what another change had made of it");
}

/// Deletes and restores of one link at the same time leave one link, with the number of links right.
#[tokio::test]
async fn deletes_and_restores_at_the_same_time_leave_one_link() {
    let world = spawn().await;
    create(&world.a, json!({"custom_id": "promo", "web_url": "https://example.com/a"})).await;
    at_once(16, |nth| {
        let caller = world.a.clone();
        async move {
            let status = if nth % 2 == 0 {
                caller.delete("/v1/links/promo").await.status
            } else {
                restore(&caller, "promo", json!({})).await.status
            };
            assert!(matches!(status, 200 | 204 | 404), "{status}");
        }
    })
    .await;
    let is_there = world.a.get("/v1/links/promo").await.status == 200;
    assert_eq!(deleted(&world.a, "").await.len(), usize::from(!is_there));
    let count: i64 = world
        .db
        .number("SELECT link_count FROM tenants WHERE link_count IS NOT NULL ORDER BY link_count DESC LIMIT 1")
        .await;
    assert_eq!(count, i64::from(is_there));
    let found = listed(&world.a, "promo").await;
    let numbers: Vec<u64> = found.iter().map(|(number, ..)| *number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).rev().collect::<Vec<_>>());
}
