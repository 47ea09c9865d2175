//! The contents of events: exactly these fields for each kind.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::{Reading, deliveries, expect_deliveries, webhook};
use deeplink_testing::{Caller, World, spawn};

const ALL: [&str; 4] = ["click", "attribute", "identify", "conversion"];

fn now(world: &World) -> Value {
    json!(world.clock.now().to_string())
}

async fn attribute(caller: &Caller, link: &str, install: &str) {
    let body = json!({"link_id": link, "install_id": install, "app_version": "1.0", "context": {"os": "iOS"}});
    let reply = caller.post("/v1/lifecycle/attribute", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn identify(caller: &Caller, install: &str, user: &str) {
    let reply = caller.put("/v1/lifecycle/identify", &json!({"install_id": install, "user_id": user})).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

async fn convert(caller: &Caller, body: &Value) -> Value {
    let reply = caller.post("/v1/lifecycle/convert", body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()["event_id"].clone()
}

/// C8: each kind has exactly these members, so none has an IP address; and texts from visitors are truncated.
#[tokio::test]
async fn c8_each_kind_says_exactly_this() {
    let world = spawn().await;
    let (a, tenant) = (&world.a, world.a.tenant.as_str());
    a.make_of(&json!({"custom_id": "spring-42", "web_url": "https://example.com/", "metadata": {"z": 1, "a": [2.50]}}))
        .await;
    a.make("autumn-7").await;
    let hook = webhook(a, "all", &ALL, &json!({})).await;
    let mut stream = Reading::of(a).await;

    let long = "x".repeat(600);
    let ask = a.browse(Method::GET, "/r/spring-42").header("x-forwarded-for", "203.0.113.7");
    assert_eq!(ask.header("referer", format!("https://example.com/{long}")).send().await.status, 302);
    let click = stream.next().await.expect("a click");
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0";
    let referer: String = format!("https://example.com/{long}").chars().take(512).collect();
    let data = json!({
        "tenant_id": tenant, "link_id": "spring-42", "user_agent": agent, "referer": referer, "platform": "other",
        "timestamp": now(&world),
    });
    assert_eq!(
        (click.kind.as_str(), &click.body),
        ("click", &json!({"event": "click", "timestamp": now(&world), "data": data}))
    );

    attribute(a, "spring-42", "install-1").await;
    let data = json!({
        "tenant_id": tenant, "link_id": "spring-42", "install_id": "install-1", "app_version": "1.0",
        "timestamp": now(&world),
    });
    let touch = stream.next().await.expect("a touch");
    assert_eq!(touch.body, json!({"event": "attribute", "timestamp": now(&world), "data": data}));

    identify(a, "install-1", "ann").await;
    let data = json!({
        "tenant_id": tenant, "user_id": "ann", "install_id": "install-1", "first_touch_link_id": "spring-42",
        "first_touch_link_metadata": {"z": 1, "a": [2.50]}, "timestamp": now(&world),
    });
    let bound = stream.next().await.expect("a binding");
    assert_eq!(bound.body, json!({"event": "identify", "timestamp": now(&world), "data": data}));

    attribute(a, "autumn-7", "install-1").await;
    assert_eq!(stream.next().await.expect("a touch").body["data"]["user_id"], "ann");

    let sold = json!({"type": "purchase", "user_id": "ann", "amount_cents": 1_999, "currency": "EUR", "metadata": {"sku": "7"}});
    let id = convert(a, &sold).await;
    let data = json!({
        "event_id": id, "tenant_id": tenant, "source_id": null, "first_touch_link_id": "spring-42",
        "last_touch_link_id": "autumn-7", "conversion_type": "purchase", "user_id": "ann", "metadata": {"sku": "7"},
        "timestamp": now(&world), "amount_cents": 1_999, "currency": "EUR",
    });
    let sale = stream.next().await.expect("a conversion");
    assert_eq!(sale.body, json!({"event": "conversion", "timestamp": now(&world), "data": data}));
    assert_eq!(json!(sale.id), id);

    // The webhook gets the same bytes; clicks moments later.
    expect_deliveries(&world, &hook, 5).await;
    let mut sent: Vec<Value> =
        deliveries(&world, &hook).await.iter().map(|body| serde_json::from_str(body).expect("JSON")).collect();
    let mut told = vec![click.body, touch.body, bound.body, sale.body];
    sent.retain(|body| body["data"]["link_id"] != "autumn-7");
    sent.sort_by_key(Value::to_string);
    told.sort_by_key(Value::to_string);
    assert_eq!(sent, told);
}

/// Unknown values are null, and inapplicable members are absent.
#[tokio::test]
async fn what_is_unknown_is_null() {
    let world = spawn().await;
    let a = &world.a;
    a.make_of(
        &json!({"custom_id": "spring-42", "web_url": "https://example.com/", "metadata": {"campaign": "spring"}}),
    )
    .await;
    a.make("gone").await;
    let mut stream = Reading::of(a).await;
    let bare = a.ask_without_key(Method::GET, "/r/spring-42").header("accept", "application/json").send().await;
    assert_eq!(bare.status, 200);
    let click = stream.next().await.expect("a click");
    assert_eq!((&click.body["data"]["user_agent"], &click.body["data"]["referer"]), (&Value::Null, &Value::Null));

    identify(a, "untouched", "bea").await;
    let bound = stream.next().await.expect("a binding").body;
    assert_eq!(bound["data"]["first_touch_link_id"], Value::Null);
    assert_eq!(bound["data"]["first_touch_link_metadata"], Value::Null);
    convert(a, &json!({"type": "signup", "user_id": "bea"})).await;
    let sale = stream.next().await.expect("a conversion").body;
    for member in ["source_id", "first_touch_link_id", "last_touch_link_id", "metadata"] {
        assert_eq!(sale["data"].get(member), Some(&Value::Null), "{member}");
    }
    assert!(sale["data"].get("amount_cents").is_none() && sale["data"].get("currency").is_none(), "{sale}");

    // Without its own metadata it has the last touch's; a source is named; a deleted link keeps its id.
    attribute(a, "gone", "install-1").await;
    identify(a, "install-1", "ann").await;
    attribute(a, "spring-42", "install-1").await;
    assert_eq!(a.delete("/v1/links/gone").await.status, 204);
    stream.take(3).await;
    let source = a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let address = source.member("webhook_url");
    let path = address.split_once("/in/").map(|(_, token)| format!("/in/{token}")).expect("a path");
    let sold = json!({"type": "purchase", "user_id": "ann"});
    assert_eq!(world.nobody.post(&path, &sold).await.status, 200);
    let sale = stream.next().await.expect("a conversion").body;
    let data = &sale["data"];
    assert_eq!(
        (&data["source_id"], &data["first_touch_link_id"], &data["last_touch_link_id"], &data["metadata"]),
        (&json!(source.member("id")), &json!("gone"), &json!("spring-42"), &json!({"campaign": "spring"}))
    );
}

/// A webhook with `filters.affiliate_id` gets the conversions whose last touch was by that affiliate's link, and all
/// events of the other kinds it subscribes to.
#[tokio::test]
async fn an_affiliates_filter_narrows_conversions_alone() {
    let world = spawn().await;
    let a = &world.a;
    let [of_one, of_two] = [&world.a1, &world.a2];
    of_one.make("of-one").await;
    of_two.make("of-two").await;
    a.make("own").await;
    let hook = webhook(a, "one", &["conversion", "identify"], &json!({"affiliate_id": of_one.affiliate_id()})).await;
    for (nth, links) in [["of-one", "of-two"], ["of-two", "of-one"], ["own", "own"]].iter().enumerate() {
        let (install, user) = (format!("install-{nth}"), format!("user-{nth}"));
        for link in links {
            attribute(a, link, &install).await;
        }
        identify(a, &install, &user).await;
        convert(a, &json!({"type": "purchase", "user_id": user})).await;
    }
    let sent = deliveries(&world, &hook).await;
    let users = |kind: &str| {
        let sent = sent.iter().map(|body| serde_json::from_str::<Value>(body).expect("JSON"));
        let of_kind = sent.filter(|body| body["event"] == kind);
        let mut users: Vec<String> =
            of_kind.map(|body| body["data"]["user_id"].as_str().unwrap_or("").to_owned()).collect();
        users.sort();
        users
    };
    assert_eq!(users("conversion"), ["user-1"]);
    assert_eq!(users("identify"), ["user-0", "user-1", "user-2"]);
}

/// A link that was deleted since still belongs to its affiliate: its conversions are sent as if it existed, whether
/// they came after that or waited for their user.
#[tokio::test]
async fn an_affiliates_conversions_outlive_its_links() {
    let world = spawn().await;
    let a = &world.a;
    let [of_one, of_two] = [&world.a1, &world.a2];
    of_one.make("of-one").await;
    of_two.make("of-two").await;
    let hook = webhook(a, "one", &["conversion"], &json!({"affiliate_id": of_one.affiliate_id()})).await;
    for (nth, link) in ["of-one", "of-two", "of-one"].into_iter().enumerate() {
        attribute(a, link, &format!("install-{nth}")).await;
    }
    for nth in [0, 1] {
        identify(a, &format!("install-{nth}"), &format!("user-{nth}")).await;
    }
    convert(a, &json!({"type": "purchase", "user_id": "user-2"})).await;
    for link in ["of-one", "of-two"] {
        assert_eq!(a.delete(&format!("/v1/links/{link}")).await.status, 204);
    }
    for nth in [0, 1] {
        convert(a, &json!({"type": "purchase", "user_id": format!("user-{nth}")})).await;
    }
    identify(a, "install-2", "user-2").await;
    let sent = deliveries(&world, &hook).await;
    let sent = sent.iter().map(|body| serde_json::from_str::<Value>(body).expect("JSON"));
    let told = sent.map(|body| ["user_id", "last_touch_link_id"].map(|member| body["data"][member].to_string()));
    let expected = ["user-0", "user-2"].map(|user| [format!("\"{user}\""), "\"of-one\"".to_owned()]);
    assert_eq!(told.collect::<BTreeSet<_>>(), BTreeSet::from(expected));
}

/// Previews and crawlers are counted apart, and make no events.
#[tokio::test]
async fn machines_that_only_look_are_no_events() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let hook = webhook(&world.a, "clicks", &["click"], &json!({})).await;
    let mut stream = Reading::of(&world.a).await;
    for agent in ["WhatsApp/2.23", "Mozilla/5.0 (compatible; Googlebot/2.1)", "curl/8.5.0"] {
        let ask = world.a.ask_without_key(Method::GET, "/r/spring-42").header("accept", "*/*");
        ask.header("user-agent", agent).send().await;
    }
    let told = stream.rest(&world.a).await;
    let agents: Vec<&Value> = told.iter().map(|frame| &frame.body["data"]["user_agent"]).collect();
    assert_eq!(agents, ["curl/8.5.0"]);
    expect_deliveries(&world, &hook, 1).await;
}
