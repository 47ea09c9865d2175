//! Many links changed or deleted in one request: all or nothing.

use deeplink_client::{BulkUpdate, CreateLink, Kind, Patch, UpdateLink};
use http::Method;
use serde_json::{Value, json};

use crate::threats::ThreatList;
use deeplink_testing::{World, at_once, spawn, spawn_nodes, spawn_with};

async fn three(world: &World) {
    let batch = json!({"template": {"web_url": "https://example.com/", "tags": ["old"]}, "custom_ids": ["one", "two", "three"]});
    assert_eq!(world.a.post("/v1/links/bulk", &batch).await.status, 201);
}

/// What the account's three links have in a field.
async fn all(world: &World, field: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for id in ["one", "two", "three"] {
        found.push(world.a.get(&format!("/v1/links/{id}")).await.json()[field].clone());
    }
    found
}

#[tokio::test]
async fn a_change_is_made_to_all_links() {
    let world = spawn().await;
    three(&world).await;
    // Cached before.
    for id in ["one", "two"] {
        assert_eq!(world.nobody.tap(id).await.status, 302);
    }
    let mut update = UpdateLink::new();
    update.web_url = Patch::Set("https://example.com/new".into());
    update.name = Patch::Set("New".into());
    let change = BulkUpdate::new(["two", "one", "two"]).set(update).add_tags(["NEW", "old"]).remove_tags(["gone"]);
    let changed = world.a.links().bulk_update(&change).await.expect("a change");
    let shown: Vec<_> = changed.links.iter().map(|link| (link.link_id.as_str(), link.name.as_deref())).collect();
    assert_eq!(shown, [("two", Some("New")), ("one", Some("New"))], "each once, in the order of the request");
    assert_eq!(all(&world, "tags").await, [json!(["NEW", "old"]), json!(["NEW", "old"]), json!(["old"])]);
    let [new, old] = ["https://example.com/new", "https://example.com/"].map(Value::from);
    assert_eq!(all(&world, "web_url").await, [new.clone(), new, old]);
    let visit = world.nobody.tap("one").await;
    assert_eq!(visit.header("location"), "https://example.com/new", "caches know at once");

    let off =
        json!({"link_ids": ["one", "three"], "set": {"enabled": false, "expires_at": null}, "remove_tags": ["OLD"]});
    assert_eq!(world.a.ask(Method::PATCH, "/v1/links/bulk").json(&off).send().await.status, 200);
    assert_eq!(all(&world, "enabled").await, [json!(false), json!(true), json!(false)]);
    assert_eq!(all(&world, "tags").await, [json!(["NEW"]), json!(["NEW", "old"]), json!([])]);

    let gone = world.a.links().bulk_delete(["three", "one", "one"]).await.expect("a deletion");
    assert_eq!(gone.deleted, 2);
    assert_eq!(world.nobody.tap("one").await.status, 404);
    let kept = world.a.get("/v1/links").await.json();
    assert_eq!(kept["links"].as_array().expect("links").len(), 1);
    world.a.links().create(&CreateLink::new().custom_id("one")).await.expect("its ID is free");
}

/// One link that cannot be changed refuses the request; all such links are named, in the order of the request.
#[tokio::test]
async fn nothing_is_changed_unless_every_link_can_be() {
    let world = spawn().await;
    three(&world).await;
    world.b.post("/v1/links", &json!({"custom_id": "of-b"})).await;
    let many: Vec<String> = (0..19).map(|nth| format!("tag-{nth}")).collect();
    world.a.put("/v1/links/three", &json!({"tags": many})).await;
    let ids = json!(["one", "of-b", "a\u{0}b", "two", "nobodys"]);
    for (method, body) in [
        (Method::PATCH, json!({"link_ids": ids, "set": {"name": "x"}})),
        (Method::PATCH, json!({"link_ids": ids, "add_tags": ["x"]})),
        (Method::DELETE, json!({"link_ids": ids})),
    ] {
        let refused = world.a.ask(method.clone(), "/v1/links/bulk").json(&body).send().await;
        assert_eq!(refused.outcome(), "400 invalid_batch", "{method} {body}");
        let errors = refused.json()["errors"].as_array().expect("errors").clone();
        let named: Vec<_> = errors.iter().map(|row| (row["index"].clone(), row["code"].clone())).collect();
        let expected = [1, 2, 4].map(|index| (json!(index), json!("not_found")));
        assert_eq!(named, expected, "{method} {body}");
    }
    let body = json!({"link_ids": ["one", "three"], "add_tags": ["x", "y"]});
    let refused = world.a.ask(Method::PATCH, "/v1/links/bulk").json(&body).send().await.json();
    assert_eq!(
        (&refused["errors"][0]["code"], &refused["errors"][0]["field"]),
        (&json!("invalid_tag"), &json!("add_tags"))
    );
    assert_eq!(all(&world, "name").await, [Value::Null, Value::Null, Value::Null]);
    assert_eq!(all(&world, "tags").await[..2], [json!(["old"]), json!(["old"])]);
}

#[tokio::test]
async fn what_is_asked_is_checked() {
    let world = spawn().await;
    three(&world).await;
    let too_many: Vec<String> = (0..101).map(|nth| format!("id-{nth}")).collect();
    for (body, expected) in [
        (json!({}), "400 bad_request link_ids"),
        (json!({"link_ids": null, "set": {"name": "x"}}), "400 bad_request link_ids"),
        (json!({"link_ids": [], "set": {"name": "x"}}), "400 batch_empty"),
        (json!({"link_ids": too_many, "set": {"name": "x"}}), "400 batch_too_large"),
        (json!({"link_ids": ["one"]}), "400 empty_update"),
        (json!({"link_ids": ["one"], "set": {}}), "400 empty_update"),
        // X10: fields that the service owns cannot be set.
        (json!({"link_ids": ["one"], "set": {"status": "flagged", "tenant_id": "x"}}), "400 empty_update"),
        (json!({"link_ids": ["one"], "add_tags": []}), "400 empty_update"),
        (json!({"link_ids": ["one"], "set": {"web_url": "x"}}), "400 invalid_url web_url"),
        (
            json!({"link_ids": ["one"], "set": {"expires_at": "2000-01-01T00:00:00Z"}}),
            "400 invalid_expires_at expires_at",
        ),
        (json!({"link_ids": ["one"], "add_tags": ["a,b"]}), "400 invalid_tag add_tags"),
        (json!({"link_ids": ["one"], "remove_tags": [""]}), "400 invalid_tag remove_tags"),
        (json!({"link_ids": ["one"], "add_tags": ["a"], "remove_tags": ["A"]}), "400 bad_request remove_tags"),
        (json!({"link_ids": ["one"], "set": {"tags": []}, "add_tags": ["a"]}), "400 bad_request set.tags"),
    ] {
        let refused = world.a.ask(Method::PATCH, "/v1/links/bulk").json(&body).send().await;
        assert_eq!(refused.outcome(), expected, "{body}");
    }
    for (body, expected) in [
        (json!({}), "400 bad_request link_ids"),
        (json!({"link_ids": []}), "400 batch_empty"),
        (json!({"link_ids": too_many}), "400 batch_too_large"),
    ] {
        let refused = world.a.ask(Method::DELETE, "/v1/links/bulk").json(&body).send().await;
        assert_eq!(refused.outcome(), expected, "{body}");
    }
    let refused = world.a.links().bulk_update(&BulkUpdate::new(["one"])).await.expect_err("nothing to change");
    assert_eq!(refused.kind(), Kind::Validation);
}

/// A deletion repeated with the same key does nothing and gets the first reply; without the key the links are missing.
#[tokio::test]
async fn a_repeated_deletion_gets_the_first_reply() {
    let world = spawn().await;
    three(&world).await;
    let gone = json!({"link_ids": ["one", "two"]});
    let ask = |body: &Value| {
        let key = "key-1";
        world.a.ask(Method::DELETE, "/v1/links/bulk").header("idempotency-key", key).json(body)
    };
    assert_eq!(ask(&gone).send().await.json(), json!({"deleted": 2}));
    world.a.make("one").await;
    let again = ask(&gone).send().await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, "true"));
    assert_eq!(again.json(), json!({"deleted": 2}));
    assert_eq!(world.nobody.tap("one").await.status, 302, "nothing was deleted again");
    let other = json!({"link_ids": ["three"]});
    assert_eq!(ask(&other).send().await.outcome(), "409 idempotency_conflict Idempotency-Key");
    let refused = world.a.ask(Method::DELETE, "/v1/links/bulk").json(&gone).send().await;
    assert_eq!(refused.outcome(), "400 invalid_batch");
    assert_eq!(world.nobody.tap("one").await.status, 302);
}

/// A change repeated with the same key is not made again; the reply shows the links as they are then.
#[tokio::test]
async fn a_repeated_change_is_not_made_again() {
    let world = spawn().await;
    three(&world).await;
    let change = json!({"link_ids": ["two", "one"], "add_tags": ["new"]});
    let ask = |method: Method, body: &Value| {
        world.a.ask(method, "/v1/links/bulk").header("idempotency-key", "key-1").json(body)
    };
    assert_eq!(ask(Method::PATCH, &change).send().await.status, 200);
    world.a.put("/v1/links/one", &json!({"tags": []})).await;
    assert_eq!(world.a.delete("/v1/links/two").await.status, 204);
    let again = ask(Method::PATCH, &change).send().await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, "true"));
    let links = again.json()["links"].as_array().expect("links").clone();
    assert_eq!(
        links.iter().map(|link| (&link["link_id"], &link["tags"])).collect::<Vec<_>>(),
        [(&json!("one"), &json!([]))]
    );
    let other = json!({"link_ids": ["three"], "add_tags": ["new"]});
    assert_eq!(ask(Method::PATCH, &other).send().await.outcome(), "409 idempotency_conflict Idempotency-Key");
    // The same key for another method is another request.
    assert_eq!(ask(Method::DELETE, &json!({"link_ids": ["one"]})).send().await.json(), json!({"deleted": 1}));
}

/// Every rule for the update of one link holds for many.
#[tokio::test]
async fn what_the_operator_forbids_is_refused() {
    const LISTED: &str = "https://bad.example.com/";
    let list = ThreatList::of(LISTED);
    let world = spawn_with(|config| config.threat_list = Some(list.file())).await;
    three(&world).await;
    let change = async |body: Value| world.a.ask(Method::PATCH, "/v1/links/bulk").json(&body).send().await;
    let listed = json!({"link_ids": ["one", "two"], "set": {"web_url": LISTED, "name": "x"}});
    assert_eq!(change(listed).await.outcome(), "400 threat_detected web_url");

    // A link that was listed later does not work again because it is enabled or gets a later expiry.
    let off = json!({"link_ids": ["one", "two"], "set": {"enabled": false}});
    assert_eq!(change(off).await.status, 200);
    world.db.execute(&format!("UPDATE links SET web_url = '{LISTED}' WHERE link_id = 'two'")).await;
    world.db.execute("UPDATE links SET status = 'disabled', taken_down = TRUE WHERE link_id = 'three'").await;
    let ids = json!(["three", "one", "two"]);
    let on = change(json!({"link_ids": ids, "set": {"enabled": true, "name": "x"}})).await;
    assert_eq!(on.outcome(), "400 invalid_batch");
    let rows = on.json()["errors"].as_array().expect("errors").clone();
    let named: Vec<_> = rows.iter().map(|row| format!("{} {} {}", row["index"], row["code"], row["field"])).collect();
    assert_eq!(named, ["0 \"disabled_by_operator\" \"enabled\"", "2 \"threat_detected\" \"web_url\""]);
    assert_eq!(all(&world, "name").await, [Value::Null, Value::Null, Value::Null]);
    assert_eq!(all(&world, "enabled").await[..2], [json!(false), json!(false)]);

    let off = json!({"link_ids": ids, "set": {"enabled": false}});
    assert_eq!(change(off).await.status, 200, "the owner's switch is kept for when the operator's is lifted");
}

/// All links together get as many different tags as the account may have, or none.
#[tokio::test]
async fn an_account_has_at_most_a_thousand_tags() {
    let world = spawn().await;
    three(&world).await;
    let rows: Vec<_> = (0..49)
        .map(|link| json!({"tags": (0..20).map(|at| format!("tag {}", link * 20 + at)).collect::<Vec<_>>()}))
        .collect();
    assert_eq!(world.a.post("/v1/links/bulk", &json!({"links": rows})).await.status, 201);
    let tags = |count: usize| (0..count).map(|nth| format!("new {nth}")).collect::<Vec<_>>();
    let change = async |body: Value| world.a.ask(Method::PATCH, "/v1/links/bulk").json(&body).send().await;
    // 980, and the one that the three links have.
    let ids = json!(["one", "two", "three"]);
    let refused = change(json!({"link_ids": ids, "set": {"name": "x"}, "add_tags": tags(20)})).await;
    assert_eq!(refused.outcome(), "400 tag_limit tags");
    let changed = change(json!({"link_ids": ids, "set": {"name": "x"}, "add_tags": tags(19)})).await;
    assert_eq!(changed.status, 200);
    let changed = change(json!({"link_ids": ids, "set": {"name": "y"}, "remove_tags": ["new 0"], "add_tags": ["a"]}));
    assert_eq!(changed.await.status, 200, "a tag that no link has any more is not counted");
    let refused = change(json!({"link_ids": ["one"], "set": {"name": "z", "tags": ["b"]}})).await;
    assert_eq!(refused.outcome(), "400 tag_limit tags");
    assert_eq!(all(&world, "name").await, [json!("y"), json!("y"), json!("y")]);
    assert_eq!(world.db.texts("SELECT CAST(COUNT(*) AS TEXT) FROM tags".to_owned()).await, ["1000"]);
}

/// Changes, deletions and single updates of the same links in any order end without a deadlock, and counts stay exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_changes_of_the_same_links_at_once_end() {
    let world = spawn_nodes(2).await;
    let ids: Vec<String> = (0..20).map(|nth| format!("id-{nth:02}")).collect();
    assert_eq!(world.a.post("/v1/links/bulk", &json!({"template": {}, "custom_ids": ids})).await.status, 201);
    let backwards: Vec<&String> = ids.iter().rev().collect();
    let bodies = [
        (Method::PATCH, "/v1/links/bulk", json!({"link_ids": ids, "add_tags": ["a"]})),
        (Method::PATCH, "/v1/links/bulk", json!({"link_ids": backwards, "set": {"name": "x"}, "remove_tags": ["a"]})),
        (Method::PUT, "/v1/links/id-19", json!({"name": "y"})),
        (Method::PUT, "/v1/links/id-00", json!({"enabled": true, "tags": ["a", "b"]})),
        (Method::DELETE, "/v1/links/bulk", json!({"link_ids": backwards[..10]})),
    ];
    let there = world.at(1, &world.a);
    let statuses = at_once(20, |nth| {
        let (caller, (method, path, body)) =
            (if nth % 2 == 0 { &world.a } else { &there }, &bodies[nth % bodies.len()]);
        let ask = caller.ask(method.clone(), path).json(body);
        async move { ask.send().await.status }
    })
    .await;
    assert!(statuses.iter().all(|status| [200, 400, 404].contains(status)), "{statuses:?}");
    let count = world.db.texts("SELECT CAST(link_count AS TEXT) FROM tenants WHERE link_count > 0".to_owned()).await;
    let links = world.a.get("/v1/links?limit=100").await.json()["links"].as_array().expect("links").len();
    assert_eq!(count, [links.to_string()]);
}
