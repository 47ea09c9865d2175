//! Tenants are isolated from each other, and each credential reaches only what it is for.

mod matrix;
mod server_owned;

use deeplink_core::id::UserId;
use deeplink_core::routes::{self, Credential};
use deeplink_core::secret::Random;
use http::Method;
use serde_json::{Value, json};

use self::matrix::{OWN, PUBLIC, Row, matrix};
use crate::outbound::png;
use crate::qr_logos::upload;
use crate::webhooks::settled_delivery;
use deeplink_testing::operations::{self, Operation};
use deeplink_testing::{Ask, Caller, Reply, Role, World, code_in, eventually, spawn};

/// A's domain, for which it has a publishable key.
const OWN_DOMAIN: &str = "keys.example.com";
const SECRET: &str = "https://example.com/secret-of-a";

/// A caller: with a key, with a session, or with nothing.
struct Who {
    caller: Caller,
    session: Option<String>,
}

impl Who {
    fn ask(&self, operation: &Operation, ids: &[String]) -> Ask {
        // Pages for a token, and a report on links.
        let query = match &*operation.id {
            "callback_page" | "verify_page" => "?token=0",
            "funnel" => "?link_ids=nowhere",
            "create_checkout" => "?tier=pro",
            _ => "",
        };
        let ask = self.caller.ask(operation.method.clone(), &format!("{}{query}", operation.at_each(ids)));
        self.session.iter().fold(ask, |ask, token| ask.session(token))
    }

    async fn call(&self, operation: &Operation, thing: &Thing) -> Reply {
        let ask = self.ask(operation, &thing.ids);
        match &thing.body {
            Some(body) => ask.json(body).send().await,
            None if operation.id == "put_qr_logo" => ask.body_as("image/png", png()).send().await,
            None if operation.has_form => ask.body_as("application/x-www-form-urlencoded", "token=0").send().await,
            None => ask.send().await,
        }
    }
}

/// All callers of the matrix, in its order.
async fn everybody(world: &World) -> [Who; 7] {
    world.own_domain(&world.a, OWN_DOMAIN, Role::Primary).await;
    let publishable = publishable_key_of(&world.a).await;
    let who = |caller: &Caller| Who { caller: caller.clone(), session: None };
    let session = Some(world.sign_in("a@example.com").await);
    [
        who(&world.nobody),
        who(&world.b),
        who(&world.a1),
        who(&world.a2),
        who(&world.somebody_with(&publishable.member("key"))),
        Who { caller: world.nobody.clone(), session },
        who(&world.a),
    ]
}

async fn publishable_key_of(caller: &Caller) -> Reply {
    let made = caller.post("/v1/auth/publishable-keys", &json!({"domain": OWN_DOMAIN})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made
}

/// The target and body of a call.
struct Thing {
    /// One for each parameter of the path.
    ids: Vec<String>,
    body: Option<Value>,
}

/// An object of A's that the operation can be called on: a link of affiliate 1's, or what only A itself can have.
async fn thing_of_a(world: &World, row: &Row, operation: &Operation) -> Thing {
    let a = &world.a;
    let mut body = row.body.clone();
    let name = row.operation.replace('_', "-");
    let path = &operation.path;
    let ids = if row.operation == "delete_account" {
        body = Some(json!({"confirm": a.tenant}));
        vec![]
    } else if row.operation == "confirm_secret_key" {
        body = Some(json!({"email": "a@example.com", "token": code_of_a(world).await}));
        vec![]
    } else if path.contains("/secret-keys/{key_id}") {
        let session = world.session_of(a).await;
        let ask = world.nobody.ask(Method::POST, "/v1/auth/secret-keys/issue").session(&session);
        vec![ask.body("{}").send().await.member("id")]
    } else if path.contains("/publishable-keys/{key_id}") {
        vec![publishable_key_of(a).await.member("id")]
    } else if path.contains("{affiliate_id}") {
        let partner = json!({"name": "Partner", "partner_key": name});
        let id = a.post("/v1/affiliates", &partner).await.member("id");
        let credential = a.post_nothing(&format!("/v1/affiliates/{id}/credentials")).await.member("id");
        vec![id, credential]
    } else if path.contains("{user_id}") {
        vec![member_of(world, a, "second@example.com").await]
    } else if path.contains("{app_id}") {
        let app = json!({"platform": "ios", "bundle_id": "com.example.of-a", "team_id": "ABCDE12345"});
        vec![a.post("/v1/apps", &app).await.member("id")]
    } else if path.contains("{domain}") {
        let domain = format!("{name}.example.com");
        world.own_domain(a, &domain, Role::Primary).await;
        vec![domain]
    } else if path.contains("/sources/{id}") || path.contains("{token}") {
        let made = a.post("/v1/sources", &json!({"name": name, "source_type": "custom"})).await;
        let address = made.member("webhook_url");
        let token = address.rsplit('/').next().expect("a token").to_owned();
        vec![if path.contains("{token}") { token } else { made.member("id") }]
    } else if path.contains("{name}") {
        upload(a, &name, png()).await;
        vec![name]
    } else if path.contains("{tag}") {
        a.make_of(&json!({"custom_id": name, "tags": [name]})).await;
        vec![name]
    } else if path.contains("{webhook_id}") {
        // There can be two, and deliveries to the previous one are settled.
        let tenant = &a.tenant;
        world.db.execute(format!("DELETE FROM webhooks WHERE tenant_id = '{tenant}'")).await;
        world.db.execute(format!("UPDATE deliveries SET state = 3 WHERE tenant_id = '{tenant}' AND state = 0")).await;
        let webhook = a.post("/v1/webhooks", &json!({"url": SECRET, "events": ["conversion"]})).await;
        vec![webhook.member("id"), settled_delivery(world, a, &webhook.member("id")).await]
    } else if path.contains("{provider}") {
        vec!["google".to_owned()]
    } else if body.as_ref().is_some_and(|body| body["link_id"].is_string()) {
        let id = format!("of-a1-{name}");
        world.a1.make_of(&json!({"custom_id": id, "web_url": SECRET})).await;
        if let Some(body) = &mut body {
            body["link_id"] = json!(id);
        }
        vec![]
    } else if let Some(ids) = body.as_mut().and_then(|body| body.get_mut("link_ids")) {
        let id = format!("of-a1-{name}");
        world.a1.make_of(&json!({"custom_id": id, "web_url": SECRET})).await;
        *ids = json!([id]);
        vec![]
    } else if path.contains("{link_id}") {
        let id = format!("of-a1-{name}");
        world.a1.make_of(&json!({"custom_id": id, "web_url": SECRET})).await;
        if row.operation == "restore_link" {
            a.put(&format!("/v1/links/{id}"), &json!({"name": "Changed"})).await;
        }
        vec![id]
    } else {
        vec![]
    };
    Thing { ids, body }
}

/// The code in a mail to A's owner.
async fn code_of_a(world: &World) -> String {
    let asked = world.a.post("/v1/auth/secret-keys", &json!({"email": "a@example.com"})).await;
    assert_eq!(asked.status, 200, "{}", asked.text());
    let code = async || {
        let mails = world.mails(0).await;
        mails.iter().filter(|mail| mail.contains("To: a@example.com")).find_map(|mail| code_in(mail))
    };
    eventually("the code is mailed", std::time::Duration::from_secs(15), async || code().await.is_some()).await;
    code().await.expect("a code")
}

/// Adds a person to an account's team and returns their id.
async fn member_of(world: &World, of: &Caller, email: &str) -> String {
    let now = world.clock.now();
    let id = UserId::new(now, &mut Random::system());
    let (tenant, millis) = (&of.tenant, now.as_millis());
    let sql = format!(
        "INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at)
         VALUES ('{id}', '{tenant}', '{email}', TRUE, FALSE, {millis})"
    );
    world.db.execute(sql).await;
    id.to_string()
}

/// What only A may be shown: the ids of its objects.
async fn marks_of_a(world: &World) -> Vec<String> {
    let tenant = &world.a.tenant;
    let mut marks = vec![SECRET.to_owned(), tenant.to_string(), OWN_DOMAIN.to_owned(), "a@example.com".to_owned()];
    for table in ["affiliates", "secret_keys", "publishable_keys", "users", "apps", "webhooks", "deliveries"] {
        marks.extend(world.db.texts(format!("SELECT id FROM {table} WHERE tenant_id = '{tenant}'")).await);
    }
    marks
}

/// What is stored for A, except visitors' data and background deliveries.
async fn of_a(world: &World) -> Vec<String> {
    // On PostgreSQL events get their positions moments after their commit.
    let waiting = "SELECT id FROM events WHERE position IS NULL";
    eventually("every event has its position", std::time::Duration::from_secs(15), async || {
        world.db.texts(waiting).await.is_empty()
    })
    .await;
    let mut dump = world.db.dump_without_clicks().await;
    for table in ["deliveries", "delivery_leases"] {
        dump.remove(table).expect("a table");
    }
    dump.values().flatten().filter(|row| row.contains(world.a.tenant.as_str())).cloned().collect()
}

/// I1: every operation has a row, and every row has an operation.
#[test]
fn i1_every_operation_has_a_row() {
    let mut rows: Vec<_> = matrix().iter().map(|row| row.operation).collect();
    let mut all: Vec<_> = routes::ALL.iter().map(|route| route.operation).collect();
    rows.sort_unstable();
    all.sort_unstable();
    assert_eq!(rows, all);
    for operation in operations::all() {
        assert!(all.contains(&&*operation.id), "{} has no row in the matrix", operation.id);
    }
}

/// I1: each route with each kind of caller, in both directions. Another tenant's objects look exactly like missing
/// ones, and stay unchanged.
#[tokio::test]
async fn i1_each_route_with_each_caller() {
    let world = spawn().await;
    let mut callers = everybody(&world).await;
    for row in &matrix() {
        let Some(operation) = operations::all().iter().find(|operation| operation.id == row.operation) else {
            continue;
        };
        let thing = thing_of_a(&world, row, operation).await;
        let marks = marks_of_a(&world).await;
        // A's data, until an operation may change it.
        let mut known = None;
        let anybody = if row.expected == PUBLIC { Some(callers[0].call(operation, &thing).await) } else { None };
        for (who, expected) in callers.iter().zip(row.expected) {
            // One address may make five sign-ups an hour.
            world.db.execute("DELETE FROM mail_allowances").await;
            let is_b = who.caller.tenant == world.b.tenant;
            let is_refused = !(["2xx", OWN].contains(&expected) || row.expected == PUBLIC);
            let before = match known.take() {
                None if is_b || is_refused => Some(of_a(&world).await),
                before => before,
            };
            let reply = who.call(operation, &thing).await;
            let what = format!("{} expecting {expected}: {}", row.operation, reply.text());
            match (expected, &anybody) {
                (_, Some(anybody)) => {
                    let seen = |reply: &Reply| (reply.outcome(), reply.header("location").to_owned());
                    assert!(!matches!(reply.status, 401 | 403), "{what}");
                    assert_eq!(seen(&reply), seen(anybody), "{what}");
                }
                ("2xx", _) => assert!((200..300).contains(&reply.status), "{what}"),
                (OWN, _) => {
                    let shown = reply.text();
                    let seen = marks.iter().find(|mark| shown.contains(mark.as_str()));
                    assert!((200..300).contains(&reply.status), "{what}");
                    // An affiliate is in A's account, but sees its own links there and nothing else.
                    assert!(
                        seen.is_none_or(|mark| who.caller.affiliate.is_some() && mark != SECRET),
                        "{seen:?} {what}"
                    );
                }
                (refused, _) => {
                    assert_eq!(reply.outcome(), refused, "{what}");
                    if reply.status == 404 {
                        let mut nowhere = Thing { ids: vec!["nowhere-at-all".to_owned(); 2], body: thing.body.clone() };
                        if let Some(body) = nowhere.body.as_mut().filter(|body| body["link_id"].is_string()) {
                            body["link_id"] = json!("nowhere-at-all");
                        }
                        let nowhere = who.call(operation, &nowhere).await;
                        let ids = thing.ids.iter().map(String::as_str);
                        assert_eq!(reply.without_ids(ids), nowhere.without_ids(["nowhere-at-all"]), "{what}");
                    }
                }
            }
            if is_b || is_refused {
                known = Some(of_a(&world).await);
                assert_eq!(known, before, "neither a refusal nor B changes anything of A's: {what}");
            }
        }
        if row.operation == "signout" {
            callers[5].session = Some(world.sign_in("a@example.com").await);
        }
    }
}

/// I1: a new route is refused to every credential that its class does not name, before any lookup: with ids that do not
/// exist and without a body.
#[tokio::test]
async fn i1_each_class_of_routes_takes_its_credential_only() {
    let world = spawn().await;
    let mut callers = everybody(&world).await;
    for operation in operations::all() {
        let route = routes::ALL.iter().find(|route| route.operation == operation.id).expect("a route of the table");
        for (who, at) in callers.iter().zip(0..) {
            let reply = who.ask(operation, &["nowhere".to_owned(), "nowhere".to_owned()]).send().await;
            let expected = match (route.credential, at) {
                (
                    Credential::SecretKey | Credential::LinkWriter | Credential::SdkKey | Credential::PublishableKey,
                    0 | 5,
                )
                | (Credential::Session, 0) => Some("401 unauthorized"),
                (Credential::SecretKey | Credential::SdkKey, 2 | 3) => Some("403 forbidden_scope"),
                (Credential::PublishableKey, 1..=3 | 6) => Some("401 invalid_key"),
                (Credential::SecretKey | Credential::LinkWriter, 4) => Some("401 invalid_key"),
                (Credential::Session, 1..=4 | 6) => Some("401 invalid_key"),
                _ => None,
            };
            match expected {
                Some(expected) => assert_eq!(reply.outcome(), expected, "{} {at}", operation.id),
                None => assert!(!matches!(reply.status, 401 | 403), "{} {at}: {}", operation.id, reply.outcome()),
            }
        }
        if operation.id == "signout" {
            callers[5].session = Some(world.sign_in("a@example.com").await);
        }
    }
}

/// I1, the other direction: A on links, domains, keys, people and affiliates of B's.
#[tokio::test]
async fn i1_and_the_other_way_round() {
    let world = spawn().await;
    world.b.make_of(&json!({"custom_id": "of-b", "tags": ["tag of B"]})).await;
    world.b1.make("of-b1").await;
    upload(&world.b, "logo-of-b", png()).await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.claim_domain(&world.b, "claimed.example.com", Role::Primary).await;
    let made = world.b.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await;
    let source = world.b.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await.member("id");
    let first = async |sql: &str| world.db.texts(format!("{sql} AND tenant_id = '{}'", world.b.tenant)).await.remove(0);
    let key = first("SELECT id FROM secret_keys WHERE affiliate_id IS NULL").await;
    let credential = first("SELECT id FROM secret_keys WHERE affiliate_id IS NOT NULL").await;
    let owner = first("SELECT id FROM users WHERE is_owner").await;
    let [partner, own_partner] = [&world.b1, &world.a1].map(|caller| caller.affiliate_id().to_owned());
    let text = str::to_owned;
    world.at_rest().await;
    let before = world.db.dump().await;
    for caller in [&world.a, &world.a1] {
        let who = Who { caller: caller.clone(), session: None };
        for (kind, ids) in [
            ("/{link_id}", vec![text("of-b")]),
            ("/{link_id}", vec![text("of-b1")]),
            ("/{tag}", vec![text("tag%20of%20B")]),
            ("/{name}", vec![text("logo-of-b")]),
            ("/{domain}", vec![text("go.example.com")]),
            ("/{domain}", vec![text("claimed.example.com")]),
            ("/sources/{id}", vec![source.clone()]),
            ("/{user_id}", vec![owner.clone()]),
            ("/secret-keys/{key_id}", vec![key.clone()]),
            ("/secret-keys/{key_id}", vec![credential.clone()]),
            ("/publishable-keys/{key_id}", vec![made.member("id")]),
            ("/{affiliate_id}", vec![partner.clone(), credential.clone()]),
            ("/credentials/{key_id}", vec![own_partner.clone(), credential.clone()]),
        ] {
            // A name is free in each account.
            let names_it = |operation: &Operation| operation.path.contains(kind) && operation.id != "put_qr_logo";
            let of_kind = |operation: &&Operation| names_it(operation) && !operation.is_public;
            for operation in operations::all().iter().filter(of_kind) {
                let body = operation.has_body.then(|| json!({"web_url": null, "root_url": null, "tag": "new"}));
                let reply = who.call(operation, &Thing { ids: ids.clone(), body }).await;
                let scoped =
                    caller.affiliate.is_some() && !matches!(&*operation.id, "get_link" | "link_qr" | "explain_link");
                let expected = if scoped { "403 forbidden_scope" } else { "404 not_found" };
                assert_eq!(reply.outcome(), expected, "{} {ids:?}", operation.id);
            }
        }
        let listed = caller.get("/v1/links").await.json();
        assert_eq!(listed["links"], json!([]));
    }
    assert_eq!(world.a.get("/v1/domains").await.json(), json!([]));
    assert_eq!(world.a.get("/v1/auth/publishable-keys").await.json()["keys"], json!([]));
    assert_eq!(world.db.dump().await, before);
}

/// I2: ids in one path must belong together, also where both are the caller's own.
#[tokio::test]
async fn i2_nested_ids_belong_together() {
    let world = spawn().await;
    let [one, two] = [&world.a1, &world.a2].map(|caller| caller.affiliate_id().to_owned());
    let of_two = format!("/v1/affiliates/{two}/credentials");
    let listed = world.a.get(&of_two).await.json();
    let credential = listed["credentials"][0]["id"].as_str().expect("an id").to_owned();
    let keys = world.a.get("/v1/auth/secret-keys").await.json();
    let key = keys["keys"][0]["id"].as_str().expect("an id").to_owned();
    world.at_rest().await;
    let before = world.db.dump().await;
    for path in [
        format!("/v1/affiliates/{one}/credentials/{credential}"),
        format!("/v1/affiliates/{one}/credentials/{key}"),
        format!("/v1/affiliates/{credential}/credentials/{one}"),
        format!("/v1/auth/secret-keys/{credential}"),
        format!("/v1/auth/publishable-keys/{key}"),
    ] {
        assert_eq!(world.a.delete(&path).await.outcome(), "404 not_found", "{path}");
    }
    assert_eq!(world.db.dump().await, before);
    assert_eq!(world.a2.get("/v1/links").await.status, 200);
    assert_eq!(world.a.delete(&format!("{of_two}/{credential}")).await.status, 204);
    assert_eq!(world.a2.get("/v1/links").await.outcome(), "401 invalid_key");
}

/// I3: an id of another tenant inside a body is refused like a missing one, and nothing is stored.
#[tokio::test]
async fn i3_foreign_ids_inside_bodies() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.at_rest().await;
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
    let mut refusals = Vec::new();
    for domain in ["go.example.com", "nowhere.example.com"] {
        let refused = world.a.post("/v1/auth/publishable-keys", &json!({"domain": domain})).await;
        assert_eq!(refused.outcome(), "400 domain_not_found domain", "{domain}");
        refusals.push(refused.without_request_id());
    }
    assert_eq!(refusals[0], refusals[1]);
    assert_eq!(world.db.dump().await, before);
    let listed = world.a.ask(Method::GET, &format!("/v1/links?affiliate_id={foreign}")).send().await;
    assert_eq!(listed.json()["links"], json!([]));
}
