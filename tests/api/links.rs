//! Creating, showing, changing and deleting one link. The rules of its fields are in `urls` and `texts`.

use std::time::Duration;

use deeplink_client::{Action, AgentContext, CreateLink, Kind, LinkStatus, Metadata, Patch, SocialPreview, UpdateLink};
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Role, spawn, spawn_with};

/// A link with everything set.
fn full() -> CreateLink {
    CreateLink::new()
        .custom_id("spring-42")
        .ios_deep_link("myapp://promo/42")
        .ios_store_url("https://apps.apple.com/app/id1")
        .android_deep_link("myapp://promo/42")
        .android_store_url("https://play.google.com/store/apps/details?id=com.example.app")
        .web_url("https://example.com/p/42")
        .metadata(Metadata::parse(r#"{"z":1e400,"a":[true,null],"n":12345678901234567890}"#).expect("JSON"))
        .agent_context(AgentContext {
            action: Some(Action::Purchase),
            cta: Some("Buy now".into()),
            description: Some("Spring sale,\nonly today".into()),
        })
        .social_preview(SocialPreview {
            title: Some("Spring sale".into()),
            description: None,
            image_url: Some("https://example.com/p.png".into()),
        })
}

#[tokio::test]
async fn what_was_created_is_shown_as_it_was_sent() {
    let world = spawn().await;
    let made = world.a.links().create(&full()).full().await.expect("a link");
    assert_eq!(made.status, 201);
    assert_eq!(made.headers["location"], "/v1/links/spring-42");
    assert_eq!(made.value.link_id, "spring-42");
    assert_eq!(made.value.url, format!("{}/r/spring-42", world.a.base()));
    assert_eq!(made.value.expires_at, Some(world.clock.now().plus_days(30)));

    let shown = world.a.links().get("spring-42").await.expect("the link");
    let sent = full();
    assert_eq!(shown.ios_deep_link, sent.ios_deep_link);
    assert_eq!(shown.ios_store_url, sent.ios_store_url);
    assert_eq!(shown.android_deep_link, sent.android_deep_link);
    assert_eq!(shown.android_store_url, sent.android_store_url);
    assert_eq!(shown.web_url, sent.web_url);
    assert_eq!(shown.metadata, sent.metadata);
    assert_eq!(shown.agent_context, sent.agent_context);
    assert_eq!(shown.social_preview, sent.social_preview);
    assert_eq!((shown.url, shown.expires_at), (made.value.url, made.value.expires_at));
    assert_eq!((shown.affiliate_id, shown.status), (None, LinkStatus::Active));
    assert_eq!((shown.created_at, shown.updated_at), (world.clock.now(), world.clock.now()));
}

#[tokio::test]
async fn an_empty_link_is_a_link_and_all_its_nulls_are_shown() {
    let world = spawn().await;
    let made = world.a.post("/v1/links", &json!({})).await;
    let id = made.member("link_id");
    assert!(id.len() == 8 && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()), "{id}");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&made.json()), "link_id url expires_at");

    let shown = world.a.get(&format!("/v1/links/{id}")).await.json();
    assert_eq!(
        keys(&shown),
        "link_id url ios_deep_link ios_store_url android_deep_link android_store_url web_url metadata agent_context \
         social_preview affiliate_id status expires_at created_at updated_at name enabled owner_expires_at expired_url tags \
         aliases qr imported_clicks"
    );
    for field in ["web_url", "metadata", "agent_context", "social_preview", "affiliate_id"] {
        assert_eq!(shown[field], Value::Null, "{field}");
    }
    assert_eq!(shown["created_at"], "2026-11-20T09:30:00.010Z");
}

#[tokio::test]
async fn metadata_keeps_its_text_but_for_white_space_between_tokens() {
    let world = spawn().await;
    for (number, sent, stored) in [
        (1, r#"{ "b" : 1, "a" : 2 }"#, r#"{"b":1,"a":2}"#),
        (2, r#"{"big":123456789012345678901234567890,"huge":1e400,"tiny":-0.0,"exp":1E+2}"#, ""),
        (3, r#"{"text":"a\u0041\/ b\tc","\u00e9":"é"}"#, ""),
        (4, r#"{"deep":[[[{"x":[]}]]]}"#, ""),
        (5, "{}", ""),
    ] {
        let body = format!(r#"{{"custom_id":"meta-{number}","metadata":{sent}}}"#);
        let made = world.a.ask(Method::POST, "/v1/links").body(body).send().await;
        assert_eq!(made.outcome(), "201", "{sent}");
        let stored = format!(r#""metadata":{}"#, if stored.is_empty() { sent } else { stored });
        let shown = world.a.get(&format!("/v1/links/meta-{number}")).await.text();
        assert!(shown.contains(&stored), "{shown} should contain {stored}");
        let resolved = world.a.resolve(&format!("meta-{number}")).await.text();
        assert!(resolved.contains(&stored), "{resolved} should contain {stored}");
    }
}

#[tokio::test]
async fn an_update_keeps_what_it_does_not_name_clears_null_and_replaces_the_rest_whole() {
    let world = spawn().await;
    let links = world.a.links();
    let before = links.create(&full()).await.expect("a link");
    world.clock.advance(Duration::from_mins(1));
    let mut update = UpdateLink::new();
    update.web_url = Patch::Set("https://example.com/new".into());
    update.ios_deep_link = Patch::Clear;
    update.metadata = Patch::Set(Metadata::parse(r#"{"only":1}"#).expect("JSON"));
    update.agent_context = Patch::Set(AgentContext { cta: Some("Go".into()), ..AgentContext::default() });
    let changed = links.update("spring-42", &update).await.expect("the link");
    assert_eq!(changed.web_url.as_deref(), Some("https://example.com/new"));
    assert_eq!(changed.ios_deep_link, None);
    assert_eq!(changed.metadata.as_ref().map(Metadata::as_str), Some(r#"{"only":1}"#));
    let agent = changed.agent_context.clone().expect("an agent context");
    assert_eq!((agent.action, agent.cta.as_deref(), agent.description), (None, Some("Go"), None));
    assert_eq!(changed.android_deep_link.as_deref(), Some("myapp://promo/42"));
    assert_eq!(changed.social_preview, full().social_preview);
    assert_eq!(changed.updated_at, changed.created_at.plus_millis(60_000));
    assert_eq!((changed.url.clone(), changed.expires_at), (before.url, before.expires_at));
    assert_eq!(links.get("spring-42").await.expect("the link"), changed);

    for field in ["metadata", "agent_context", "social_preview", "web_url", "android_store_url"] {
        let cleared = world.a.put("/v1/links/spring-42", &json!({field: null})).await;
        assert_eq!((cleared.status, &cleared.json()[field]), (200, &Value::Null), "{field}");
    }
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_refused() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for body in
        [json!({}), json!({"custom_id": "other"}), json!({"status": "disabled", "unknown": 1, "affiliate_id": null})]
    {
        assert_eq!(world.a.put("/v1/links/spring-42", &body).await.outcome(), "400 empty_update", "{body}");
    }
}

#[tokio::test]
async fn updates_are_judged_in_their_order() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let put = |path: &str| world.a.ask(Method::PUT, path);
    // 404 comes before 415, 413 and 400; 401 before all of them.
    for (ask, expected) in [
        (put("/v1/links/nowhere").body("{"), "404 not_found"),
        (put("/v1/links/nowhere").body_as("text/plain", "{}"), "404 not_found"),
        (put("/v1/links/nowhere").body("x".repeat(70_000)), "404 not_found"),
        (put("/v1/links/%00").body("{}"), "404 not_found"),
        (put("/v1/links/%ff%fe%fd").body("{}"), "404 not_found"),
        (put("/v1/links/spring-42").body_as("text/plain", "{}"), "415 unsupported_media_type"),
        (put("/v1/links/spring-42").body("x".repeat(70_000)), "413 payload_too_large"),
        (put("/v1/links/spring-42").body("{"), "400 bad_request"),
        (put("/v1/links/spring-42").body(r#"{"web_url":1}"#), "400 bad_request web_url"),
        (put("/v1/links/spring-42").body(r#"{"web_url":"x"}"#), "400 invalid_url web_url"),
        (put("/v1/links/spring-42").body(r#"{"metadata":[]}"#), "400 invalid_metadata metadata"),
        (put("/v1/links/spring-42").body(r#"{"social_preview":{}}"#), "400 invalid_social_preview social_preview"),
        (
            put("/v1/links/spring-42").body(r#"{"agent_context":{"action":"x"}}"#),
            "400 invalid_agent_context agent_context.action",
        ),
        (world.nobody.ask(Method::PUT, "/v1/links/nowhere").body("{"), "401 unauthorized"),
    ] {
        assert_eq!(ask.send().await.outcome(), expected);
    }
}

#[tokio::test]
async fn a_deleted_link_is_gone_at_once_and_its_id_may_be_used_again() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    assert_eq!(world.a.tap("spring-42").await.status, 302);
    world.a.links().delete("spring-42").await.expect("it is deleted");
    assert_eq!(world.a.tap("spring-42").await.status, 404);
    assert_eq!(world.a.get("/v1/links/spring-42").await.outcome(), "404 not_found");
    assert_eq!(world.a.put("/v1/links/spring-42", &json!({"web_url": null})).await.outcome(), "404 not_found");
    let twice = world.a.links().delete("spring-42").await.expect_err("it is deleted");
    assert_eq!(twice.kind(), Kind::NotFound);
    for id in ["nowhere", "x", "a_b", "%2e%2e", "%00", "%ff"] {
        assert_eq!(world.a.delete(&format!("/v1/links/{id}")).await.outcome(), "404 not_found", "{id}");
    }

    world.a.make("spring-42").await;
    world.expect_clicks(&[(0, 1)]).await;
    assert_eq!(world.a.clicks_of("spring-42").await, 0, "a new link has none of the old one's clicks");
}

#[tokio::test]
async fn a_taken_id_is_a_conflict_whoever_has_it() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for caller in [&world.a, &world.b, &world.a1] {
        let again = caller.post("/v1/links", &json!({"custom_id": "spring-42"})).await;
        assert_eq!(again.outcome(), "409 link_id_taken custom_id");
    }
    assert_eq!(
        world.b.post("/v1/links", &json!({"custom_id": "Spring-42"})).await.status,
        201,
        "ids are case-sensitive"
    );
}

/// L9: an id is unique within its tenant and claimed on the shared host. A tenant with its own domain may use an id
/// that another tenant has claimed; the claim ends with the link and is not passed on.
#[tokio::test]
async fn l9_a_claim_on_the_shared_host_belongs_to_the_first() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.a.make("promo").await;
    let made = world.b.post("/v1/links", &json!({"custom_id": "promo", "web_url": "https://example.com/b"})).await;
    assert_eq!(made.outcome(), "201");
    assert_eq!(made.member("url"), "https://go.example.com/promo");
    assert_eq!(
        world.b.post("/v1/links", &json!({"custom_id": "promo"})).await.outcome(),
        "409 link_id_taken custom_id"
    );

    let on_host = |host: &str, path: &str| world.nobody.browse(Method::GET, path).header("host", host);
    assert_eq!(world.a.tap("promo").await.header("location"), "https://example.com/promo");
    for path in ["/promo", "/r/promo"] {
        assert_eq!(on_host("go.example.com", path).send().await.header("location"), "https://example.com/b", "{path}");
    }
    world.a.links().delete("promo").await.expect("it is deleted");
    assert_eq!(world.a.tap("promo").await.status, 404, "the claim is not passed on");
    assert_eq!(on_host("go.example.com", "/promo").send().await.status, 302);
    world.a.make("promo").await;
    assert_eq!(world.a.tap("promo").await.header("location"), "https://example.com/promo", "a later link may claim it");

    // Without the claim a link keeps the domain that it was created under.
    world.db.execute("DELETE FROM domains").await;
    assert_eq!(world.b.get("/v1/links/promo").await.member("url"), "https://go.example.com/promo");
}

#[tokio::test]
async fn links_under_a_domain_of_their_own_have_its_address_and_do_not_end() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    world.clock.advance(Duration::from_secs(1));
    world.own_domain(&world.a, "later.example.com", Role::Primary).await;
    let made = world.a.post("/v1/links", &json!({})).await.json();
    let id = made["link_id"].as_str().expect("an id").to_owned();
    assert_eq!(made["url"], format!("https://go.example.com/{id}"), "with several, the oldest");
    assert_eq!(made["expires_at"], Value::Null);
    let bulk = world.a.post("/v1/links/bulk", &json!({"template": {}, "count": 1})).await.json();
    let row = &bulk["links"][0];
    assert_eq!(row["url"], format!("https://go.example.com/{}", row["link_id"].as_str().expect("an id")));
    assert_eq!(
        world.a.get(&format!("/v1/links/{}", row["link_id"].as_str().expect("an id"))).await.json()["expires_at"],
        Value::Null
    );
}

#[tokio::test]
async fn an_alternate_domain_alone_is_no_reason_not_to_end() {
    let world = spawn().await;
    world.own_domain(&world.a, "open.example.com", Role::Alternate).await;
    let made = world.a.post("/v1/links", &json!({"custom_id": "spring-42"})).await.json();
    assert_eq!(made["url"], format!("{}/r/spring-42", world.a.base()));
    assert_ne!(made["expires_at"], Value::Null);
}

#[tokio::test]
async fn how_long_links_without_a_domain_live_can_be_set() {
    for (days, expected) in [(0, None), (7, Some("2026-11-27T09:30:00.010Z"))] {
        let world = spawn_with(|config| config.unverified_link_ttl_days = days).await;
        let made = world.a.post("/v1/links", &json!({})).await.json();
        assert_eq!(made["expires_at"].as_str(), expected, "{days} days");
    }
}

#[tokio::test]
async fn a_link_expires_to_the_millisecond() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let status = async || world.a.get("/v1/links/spring-42").await.member("status");
    world.clock.set(world.clock.now().plus_days(30).plus_millis(-1));
    assert_eq!((status().await, world.a.tap("spring-42").await.status), ("active".into(), 302));
    world.clock.set(world.clock.now().plus_millis(1));
    assert_eq!((status().await, world.a.tap("spring-42").await.status), ("expired".into(), 410));
    let update = world.a.put("/v1/links/spring-42", &json!({"web_url": "https://example.com/x"})).await;
    assert_eq!(update.member("status"), "expired", "an update does not bring it back");
}

/// X10: fields that the service owns cannot be set; unknown fields are ignored.
#[tokio::test]
async fn x10_server_owned_fields_cannot_be_set() {
    let world = spawn().await;
    let hostile = json!({
        "id": "x", "tenant_id": world.b.tenant.as_str(), "status": "flagged", "expires_at": null, "verified": true,
        "created_at": "2000-01-01T00:00:00Z", "updated_at": "2000-01-01T00:00:00Z", "link_id": "y", "url": "https://evil.example/",
        "claimed": false, "position": 1, "web_url": "https://example.com/",
    });
    let mut create = hostile.clone();
    create["custom_id"] = "spring-42".into();
    assert_eq!(world.a.post("/v1/links", &create).await.status, 201);
    let bulk = json!({"template": hostile.clone(), "custom_ids": ["bulk-one"], "tenant_id": world.b.tenant.as_str(), "status": "flagged"});
    assert_eq!(world.a.post("/v1/links/bulk", &bulk).await.status, 201);
    assert_eq!(world.a.put("/v1/links/spring-42", &hostile).await.status, 200);
    for id in ["spring-42", "bulk-one"] {
        let shown = world.a.get(&format!("/v1/links/{id}")).await.json();
        assert_eq!(shown["link_id"], id);
        assert_eq!(shown["status"], "active");
        assert_eq!(shown["created_at"], "2026-11-20T09:30:00.010Z");
        assert_eq!(shown["expires_at"], "2026-12-20T09:30:00.010Z");
        assert_eq!(shown["url"], format!("{}/r/{id}", world.a.base()));
        assert_eq!(world.b.get(&format!("/v1/links/{id}")).await.status, 404);
    }
    let body = json!({"email": "new@example.com", "tenant_id": world.a.tenant.as_str(), "verified": true, "is_owner": false, "id": "skid_1"});
    let opened = world.nobody.post("/v1/auth/signup", &body).await.json();
    assert_ne!(opened["tenant_id"], world.a.tenant.as_str());
    let unverified =
        "SELECT CAST(count(*) AS BIGINT) FROM users WHERE email = 'new@example.com' AND is_owner AND NOT verified";
    assert_eq!(world.db.number(unverified).await, 1);

    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let server_owned = json!({
        "id": "x", "tenant_id": world.b.tenant.as_str(), "status": "disabled", "deleted_at": 1, "key": "pk_live_x",
        "created_at": "2000-01-01T00:00:00Z", "updated_at": "2000-01-01T00:00:00Z", "key_prefix": "x", "last_used_at": 1,
    });
    let with = |members: serde_json::Value| {
        let mut body = server_owned.clone();
        body.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        body
    };
    let now = json!(world.clock.now().to_string());
    let partner = world.a.post("/v1/affiliates", &with(json!({"name": "New", "partner_key": "new"}))).await.json();
    let path = format!("/v1/affiliates/{}", partner["id"].as_str().expect("an id"));
    let mut renamed = with(json!({"name": "Newer", "partner_key": "other"}));
    renamed.as_object_mut().expect("an object").remove("status");
    assert_eq!(world.a.ask(Method::PATCH, &path).json(&renamed).send().await.status, 200);
    let shown = world.a.get(&path).await.json();
    assert_eq!(
        (&shown["status"], &shown["partner_key"], &shown["name"]),
        (&json!("active"), &json!("new"), &json!("Newer"))
    );
    assert_eq!((&shown["created_at"], &shown["updated_at"]), (&now, &now));
    let key = world.a.post("/v1/auth/publishable-keys", &with(json!({"domain": "go.example.com"}))).await.json();
    assert_eq!((key["created_at"] == now, key["id"] == "x", key["key"] == "pk_live_x"), (true, false, false));
    let session = world.session_of(&world.a).await;
    let ask = world.nobody.ask(Method::POST, "/v1/auth/secret-keys/issue").session(&session);
    let key = ask.json(&with(json!({"affiliate_id": world.a1.affiliate_id(), "created_by": null}))).send().await.json();
    assert_eq!((key["created_at"] == now, key["id"] == "x"), (true, false));
    let listed = world.a.get("/v1/auth/secret-keys").await.json();
    assert_eq!((&listed["keys"][0]["id"], listed["keys"][0]["last_used_at"].is_null()), (&key["id"], true));
    assert_eq!(
        world.b.get("/v1/affiliates").await.json()["affiliates"].as_array().map(Vec::len),
        Some(1),
        "nothing is B's"
    );
}

/// U2: quota counters move with the rows.
#[tokio::test]
async fn u2_the_free_plan_ends_at_fifty_links_and_deleting_makes_room() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let bulk = json!({"template": {}, "count": 49});
    assert_eq!(world.a.post("/v1/links/bulk", &bulk).await.status, 201);
    world.a.make("last").await;
    let over = world.a.post("/v1/links", &json!({})).await;
    assert_eq!(over.outcome(), "402 quota_exceeded");
    assert_eq!(
        ["resource", "limit", "current"].map(|name| over.json()[name].clone()),
        [json!("links"), json!(50), json!(50)]
    );
    let over = world.a.links().create(&CreateLink::new()).await.expect_err("no room");
    let payment = over.payment().expect("a quota");
    assert_eq!((payment.resource, payment.limit, payment.current), (Some("links"), Some(50), Some(50)));

    // The quota is checked before a taken id on a single create, after the row errors in bulk.
    assert_eq!(world.a.post("/v1/links", &json!({"custom_id": "last"})).await.outcome(), "402 quota_exceeded");
    let taken = json!({"template": {}, "custom_ids": ["last"]});
    assert_eq!(world.a.post("/v1/links/bulk", &taken).await.outcome(), "400 invalid_batch");
    assert_eq!(world.a.post("/v1/links", &json!({"web_url": "x"})).await.outcome(), "400 invalid_url web_url");
    assert_eq!(world.b.post("/v1/links", &json!({})).await.status, 201, "another tenant has its own room");

    assert_eq!(world.a.delete("/v1/links/last").await.status, 204);
    let two = json!({"template": {}, "count": 2});
    assert_eq!(world.a.post("/v1/links/bulk", &two).await.outcome(), "402 quota_exceeded");
    assert_eq!(world.a1.post("/v1/links", &json!({})).await.status, 201);
    let counted = format!("SELECT link_count FROM tenants WHERE id = '{}'", world.a.tenant);
    let rows = format!("SELECT CAST(count(*) AS BIGINT) FROM links WHERE tenant_id = '{}'", world.a.tenant);
    assert_eq!((world.db.number(counted).await, world.db.number(rows).await), (50, 50));
}
