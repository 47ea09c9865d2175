//! What a link's owner decides besides its content: its name, whether it works, when it ends and where people go then.

use std::time::Duration;

use deeplink_client::{CreateLink, LinkFilter, LinkStatus, Patch, UpdateLink};
use http::Method;
use serde_json::{Value, json};

use deeplink_doubles::wait::PATIENCE;
use deeplink_testing::{Caller, Role, eventually, spawn, spawn_nodes, spawn_with};

const DAY: Duration = Duration::from_hours(24);

async fn shown(caller: &Caller, id: &str) -> Value {
    caller.get(&format!("/v1/links/{id}")).await.json()
}

#[tokio::test]
async fn what_the_owner_sets_is_shown_and_changed() {
    let world = spawn().await;
    let end = world.clock.now().plus_days(10);
    let link = CreateLink::new().custom_id("spring-42").name("Spring sale").enabled(false).expires_at(end.to_string());
    let made = world.a.links().create(&link.expired_url("https://example.com/over")).await.expect("a link");
    assert_eq!(made.expires_at, Some(end), "earlier than the 30 days of an account without a domain");
    let link = world.a.links().get("spring-42").await.expect("the link");
    assert_eq!((link.name.as_deref(), link.enabled, link.status), (Some("Spring sale"), false, LinkStatus::Disabled));
    assert_eq!((link.expires_at, link.owner_expires_at), (Some(end), Some(end)));
    assert_eq!(link.expired_url.as_deref(), Some("https://example.com/over"));

    let mut update = UpdateLink::new();
    update.enabled = Patch::Set(true);
    let link = world.a.links().update("spring-42", &update).await.expect("changed");
    assert_eq!((link.name.as_deref(), link.enabled, link.status), (Some("Spring sale"), true, LinkStatus::Active));
    assert_eq!(link.expires_at, Some(end), "what is not named stays");
    let cleared =
        world.a.put("/v1/links/spring-42", &json!({"name": null, "expires_at": null, "expired_url": null})).await;
    let cleared = cleared.json();
    assert_eq!(
        (&cleared["name"], &cleared["owner_expires_at"], &cleared["expired_url"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let rule = world.clock.now().plus_days(30).to_string();
    assert_eq!(cleared["expires_at"], rule, "the end of an account without a domain stays");
    let blank = world.a.put("/v1/links/spring-42", &json!({"name": "  "})).await;
    assert_eq!((blank.status, &blank.json()["name"]), (200, &Value::Null));
}

#[tokio::test]
async fn each_rule_has_its_code_and_field() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let now = world.clock.now();
    let late = now.plus_days(36_526).to_string();
    for (field, value, outcome) in [
        ("name", json!("x".repeat(121)), "400 invalid_name name"),
        ("name", json!("a\u{7}b"), "400 invalid_name name"),
        ("expires_at", json!("tomorrow"), "400 invalid_expires_at expires_at"),
        ("expires_at", json!("2027-01-01T00:00:00"), "400 invalid_expires_at expires_at"),
        ("expires_at", json!(now.to_string()), "400 invalid_expires_at expires_at"),
        ("expires_at", json!(late), "400 invalid_expires_at expires_at"),
        ("expired_url", json!("myapp://x"), "400 invalid_url expired_url"),
        ("expired_url", json!("https://127.0.0.1/"), "400 invalid_url expired_url"),
    ] {
        let body = json!({field: value});
        assert_eq!(world.a.post("/v1/links", &body).await.outcome(), outcome, "{body}");
        assert_eq!(world.a.put("/v1/links/spring-42", &body).await.outcome(), outcome, "{body}");
        let template = json!({"template": body, "count": 2});
        assert_eq!(world.a.post("/v1/links/bulk", &template).await.outcome(), outcome, "{body}");
        let rows = world.a.post("/v1/links/bulk", &json!({"links": [{}, body]})).await.json();
        let row = &rows["errors"][0];
        assert_eq!(
            (&row["index"], format!("400 {} {field}", row["code"].as_str().expect("a code"))),
            (&json!(1), outcome.into())
        );
    }
    for (field, value) in [("enabled", json!("yes")), ("expires_at", json!(5)), ("name", json!(5))] {
        let body = json!({field: value});
        assert_eq!(world.a.post("/v1/links", &body).await.status, 400, "{body}");
        assert_eq!(world.a.put("/v1/links/spring-42", &body).await.status, 400, "{body}");
    }
    assert_eq!(
        world.a.put("/v1/links/spring-42", &json!({"enabled": null})).await.outcome(),
        "400 bad_request enabled"
    );
    assert_eq!(shown(&world.a, "spring-42").await["name"], Value::Null, "nothing was changed");
}

/// A link ends at the earlier of its owner's end and that of an account without a domain; a verified domain lifts the latter.
#[tokio::test]
async fn a_verified_domain_lifts_the_accounts_end_and_not_the_owners() {
    let world = spawn().await;
    let now = world.clock.now();
    let (early, late) = (now.plus_days(10), now.plus_days(90));
    let mut batch = json!({"links": [{"custom_id": "none"}, {"custom_id": "early", "expires_at": early}]});
    assert_eq!(world.a.post("/v1/links/bulk", &batch).await.status, 201);
    batch = json!({"template": {"expires_at": late}, "custom_ids": ["late", "cleared"]});
    assert_eq!(world.a.post("/v1/links/bulk", &batch).await.status, 201);
    world.a.put("/v1/links/cleared", &json!({"expires_at": null})).await;
    let ends = async || {
        let mut ends = Vec::new();
        for id in ["none", "early", "late", "cleared"] {
            ends.push(shown(&world.a, id).await["expires_at"].clone());
        }
        ends
    };
    let rule = json!(now.plus_days(30));
    assert_eq!(ends().await, [rule.clone(), json!(early), rule.clone(), rule]);
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    assert_eq!(ends().await, [Value::Null, json!(early), json!(late), Value::Null]);
    assert_eq!(world.a.put("/v1/links/late", &json!({"expires_at": null})).await.json()["expires_at"], Value::Null);
}

/// People who open an expired link are sent to its page for that; what programs read is unchanged, and nothing is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_link_sends_people_where_its_owner_says() {
    let world = spawn_nodes(2).await;
    let end = world.clock.now().plus_days(1);
    let link = json!({"custom_id": "sale", "web_url": "https://example.com/sale", "expires_at": end});
    world.a.make_of(&link).await;
    let there = world.at(1, &world.nobody);
    assert_eq!((world.nobody.tap("sale").await.status, there.tap("sale").await.status), (302, 302));
    world.clock.advance(DAY);
    assert_eq!(world.nobody.tap("sale").await.status, 410);
    assert_eq!(shown(&world.a, "sale").await["status"], "expired");
    assert_eq!(world.a.put("/v1/links/sale", &json!({"expired_url": "https://example.com/"})).await.status, 200);
    let target = async |caller: &Caller| {
        let reply = caller.tap("sale").await;
        (reply.status == 302).then(|| reply.header("location").to_owned())
    };
    assert_eq!(target(&world.nobody).await.as_deref(), Some("https://example.com/"));
    eventually("the other node follows", PATIENCE, async || target(&there).await.is_some()).await;
    let json = world.nobody.resolve("sale").await.json();
    assert_eq!((&json["_service_meta"]["status"], &json["web_url"]), (&json!("expired"), &Value::Null));
    let listed =
        world.a.links().list(&LinkFilter::new().status(LinkStatus::Expired)).first_page().await.expect("a page");
    assert_eq!(listed.links.len(), 1);
    // Extended, it works again.
    let later = world.clock.now().plus_days(1);
    assert_eq!(world.a.put("/v1/links/sale", &json!({"expires_at": later})).await.json()["status"], "active");
    assert_eq!(target(&world.nobody).await.as_deref(), Some("https://example.com/sale"));
    // A click on another node is loaded by that node.
    eventually("all are counted", PATIENCE, async || world.a.clicks_of("sale").await == 3).await;
}

/// A link that its owner switched off shows the notice of disabled links, is in that list, and can be deleted like any other.
#[tokio::test]
async fn a_link_that_is_off_shows_the_notice_until_it_is_on_again() {
    let world = spawn().await;
    world.a.make("works").await;
    world.a.make("off").await;
    assert_eq!(world.nobody.tap("off").await.status, 302);
    assert_eq!(world.a.put("/v1/links/off", &json!({"enabled": false})).await.json()["status"], "disabled");
    let page = world.nobody.tap("off").await;
    assert!(page.status == 410 && page.text().contains("This link is no longer available"), "{}", page.text());
    assert_eq!(world.nobody.resolve("off").await.json()["_service_meta"]["status"], "disabled");
    for (status, id) in [(LinkStatus::Disabled, "off"), (LinkStatus::Active, "works")] {
        let page = world.a.links().list(&LinkFilter::new().status(status)).first_page().await.expect("a page");
        assert_eq!(page.links.iter().map(|link| link.link_id.as_str()).collect::<Vec<_>>(), [id]);
    }
    assert_eq!(world.a.put("/v1/links/off", &json!({"enabled": true})).await.json()["status"], "active");
    assert_eq!(world.nobody.tap("off").await.status, 302);
    assert_eq!(world.a.clicks_of("off").await, 2);
    // Deleted while off, its id is free.
    assert_eq!(world.a.put("/v1/links/off", &json!({"enabled": false})).await.status, 200);
    assert_eq!(world.a.delete("/v1/links/off").await.status, 204);
    assert_eq!(world.nobody.tap("off").await.status, 404);
    world.b.make("off").await;
}

/// The operator's switch outranks the owner's, which is kept for when that is lifted.
#[tokio::test]
async fn what_the_operator_switched_off_stays_off() {
    let world = spawn().await;
    world.a.make("bait").await;
    world.db.execute("UPDATE links SET status = 'disabled', taken_down = TRUE WHERE link_id = 'bait'").await;
    let refused = world.a.put("/v1/links/bait", &json!({"enabled": true, "name": "x"})).await;
    assert_eq!(refused.outcome(), "409 disabled_by_operator enabled");
    assert_eq!(shown(&world.a, "bait").await["name"], Value::Null, "nothing was changed");
    let off = world.a.put("/v1/links/bait", &json!({"enabled": false})).await.json();
    assert_eq!((&off["enabled"], &off["status"]), (&json!(false), &json!("disabled")));

    // The page says who did it.
    world.a.make_of(&json!({"custom_id": "own", "enabled": false})).await;
    let session = world.session_of(&world.a).await;
    for (id, by_operator) in [("bait", true), ("own", false)] {
        let page = world.nobody.browse(Method::GET, &format!("/account/links/{id}")).session(&session).send().await;
        assert!(page.text().contains("Disabled</span>"), "{id}");
        assert_eq!(page.text().contains("by the operator of this service"), by_operator, "{id}");
    }
}

/// Names are for the owner alone: visitors and affiliates do not see them, and an affiliate's key cannot set one.
#[tokio::test]
async fn a_name_is_for_the_owner_alone() {
    let world = spawn_with(|config| config.unverified_link_ttl_days = 0).await;
    let link = json!({"custom_id": "mine", "name": "secret plan", "affiliate_id": world.a1.affiliate_id()});
    world.a.make_of(&link).await;
    assert_eq!(shown(&world.a, "mine").await["name"], "secret plan");
    let listed = world.a1.get("/v1/links").await;
    let one = world.a1.get("/v1/links/mine").await;
    assert_eq!((listed.status, one.status), (200, 200));
    let page = world.nobody.browse(Method::GET, "/r/mine").send().await;
    for seen in [listed.text(), one.text(), world.nobody.resolve("mine").await.text(), page.text()] {
        assert!(!seen.contains("secret plan"), "{seen}");
    }
    for (caller, q, found) in [(&world.a, "secret", 1), (&world.a1, "secret", 0), (&world.a1, "mine", 1)] {
        let links = caller.get(&format!("/v1/links?q={q}")).await.json()["links"].clone();
        assert_eq!(links.as_array().map(Vec::len), Some(found), "{q}");
    }
    let named = json!({"name": "x"});
    assert_eq!(world.a1.post("/v1/links", &named).await.outcome(), "400 invalid_name name");
    let template = json!({"template": named, "count": 1});
    assert_eq!(world.a1.post("/v1/links/bulk", &template).await.outcome(), "400 invalid_name name");
    // Each row at fault is listed, with those that break another rule.
    let rows = json!({"links": [{"custom_id": "good"}, named, {"custom_id": "a_b"}, {"name": "y"}]});
    let refused = world.a1.post("/v1/links/bulk", &rows).await;
    assert_eq!(refused.outcome(), "400 invalid_batch");
    let errors = refused.json()["errors"].as_array().expect("errors").clone();
    let errors: Vec<_> = errors.iter().map(|error| (error["index"].as_u64(), error["code"].as_str())).collect();
    assert_eq!(
        errors,
        [(Some(1), Some("invalid_name")), (Some(2), Some("invalid_custom_id")), (Some(3), Some("invalid_name"))]
    );
    let made = world.a1.post("/v1/links", &json!({"expires_at": "2027-01-01T00:00:00Z", "enabled": false})).await;
    assert_eq!(made.status, 201);
}
