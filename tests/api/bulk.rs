//! Many links in one request: all or nothing, and every failing row is reported.

use deeplink_client::{CreateLink, Ids};
use deeplink_core::metadata::Metadata;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, spawn};

async fn count(caller: &Caller) -> usize {
    let mut path = "/v1/links?limit=100".to_owned();
    let mut all = 0;
    loop {
        let page = caller.get(&path).await.json();
        all += page["links"].as_array().expect("links").len();
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/links?limit=100&cursor={cursor}"),
            None => return all,
        }
    }
}

#[tokio::test]
async fn each_of_the_three_forms_answers_in_the_order_of_the_request() {
    let world = spawn().await;
    let template = CreateLink::new().web_url("https://example.com/p").custom_id("ignored");
    let ids = ["zebra", "alpha", "Mitte"];
    let named = world.a.links().bulk_create(&template, ids).full().await.expect("links");
    assert_eq!(
        (named.status.as_u16(), &named.headers["location"]),
        (201, &http::HeaderValue::from_static("/v1/links"))
    );
    assert_eq!(named.value.links.iter().map(|link| link.link_id.as_str()).collect::<Vec<_>>(), ids);
    for link in &named.value.links {
        assert_eq!(link.url, format!("{}/r/{}", world.a.base(), link.link_id));
        let shown = world.a.links().get(&link.link_id).await.expect("the link");
        assert_eq!(shown.web_url.as_deref(), Some("https://example.com/p"));
        assert_eq!(shown.expires_at, Some(world.clock.now().plus_days(30)));
    }

    let generated = world.a.links().bulk_create(&template, Ids::Generated(100)).await.expect("links").links;
    let distinct: std::collections::HashSet<_> = generated.iter().map(|link| link.link_id.clone()).collect();
    assert_eq!(distinct.len(), 100);
    assert!(
        distinct.iter().all(|id| id.len() == 8 && id.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()))
    );

    let differing = [
        CreateLink::new().custom_id("one").web_url("https://example.com/1"),
        CreateLink::new(),
        CreateLink::new().custom_id("two").ios_deep_link("myapp://2"),
    ];
    let made = world.a.links().bulk_create_links(&differing).await.expect("links").links;
    assert_eq!((made[0].link_id.as_str(), made[1].link_id.len(), made[2].link_id.as_str()), ("one", 8, "two"));
    assert_eq!(world.a.links().get("two").await.expect("the link").ios_deep_link.as_deref(), Some("myapp://2"));
    assert_eq!(count(&world.a).await, 106);
}

/// A batch stores only the columns that some row fills; the other rows have the defaults of these.
#[tokio::test]
async fn each_row_has_its_own_values_and_the_defaults_of_the_others() {
    let world = spawn().await;
    let plain = || CreateLink::new().web_url("https://example.com/p");
    let rows = [
        plain().custom_id("row-plain"),
        plain().custom_id("row-off").enabled(false),
        plain().custom_id("row-named").name("Spring, \"sale\"").imported_clicks(7),
        plain()
            .custom_id("row-ended")
            .expires_at(world.clock.now().plus_days(2).to_string())
            .expired_url("https://example.com/over"),
        CreateLink::new()
            .custom_id("row-app")
            .android_deep_link("myapp://1")
            .metadata(Metadata::parse(r#"{"n":[null,1.5,"ä"]}"#).expect("JSON")),
    ];
    for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]] {
        world.a.links().bulk_create_links(&order.map(|at| rows[at].clone())).await.expect("links");
        for row in &rows {
            let link = world.a.links().get(row.custom_id.as_deref().expect("an id")).await.expect("the link");
            let id = &link.link_id;
            assert_eq!(link.enabled, row.enabled.unwrap_or(true), "{id}");
            assert_eq!((&link.name, link.imported_clicks), (&row.name, row.imported_clicks), "{id}");
            assert_eq!((&link.web_url, &link.android_deep_link), (&row.web_url, &row.android_deep_link), "{id}");
            assert_eq!((&link.metadata, &link.expired_url), (&row.metadata, &row.expired_url), "{id}");
            assert_eq!(link.owner_expires_at.map(|at| at.to_string()), row.expires_at, "{id}");
            world.a.links().delete(id).await.expect("it is deleted");
        }
    }
}

#[tokio::test]
async fn modes_sizes_and_templates_are_judged_in_order() {
    let world = spawn().await;
    let ids = |count: usize| (0..count).map(|at| format!("id-{at}")).collect::<Vec<_>>();
    let links = |count: usize| vec![json!({}); count];
    for (body, expected) in [
        (json!({}), "400 batch_mode_missing"),
        (json!({"template": {}}), "400 batch_mode_missing"),
        (json!({"template": {}, "custom_ids": null, "count": null, "links": null}), "400 batch_mode_missing"),
        (json!({"template": {}, "custom_ids": ["abc"], "count": 1}), "400 batch_mode_ambiguous"),
        (json!({"template": {}, "custom_ids": [], "count": 0}), "400 batch_mode_ambiguous"),
        (json!({"links": [{}], "template": {}}), "400 batch_mode_ambiguous"),
        (json!({"links": [{}], "custom_ids": ["abc"]}), "400 batch_mode_ambiguous"),
        (json!({"links": [], "count": 1}), "400 batch_mode_ambiguous"),
        (json!({"count": 1}), "400 bad_request template"),
        (json!({"custom_ids": ["abc"], "template": null}), "400 bad_request template"),
        (json!({"template": {}, "count": 0}), "400 batch_empty"),
        (json!({"template": {}, "custom_ids": []}), "400 batch_empty"),
        (json!({"links": []}), "400 batch_empty"),
        (json!({"template": {}, "count": 101}), "400 batch_too_large"),
        (json!({"template": {}, "count": 18_446_744_073_709_551_615_u64}), "400 batch_too_large"),
        (json!({"template": {}, "custom_ids": ids(101)}), "400 batch_too_large"),
        (json!({"links": links(101)}), "400 batch_too_large"),
        (json!({"template": {}, "count": -1}), "400 bad_request count"),
        (json!({"template": {}, "count": 1.5}), "400 bad_request count"),
        (json!({"template": {}, "count": "1"}), "400 bad_request count"),
        (json!({"template": {}, "count": true}), "400 bad_request count"),
        (json!({"template": {}, "custom_ids": "abc"}), "400 bad_request custom_ids"),
        (json!({"template": {}, "custom_ids": ["abc", 1]}), "400 bad_request custom_ids[1]"),
        (json!({"template": {}, "custom_ids": [null]}), "400 bad_request custom_ids[0]"),
        (json!({"template": [], "count": 1}), "400 bad_request template"),
        (json!({"links": {}}), "400 bad_request links"),
        (json!({"links": [1]}), "400 bad_request links[0]"),
        (json!({"links": [{}, {"web_url": 1}]}), "400 bad_request links[1].web_url"),
        // The template is checked before the size, the size before the rows.
        (json!({"template": {"web_url": "x"}, "count": 0}), "400 invalid_url web_url"),
        (json!({"template": {}, "custom_ids": vec!["!"; 101]}), "400 batch_too_large"),
        (json!({"template": {"custom_id": "!"}, "count": 1}), "201"),
        (json!({"template": {}, "custom_ids": ids(100)}), "201"),
        (json!({"links": links(100)}), "201"),
    ] {
        assert_eq!(world.a.post("/v1/links/bulk", &body).await.outcome(), expected, "{body}");
    }
    assert_eq!(count(&world.a).await, 201);
}

fn errors(body: &Value) -> String {
    let rows = body["errors"].as_array().expect("row errors").iter().map(|row| {
        let text = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
        assert!(!text("message").is_empty());
        format!("{} {} {} {}", row["index"], text("code"), text("custom_id"), text("field"))
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn every_failing_row_is_listed_and_nothing_is_stored() {
    let world = spawn().await;
    world.a.make("taken").await;
    world.b.make("theirs").await;
    let before = world.db.dump().await;
    let body =
        json!({"template": {}, "custom_ids": ["good", "x", "taken", "good", "health", "theirs", "good", "fine"]});
    let refused = world.a.post("/v1/links/bulk", &body).await;
    assert_eq!(refused.outcome(), "400 invalid_batch");
    // Invalid rows and taken ids are in one reply, so that all can be fixed at once.
    assert_eq!(
        errors(&refused.json()),
        "1 invalid_custom_id x custom_id\n2 link_id_taken taken custom_id\n\
         3 duplicate_custom_id_in_batch good custom_id\n4 invalid_custom_id health custom_id\n\
         5 link_id_taken theirs custom_id\n6 duplicate_custom_id_in_batch good custom_id"
    );
    let body = json!({"template": {}, "custom_ids": ["theirs", "good", "taken"]});
    let refused = world.a.post("/v1/links/bulk", &body).await;
    assert_eq!(errors(&refused.json()), "0 link_id_taken theirs custom_id\n2 link_id_taken taken custom_id");
    let body = json!({"links": [
        {"custom_id": "good"}, {"web_url": "http://10.0.0.1/"}, {"custom_id": "good", "metadata": []}, {"custom_id": "good"},
        {"social_preview": {}}, {},
    ]});
    let refused = world.a.post("/v1/links/bulk", &body).await;
    assert_eq!(
        errors(&refused.json()),
        "1 invalid_url - web_url\n2 invalid_metadata good metadata\n3 duplicate_custom_id_in_batch good custom_id\n\
         4 invalid_social_preview - social_preview"
    );
    let foreign = world.b1.affiliate_id();
    let body =
        json!({"links": [{"affiliate_id": world.a1.affiliate_id()}, {"custom_id": "row-1", "affiliate_id": foreign}]});
    let refused = world.a.post("/v1/links/bulk", &body).await;
    assert_eq!(errors(&refused.json()), "1 affiliate_not_found row-1 affiliate_id");
    assert_eq!(world.db.dump().await, before, "nothing of a refused batch is stored");
}

#[tokio::test]
async fn the_typed_client_gives_the_rows_of_a_refusal() {
    let world = spawn().await;
    world.a.make("taken").await;
    let error = world.a.links().bulk_create(&CreateLink::new(), ["free", "taken"]).await.expect_err("a taken id");
    let rows: Vec<_> = error.batch_errors().iter().map(|row| (row.index, row.custom_id.as_deref())).collect();
    assert_eq!(rows, [(1, Some("taken"))]);
}

#[tokio::test]
async fn a_batch_may_be_a_mebibyte_and_no_more() {
    let world = spawn().await;
    let padded = |bytes: usize| {
        let head = r#"{"template":{},"count":1,"padding":""#;
        format!("{head}{}\"}}", "x".repeat(bytes - head.len() - 2))
    };
    for (bytes, expected) in
        [(1 << 20, "201"), ((1 << 20) + 1, "413 payload_too_large"), (10 << 20, "413 payload_too_large")]
    {
        let outcome = world.a.ask(Method::POST, "/v1/links/bulk").body(padded(bytes)).send().await.outcome();
        assert_eq!(outcome, expected, "{bytes}");
    }
}

#[tokio::test]
async fn affiliates_are_pinned_or_checked_in_each_form() {
    let world = spawn().await;
    let (one, two) = (world.a1.affiliate_id(), world.a2.affiliate_id());
    let shown = async |id: &str| world.a.get(&format!("/v1/links/{id}")).await.json()["affiliate_id"].clone();
    for (number, template) in
        [json!({}), json!({"affiliate_id": one}), json!({"affiliate_id": two}), json!({"affiliate_id": "nonsense"})]
            .iter()
            .enumerate()
    {
        let id = format!("scoped-{number}");
        let body = json!({"template": template, "custom_ids": [id]});
        assert_eq!(world.a1.post("/v1/links/bulk", &body).await.outcome(), "201", "{body}");
        assert_eq!(shown(&id).await, one, "a scoped key's own affiliate replaces the template's");
        let mut row = template.clone();
        row["custom_id"] = format!("row-{number}").into();
        assert_eq!(world.a1.post("/v1/links/bulk", &json!({"links": [row]})).await.outcome(), "201");
        assert_eq!(shown(&format!("row-{number}")).await, one);
    }
    let body = json!({"template": {"affiliate_id": two}, "custom_ids": ["full-key"]});
    assert_eq!(world.a.post("/v1/links/bulk", &body).await.outcome(), "201");
    assert_eq!(shown("full-key").await, two);
    for affiliate in [world.b1.affiliate_id(), "aff_0123456789abcdef01234567", "nonsense"] {
        let body = json!({"template": {"affiliate_id": affiliate}, "count": 1});
        let outcome = world.a.post("/v1/links/bulk", &body).await.outcome();
        assert_eq!(outcome, "404 affiliate_not_found affiliate_id", "{affiliate}");
    }
}
