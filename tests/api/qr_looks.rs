//! The look that a link keeps for its QR codes.

use http::Method;
use serde_json::{Value, json};

use crate::outbound::png;
use crate::qr_logos::upload;
use deeplink_testing::{Caller, spawn, spawn_with};

const LOOK: &str = "dotType=classy&fgColor=0a3c8c&level=Q&size=300";

fn look() -> Value {
    json!({"dotType": "classy", "fgColor": "0A3C8C", "level": "q", "size": 300})
}

async fn image(caller: &Caller, rest: &str) -> Vec<u8> {
    let reply = caller.get(&format!("/v1/links/spring-42/qr.{rest}")).await;
    assert_eq!(reply.status, 200, "{rest}: {}", reply.text());
    reply.body.to_vec()
}

#[tokio::test]
async fn a_link_keeps_its_look_and_a_request_without_options_gets_it() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "spring-42", "qr": look()})).await;
    let normal = json!({"size": 300, "level": "Q", "dotType": "classy", "fgColor": "#0a3c8c"});
    assert_eq!(world.a.get("/v1/links/spring-42").await.json()["qr"], normal);
    assert_eq!(world.a.get("/v1/links").await.json()["links"][0]["qr"], normal);
    for format in ["png", "svg"] {
        assert_eq!(image(&world.a, format).await, image(&world.a, &format!("{format}?{LOOK}")).await);
        // What is unknown is no option.
        assert_eq!(image(&world.a, format).await, image(&world.a, &format!("{format}?unknown=1")).await);
    }
    // A size replaces only that of the look.
    assert_eq!(
        image(&world.a, "svg?size=600").await,
        image(&world.a, &format!("svg?{}", LOOK.replace("300", "600"))).await
    );
    // Any other option replaces the look as a whole, also one with its default.
    let plain = image(&world.a, "svg?margin=2").await;
    assert_ne!(plain, image(&world.a, "svg").await);
    assert_eq!(plain, image(&world.a, "svg?margin=2&size=600").await);
    assert_eq!(plain, image(&world.a, "svg?includeMargin=true").await);
    let refused = world.a.get("/v1/links/spring-42/qr.svg?level=").await;
    assert_eq!(refused.outcome(), "400 invalid_qr_options level");

    let tag = world.a.get("/v1/links/spring-42/qr.png").await.header("etag").to_owned();
    let changed = world.a.put("/v1/links/spring-42", &json!({"qr": {"dotType": "dots"}})).await;
    assert_eq!(changed.json()["qr"], json!({"dotType": "dots"}), "a look is replaced as a whole");
    assert_ne!(world.a.get("/v1/links/spring-42/qr.png").await.header("etag"), tag);
    assert_eq!(
        world.a.put("/v1/links/spring-42", &json!({"name": "Spring"})).await.json()["qr"],
        json!({"dotType": "dots"})
    );
    for none in [json!(null), json!({}), json!({"size": null})] {
        world.a.put("/v1/links/spring-42", &json!({ "qr": look() })).await;
        assert_eq!(world.a.put("/v1/links/spring-42", &json!({ "qr": none })).await.json()["qr"], Value::Null);
        assert_eq!(image(&world.a, "svg").await, plain);
    }
}

#[tokio::test]
async fn a_wrong_look_is_refused_like_wrong_options() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    let missing = "qr.logo: this account has no uploaded logo named nowhere";
    for (qr, expected) in [
        (json!({"size": 0}), "400 invalid_qr_options qr.size"),
        (json!({"size": "300"}), "400 invalid_qr_options qr.size"),
        (json!({"margin": 17}), "400 invalid_qr_options qr.margin"),
        (json!({"dotType": "classyrounded"}), "400 invalid_qr_options qr.dotType"),
        (json!({"fgColor": "#ffff"}), "400 invalid_qr_options qr.fgColor"),
        (json!({"fgColor": "#fff"}), "400 invalid_qr_options qr.fgColor"),
        (json!({"logo": "https://127.0.0.1/x.png"}), "400 invalid_qr_options qr.logo"),
        (json!({"logo": "http://127.0.0.2:8080/x.png"}), "400 invalid_qr_options qr.logo"),
        (json!({"logo": "name:A"}), "400 invalid_qr_options qr.logo"),
        (json!({"logo": "name:nowhere"}), "400 invalid_qr_options qr.logo"),
        (json!([]), "400 bad_request qr"),
        (json!("classy"), "400 bad_request qr"),
    ] {
        let created = world.a.post("/v1/links", &json!({ "qr": qr })).await;
        assert_eq!(created.outcome(), expected, "{qr}");
        let template = world.a.post("/v1/links/bulk", &json!({"template": {"qr": qr}, "count": 2})).await;
        assert_eq!(template.outcome().split(' ').nth(1), expected.split(' ').nth(1), "{qr}");
        let updated = world.a.put("/v1/links/spring-42", &json!({ "qr": qr })).await;
        assert_eq!(updated.outcome(), expected, "{qr}");
        let many = world.a.patch("/v1/links/bulk", &json!({"link_ids": ["spring-42"], "set": {"qr": qr}})).await;
        assert_eq!(many.outcome().split(' ').nth(1), expected.split(' ').nth(1), "{qr}");
    }
    let rows = json!({"links": [{"qr": {"level": "H"}}, {"qr": {"level": "X"}}, {"qr": {"logo": "name:nowhere"}}]});
    let refused = world.a.post("/v1/links/bulk", &rows).await;
    assert_eq!(refused.outcome(), "400 invalid_batch");
    let told: Vec<_> =
        refused.json()["errors"].as_array().expect("errors").iter().map(|row| row["index"].clone()).collect();
    assert_eq!(told, [1, 2]);
    assert_eq!(refused.json()["errors"][1]["message"], missing);
    assert_eq!(world.a.get("/v1/links/spring-42").await.json()["qr"], Value::Null);
    // Where the operator allows it, a logo may be there.
    let near = spawn_with(|config| config.outbound_allow = "127.0.0.2/32".parse().expect("a network")).await;
    near.a.make_of(&json!({"qr": {"logo": "http://127.0.0.2:8080/x.png"}})).await;
}

#[tokio::test]
async fn looks_come_with_batches_and_changes_of_many() {
    let world = spawn().await;
    let batch = json!({"links": [{"custom_id": "one-1", "qr": {"shape": "circle"}}, {"custom_id": "two-2"}]});
    assert_eq!(world.a.post("/v1/links/bulk", &batch).await.status, 201);
    let template = json!({"template": {"qr": {"level": "M"}}, "custom_ids": ["three-3"]});
    assert_eq!(world.a.post("/v1/links/bulk", &template).await.status, 201);
    let looks = async || {
        let mut looks = Vec::new();
        for id in ["one-1", "two-2", "three-3"] {
            looks.push(world.a.get(&format!("/v1/links/{id}")).await.json()["qr"].clone());
        }
        looks
    };
    assert_eq!(looks().await, [json!({"shape": "circle"}), Value::Null, json!({"level": "M"})]);
    let change = json!({"link_ids": ["one-1", "two-2"], "set": {"qr": {"margin": 4}}});
    assert_eq!(world.a.patch("/v1/links/bulk", &change).await.status, 200);
    assert_eq!(looks().await, [json!({"margin": 4}), json!({"margin": 4}), json!({"level": "M"})]);
    // An affiliate's links have looks, too.
    world.a1.make_of(&json!({"custom_id": "of-a1", "qr": {"level": "H"}})).await;
    assert_eq!(world.a1.get("/v1/links/of-a1").await.json()["qr"], json!({"level": "H"}));
}

#[tokio::test]
async fn a_look_is_in_the_history_and_comes_back() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "spring-42", "qr": look()})).await;
    world.a.put("/v1/links/spring-42", &json!({"qr": null})).await;
    let history = world.a.get("/v1/links/spring-42/history").await.json();
    assert_eq!(history["versions"][0]["content"]["qr"]["dotType"], "classy");
    let restored = world.a.post("/v1/links/spring-42/restore", &json!({})).await.json();
    assert_eq!(restored["qr"]["dotType"], "classy");
    assert_eq!(world.a.delete("/v1/links/spring-42").await.status, 204);
    let restored = world.a.post("/v1/links/spring-42/restore", &json!({})).await.json();
    assert_eq!(restored["qr"]["dotType"], "classy");
}

/// As a newer version, on another node, may have stored it.
#[tokio::test]
async fn a_look_that_cannot_be_read_survives_other_changes() {
    const LATER: &str = r#"{"dotType":"later","size":300}"#;
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "spring-42", "qr": look()})).await;
    world.db.execute(format!("UPDATE links SET qr = '{LATER}'")).await;
    assert_eq!(world.a.put("/v1/links/spring-42", &json!({"name": "Spring"})).await.status, 200);
    let change = json!({"link_ids": ["spring-42"], "set": {"web_url": "https://example.com/p"}});
    assert_eq!(world.a.patch("/v1/links/bulk", &change).await.status, 200);
    assert_eq!(world.db.texts("SELECT qr FROM links").await, [LATER]);
    let drawn = world.a.get("/v1/links/spring-42/qr.svg").await;
    assert_eq!(drawn.outcome(), "400 invalid_qr_options qr.dotType");
    assert_eq!(world.a.put("/v1/links/spring-42", &json!({"qr": {"size": 400}})).await.status, 200);
    assert_eq!(world.db.texts("SELECT qr FROM links").await, [r#"{"size":400}"#]);
}

/// Nor is it lost when it is replaced or its link is deleted, because both can be undone.
#[tokio::test]
async fn a_look_that_cannot_be_read_comes_back() {
    const LATER: &str = r#"{"dotType":"later", "size":300}"#;
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "spring-42", "qr": look()})).await;
    world.db.execute(format!("UPDATE links SET qr = '{LATER}'")).await;
    let restore = async |body: Value| world.a.post("/v1/links/spring-42/restore", &body).await;
    assert_eq!(world.a.put("/v1/links/spring-42", &json!({"qr": {"size": 400}})).await.status, 200);
    let history = world.a.get("/v1/links/spring-42/history").await.json();
    assert_eq!(history["versions"][0]["content"]["qr"], Value::Null, "{history}");
    assert_eq!(restore(json!({})).await.status, 200);
    assert_eq!(world.db.texts("SELECT qr FROM links").await, [LATER]);
    assert_eq!(restore(json!({})).await.json()["qr"], json!({"size": 400}));
    assert_eq!(restore(json!({"version": 1})).await.status, 200);
    assert_eq!(world.a.delete("/v1/links/spring-42").await.status, 204);
    assert_eq!(restore(json!({})).await.status, 200);
    assert_eq!(world.db.texts("SELECT qr FROM links").await, [LATER]);

    // An empty look, as versions once had instead, is none.
    world.db.execute("UPDATE links SET qr = '{}'").await;
    assert_eq!(world.a.get("/v1/links/spring-42").await.json()["qr"], Value::Null);
    assert_eq!(world.a.put("/v1/links/spring-42", &json!({"qr": {"size": 500}})).await.status, 200);
    assert_eq!(restore(json!({})).await.json()["qr"], Value::Null);
    assert_eq!(world.a.get("/v1/links/spring-42/qr.svg").await.status, 200);
}

/// The caller did not send the options of the look, so an error names them as the link's.
#[tokio::test]
async fn an_error_of_a_kept_look_names_the_option_of_the_link() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "spring-42", "qr": {"size": 10}})).await;
    for (rest, expected) in [
        ("png", "400 invalid_qr_options qr.size"),
        ("png?size=11", "400 invalid_qr_options size"),
        ("png?size=0", "400 invalid_qr_options size"),
        ("png?size=10&level=L", "400 invalid_qr_options size"),
        ("png?size=300", "200"),
    ] {
        let reply = world.a.get(&format!("/v1/links/spring-42/qr.{rest}")).await;
        assert_eq!(reply.outcome(), expected, "{rest}");
    }
    world.a.put("/v1/links/spring-42", &json!({"qr": {"logo": "https://no-such-host.example.com/x.png"}})).await;
    assert_eq!(world.a.get("/v1/links/spring-42/qr.png").await.outcome(), "400 invalid_qr_options qr.logo");
}

/// A logo can be deleted while links have it: their codes are drawn without one, until there is one of that name again.
#[tokio::test]
async fn a_code_whose_logo_is_gone_is_drawn_without_one() {
    let world = spawn().await;
    upload(&world.a, "acme", png()).await;
    world.a.make_of(&json!({"custom_id": "spring-42", "qr": {"logo": "name:acme", "fgColor": "0a3c8c"}})).await;
    let with = image(&world.a, "svg").await;
    assert!(String::from_utf8_lossy(&with).contains("<image "));
    assert_eq!(with, image(&world.a, "svg?logo=name:acme&fgColor=0a3c8c").await);
    assert_eq!(world.a.delete("/v1/qr-logos/acme").await.status, 204);
    assert_eq!(image(&world.a, "svg").await, image(&world.a, "svg?fgColor=0a3c8c").await);
    let asked = world.a.get("/v1/links/spring-42/qr.svg?logo=name:acme").await;
    assert_eq!(asked.outcome(), "400 invalid_qr_options logo", "a request that names it is told");
    // Other fields can be changed, and the look stays.
    let changed = world.a.put("/v1/links/spring-42", &json!({"name": "Spring"})).await.json();
    assert_eq!(changed["qr"], json!({"fgColor": "#0a3c8c", "logo": "name:acme"}));
    // The link as it was read can be written again, with other options, too; another link cannot get that logo.
    for qr in [changed["qr"].clone(), json!({"logo": "name:acme", "fgColor": "#0a3c8c"})] {
        assert_eq!(world.a.put("/v1/links/spring-42", &json!({ "qr": qr })).await.json()["qr"], changed["qr"]);
    }
    let change = |ids: &[&str]| json!({"link_ids": ids, "set": {"qr": changed["qr"]}});
    assert_eq!(world.a.patch("/v1/links/bulk", &change(&["spring-42"])).await.status, 200);
    world.a.make("other-1").await;
    for ids in [&["other-1"][..], &["spring-42", "other-1"]] {
        assert_eq!(world.a.patch("/v1/links/bulk", &change(ids)).await.outcome(), "400 invalid_qr_options qr.logo");
    }
    let other = world.a.put("/v1/links/other-1", &json!({"qr": changed["qr"]})).await;
    assert_eq!(other.outcome(), "400 invalid_qr_options qr.logo");
    upload(&world.a, "acme", png()).await;
    assert_eq!(image(&world.a, "svg").await, with);
    // A head that is known is answered without the image.
    let tag = world.a.get("/v1/links/spring-42/qr.svg").await.header("etag").to_owned();
    let known = world.a.ask(Method::GET, "/v1/links/spring-42/qr.svg").header("if-none-match", &tag).send().await;
    assert_eq!((known.status, known.body.len()), (304, 0));
}
