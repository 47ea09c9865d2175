//! Tenants see nothing of each other.

use http::Method;
use serde_json::{Value, json};

use crate::common::{Caller, Reply, Role, World, operations, spawn};

/// One row of the matrix: what each caller meets on a route, on a link of A.
struct Row {
    operation: &'static str,
    body: Option<Value>,
    /// Without a credential; with B's key; with the keys of A's affiliates 1 (whose link it is) and 2; with A's key.
    expected: [&'static str; 5],
}

const OWN: &str = "2xx, own data";

fn matrix() -> Vec<Row> {
    let row = |operation, body, expected| Row { operation, body, expected };
    let public = ["2xx"; 5];
    let full = ["401 unauthorized", OWN, "403 forbidden_scope", "403 forbidden_scope", "2xx"];
    vec![
        row("health", None, public),
        row("ready", None, public),
        row("openapi", None, public),
        row("llms", None, public),
        row("resolve", None, public),
        // On the service's own host there is nothing to see.
        row("apple_association", None, ["404 not_found"; 5]),
        row("asset_links", None, ["404 not_found"; 5]),
        row("signup", Some(json!({"email": "new@example.com"})), public),
        row("list_links", None, ["401 unauthorized", OWN, "2xx", OWN, "2xx"]),
        row("create_link", Some(json!({})), ["401 unauthorized", OWN, "2xx", OWN, "2xx"]),
        row(
            "bulk_create_links",
            Some(json!({"template": {}, "count": 2})),
            ["401 unauthorized", OWN, "2xx", OWN, "2xx"],
        ),
        row("get_link", None, ["401 unauthorized", "404 not_found", "2xx", "404 not_found", "2xx"]),
        row("link_qr", None, ["401 unauthorized", "404 not_found", "2xx", "404 not_found", "2xx"]),
        row("list_domains", None, full),
        row("create_domain", Some(json!({"domain": "new.example.com"})), full),
        row(
            "verify_domain",
            None,
            ["401 unauthorized", "404 not_found", "403 forbidden_scope", "403 forbidden_scope", "2xx"],
        ),
        row(
            "delete_domain",
            None,
            ["401 unauthorized", "404 not_found", "403 forbidden_scope", "403 forbidden_scope", "2xx"],
        ),
        row("list_apps", None, full),
        row(
            "create_app",
            Some(json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"})),
            full,
        ),
        row(
            "delete_app",
            None,
            ["401 unauthorized", "404 not_found", "403 forbidden_scope", "403 forbidden_scope", "2xx"],
        ),
        row(
            "link_timeseries",
            None,
            ["401 unauthorized", "404 not_found", "403 forbidden_scope", "403 forbidden_scope", "2xx"],
        ),
        row(
            "update_link",
            Some(json!({"web_url": null})),
            ["401 unauthorized", "404 not_found", "403 forbidden_scope", "403 forbidden_scope", "2xx"],
        ),
        row(
            "delete_link",
            None,
            ["401 unauthorized", "404 not_found", "403 forbidden_scope", "403 forbidden_scope", "2xx"],
        ),
    ]
}

/// Something of A's that the operation can be called on: a link of affiliate 1's, or what only A itself can have.
async fn thing_of_a(world: &World, operation: &operations::Operation, secret: &str) -> String {
    if operation.path.contains("{app_id}") {
        let app = json!({"platform": "ios", "bundle_id": "com.example.of-a", "team_id": "ABCDE12345"});
        return world.a.post("/v1/apps", &app).await.member("id");
    }
    if operation.path.contains("{domain}") {
        let domain = format!("{}.example.com", operation.id.replace('_', "-"));
        world.own_domain(&world.a, &domain, Role::Primary).await;
        return domain;
    }
    let id = format!("of-a1-{}", operation.id.replace('_', "-"));
    world.a1.make_of(&json!({"custom_id": id, "web_url": secret})).await;
    id
}

async fn call(caller: &Caller, operation: &operations::Operation, id: &str, body: Option<&Value>) -> Reply {
    let ask = caller.ask(operation.method.clone(), &operation.at(id));
    match body {
        Some(body) => ask.json(body).send().await,
        None => ask.send().await,
    }
}

/// What is stored for A, but for what its visitors leave.
async fn of_a(world: &World) -> Vec<String> {
    let dump = world.db.dump_without_clicks().await;
    dump.values().flatten().filter(|row| row.contains(world.a.tenant.as_str())).cloned().collect()
}

/// I1: each route with each kind of caller, in both directions. What belongs to somebody else looks exactly like what is
/// not there, and stays as it was. Every documented route has a row.
#[tokio::test]
async fn i1_each_route_with_each_caller() {
    let rows = matrix();
    for operation in operations::all() {
        assert!(rows.iter().any(|row| row.operation == operation.id), "{} has no row in the matrix", operation.id);
    }
    let world = spawn().await;
    let secret = "https://example.com/secret-of-a";
    for row in &rows {
        let operation =
            operations::all().iter().find(|operation| operation.id == row.operation).expect("a documented route");
        let id = thing_of_a(&world, operation, secret).await;
        let callers = [&world.nobody, &world.b, &world.a1, &world.a2, &world.a];
        for (caller, expected) in callers.into_iter().zip(row.expected) {
            let before = of_a(&world).await;
            let reply = call(caller, operation, &id, row.body.as_ref()).await;
            let what = format!("{} expecting {expected}: {}", row.operation, reply.text());
            match expected {
                "2xx" => assert!(matches!(reply.status, 200..300 | 302), "{what}"),
                OWN => assert!((200..300).contains(&reply.status) && !reply.text().contains(secret), "{what}"),
                refused => {
                    assert_eq!(reply.outcome(), refused, "{what}");
                    assert_eq!(of_a(&world).await, before, "a refusal changes nothing: {what}");
                    if reply.status == 404 {
                        let nowhere = call(caller, operation, "nowhere-at-all", row.body.as_ref()).await;
                        assert_eq!(reply.without_request_id(), nowhere.without_request_id(), "{what}");
                    }
                }
            }
            if caller.tenant == world.b.tenant {
                assert_eq!(of_a(&world).await, before, "B changes nothing of A's: {what}");
            }
        }
    }
}

/// I1, the other direction: A on a link and on domains of B's.
#[tokio::test]
async fn i1_and_the_other_way_round() {
    let world = spawn().await;
    world.b.make("of-b").await;
    world.b1.make("of-b1").await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.claim_domain(&world.b, "claimed.example.com", Role::Primary).await;
    let before = world.db.dump().await;
    for caller in [&world.a, &world.a1] {
        for (id, kind) in [
            ("of-b", "{link_id}"),
            ("of-b1", "{link_id}"),
            ("go.example.com", "{domain}"),
            ("claimed.example.com", "{domain}"),
        ] {
            for operation in
                operations::all().iter().filter(|operation| operation.path.contains(kind) && !operation.is_public)
            {
                let body = operation.has_body.then(|| json!({"web_url": null}));
                let reply = call(caller, operation, id, body.as_ref()).await;
                let scoped = caller.affiliate.is_some() && !matches!(&*operation.id, "get_link" | "link_qr");
                assert_eq!(
                    reply.outcome(),
                    if scoped { "403 forbidden_scope" } else { "404 not_found" },
                    "{}",
                    operation.id
                );
            }
        }
        let listed = caller.get("/v1/links").await.json();
        assert_eq!(listed["links"], json!([]));
    }
    assert_eq!(world.a.get("/v1/domains").await.json(), json!([]));
    assert_eq!(world.db.dump().await, before);
}

/// I3: an id of another tenant inside a body is refused as one that is not there, and nothing is stored.
#[tokio::test]
async fn i3_foreign_ids_inside_bodies() {
    let world = spawn().await;
    let before = world.db.dump().await;
    let (foreign, unknown) = (world.b1.affiliate_id(), "aff_0123456789abcdef01234567");
    for id in [foreign, unknown] {
        let created = world.a.post("/v1/links", &json!({"affiliate_id": id})).await;
        assert_eq!(created.outcome(), "404 affiliate_not_found affiliate_id");
        let template = json!({"template": {"affiliate_id": id}, "count": 2});
        assert_eq!(world.a.post("/v1/links/bulk", &template).await.outcome(), "404 affiliate_not_found affiliate_id");
        let rows = json!({"links": [{}, {"affiliate_id": id}]});
        let refused = world.a.post("/v1/links/bulk", &rows).await;
        assert_eq!(
            (refused.outcome().as_str(), &refused.json()["errors"][0]["index"]),
            ("400 invalid_batch", &json!(1))
        );
    }
    let answers = [foreign, unknown].map(|id| json!({"affiliate_id": id}));
    let [one, other] = [world.a.post("/v1/links", &answers[0]).await, world.a.post("/v1/links", &answers[1]).await];
    assert_eq!(one.without_request_id(), other.without_request_id());
    assert_eq!(world.db.dump().await, before);
    let listed = world.a.ask(Method::GET, &format!("/v1/links?affiliate_id={foreign}")).send().await;
    assert_eq!(listed.json()["links"], json!([]));
}
