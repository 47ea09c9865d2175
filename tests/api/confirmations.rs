//! Confirming a sign-up: what the page says, what it ends, and what stays.

use std::time::Duration;

use deeplink_testing::{Caller, Reply, World, at_once, eventually, spawn, spawn_nodes};
use http::Method;
use serde_json::json;

use crate::lifecycle::page_of;
use crate::sessions::{expired, sign_up};

pub(crate) const INVALID: &str = "/signin?error=signup_invalid";

/// The new key that the page shows.
pub(crate) fn new_key(reply: &Reply) -> String {
    let page = reply.text();
    assert_eq!((reply.status, reply.header("cache-control")), (200, "no-store"), "{page}");
    let key = page.split("<code id=\"secret\">").nth(1).and_then(|rest| rest.split('<').next());
    key.unwrap_or_else(|| panic!("no key in {page}")).to_owned()
}

pub(crate) fn confirms_nothing(reply: &Reply) -> bool {
    (reply.status, reply.header("location"), reply.session()) == (303, INVALID, None)
}

async fn count(world: &World, table: &str) -> i64 {
    world.db.number(format!("SELECT CAST(count(*) AS BIGINT) FROM {table}")).await
}

/// What the key of a sign-up can create to keep access to the account.
struct Prepared {
    link: String,
    affiliate: Caller,
    page: Caller,
    source: String,
}

async fn prepare(world: &World, attacker: &Caller, name: &str) -> Prepared {
    let link = attacker.make_of(&json!({"custom_id": name, "web_url": "https://example.com/first"})).await;
    let affiliate = attacker.post("/v1/affiliates", &json!({"name": "P", "partner_key": "partner"})).await.member("id");
    let minted = attacker.post_nothing(&format!("/v1/affiliates/{affiliate}/credentials")).await.member("api_key");
    let page = page_of(world, attacker, &format!("{name}.example.org")).await;
    let source = attacker.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let address = source.member("webhook_url");
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["click"]});
    assert_eq!(attacker.post("/v1/webhooks", &webhook).await.status, 201);
    let source = address.split_once("/in/").map(|(_, token)| format!("/in/{token}")).expect("an address");
    Prepared { link, affiliate: world.somebody_with(&minted), page, source }
}

/// Confirming a sign-up ends what was made before the address was proved: keys of every kind, sessions, webhooks and
/// sources. The account has one new key, which is shown once; its links stay.
#[tokio::test]
async fn r11_what_was_made_before_the_proof_ends_with_it() {
    let world = spawn().await;
    let (attacker, token) = sign_up(&world, "v@example.org").await;
    let made = prepare(&world, &attacker, "prepared").await;
    let tenant = world.db.texts("SELECT tenant_id FROM users WHERE email = 'v@example.org'").await.remove(0);
    let conversion = json!({"user_id": "ann", "type": "purchase"});
    assert_eq!(world.nobody.post(&made.source, &conversion).await.status, 200);

    // The page lists what there is, and changes nothing.
    world.at_rest().await;
    let before = world.db.dump_without_clicks().await;
    let page = world.nobody.get(&format!("/account/confirm?token={token}")).await;
    for part in ["Someone created an account", "has a secret key", "If that was not you", "stop working"] {
        assert!(page.status == 200 && page.text().contains(part), "{part}: {}", page.text());
    }
    assert!(page.session().is_none() && world.db.dump_without_clicks().await == before);

    let confirmed = world.nobody.confirm(&token).await;
    let (key, session) = (new_key(&confirmed), confirmed.session().expect("a session"));
    world.note_secret(&key);
    let link = format!("/v1/links/{}", made.link);
    for caller in [&attacker, &made.affiliate] {
        assert_eq!(caller.get("/v1/links").await.outcome(), "401 invalid_key");
        assert_eq!(caller.put(&link, &json!({"web_url": "https://e.example/"})).await.outcome(), "401 invalid_key");
    }
    assert_eq!(made.page.post("/v1/lifecycle/convert", &conversion).await.outcome(), "401 invalid_key");
    assert_eq!(world.nobody.post(&made.source, &conversion).await.outcome(), "404 not_found");

    let owner = world.somebody_with(&key);
    assert_eq!(owner.get("/v1/webhooks").await.json()["webhooks"], json!([]));
    assert_eq!(owner.get(&link).await.json()["web_url"], "https://example.com/first", "links stay");
    assert_eq!(owner.get("/v1/auth/secret-keys").await.json()["keys"].as_array().map(Vec::len), Some(1));
    let me = world.nobody.me(&session).await.json();
    assert_eq!((&me["tenant"]["id"], &me["user"]["verified"]), (&json!(tenant), &json!(true)));
    for (table, left) in [("secret_keys", 1), ("publishable_keys", 0), ("sessions", 1), ("webhooks", 0), ("sources", 0)]
    {
        assert_eq!(count(&world, &format!("{table} WHERE tenant_id = '{tenant}'")).await, left, "{table}");
    }
    // Loading the page again says that it was shown; every answer is searched for the key.
    for _ in 0..3 {
        assert!(confirms_nothing(&world.nobody.confirm(&token).await));
    }
    assert_eq!(owner.get("/v1/links").await.status, 200, "and the new key still works");
}

/// A person who proves the address in another way, by a sign-in link or an invitation, gets their own account, with
/// nothing in it that others made before. The link of the sign-up proves nothing except on its own page.
#[tokio::test]
async fn r11_other_proofs_of_the_address_lead_to_accounts_of_their_own() {
    let world = spawn().await;
    for email in ["v@example.org", "w@example.org"] {
        let (attacker, token) = sign_up(&world, email).await;
        let made = prepare(&world, &attacker, &email.replace('@', "-at-").replace('.', "-")).await;
        let elsewhere = world.nobody.use_link(&token).await;
        assert!(expired(&elsewhere), "{} {}", elsewhere.status, elsewhere.text());
        let unproved = format!("users WHERE email = '{email}' AND NOT verified AND is_owner");
        assert_eq!(count(&world, &unproved).await, 1, "nothing is confirmed there");
        if email.starts_with('w') {
            let invite = world.invite(&world.a, email).await;
            assert!(world.nobody.accept(&invite).await.header("location").ends_with("/signin?invite=accepted"));
        }
        let session = world.sign_in(email).await;
        let me = world.nobody.me(&session).await.json();
        let tenant = me["tenant"]["id"].as_str().expect("an account");
        let of_attacker = world.db.texts(format!("SELECT tenant_id FROM {unproved}")).await;
        assert_ne!(of_attacker, [tenant]);
        if email.starts_with('v') {
            for table in ["secret_keys", "publishable_keys", "webhooks", "sources", "links", "affiliates"] {
                assert_eq!(count(&world, &format!("{table} WHERE tenant_id = '{tenant}'")).await, 0, "{table}");
            }
        } else {
            assert_eq!(tenant, world.a.tenant.as_str());
        }
        assert!(confirms_nothing(&world.nobody.confirm(&token).await), "it is not reached any more");
        // The key of the unproved account still works.
        assert_eq!(attacker.get(&format!("/v1/links/{}", made.link)).await.status, 200);
        assert_eq!(attacker.delete(&format!("/v1/links/{}", made.link)).await.status, 204);
    }
}

/// What a key of a sign-up does concurrently with the confirmation is either done before it, and ends with it, or
/// refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_nothing_slips_past_the_confirmation() {
    let world = spawn_nodes(2).await;
    for round in 0..5 {
        let email = format!("v{round}@example.org");
        let (attacker, token) = sign_up(&world, &email).await;
        let affiliate = json!({"name": "P", "partner_key": "partner"});
        let affiliate = attacker.post("/v1/affiliates", &affiliate).await.member("id");
        let replies = at_once(12, |number| {
            let (caller, token) = (world.at(number % 2, &attacker), token.clone());
            let credentials = format!("/v1/affiliates/{affiliate}/credentials");
            async move {
                match number % 4 {
                    0 if number == 0 => caller.confirm(&token).await,
                    1 => caller.post_nothing(&credentials).await,
                    2 => {
                        caller.post("/v1/sources", &json!({"name": number.to_string(), "source_type": "custom"})).await
                    }
                    _ => {
                        let url = format!("https://hooks.example.com/{number}");
                        caller.post("/v1/webhooks", &json!({"url": url, "events": ["click"]})).await
                    }
                }
            }
        })
        .await;
        let confirmed = replies.iter().find(|reply| reply.session().is_some()).expect("the confirmation");
        world.note_secret(&new_key(confirmed));
        let of = format!("WHERE tenant_id = (SELECT tenant_id FROM users WHERE email = '{email}')");
        for (table, left) in [("secret_keys", 1), ("sources", 0), ("webhooks", 0), ("sessions", 1)] {
            assert_eq!(count(&world, &format!("{table} {of}")).await, left, "round {round}: {table}");
        }
        for node in 0..2 {
            let caller = world.at(node, &attacker);
            eventually("the first key is refused everywhere", Duration::from_secs(5), || async {
                caller.get("/v1/links").await.status == 401
            })
            .await;
        }
    }
}

/// Of fifty concurrent confirmations of one sign-up, one is shown a key, and there is no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r11_one_of_fifty_is_shown_a_key() {
    let world = spawn_nodes(2).await;
    let nodes = [0, 1].map(|node| world.at(node, &world.nobody));
    let (_, token) = sign_up(&world, "v@example.org").await;
    let replies = at_once(50, |number| {
        let (caller, token) = (nodes[number % 2].clone(), token.clone());
        async move { caller.confirm(&token).await }
    })
    .await;
    let confirmed: Vec<_> = replies.iter().filter(|reply| reply.session().is_some()).collect();
    assert_eq!((confirmed.len(), replies.iter().filter(|reply| confirms_nothing(reply)).count()), (1, 49));
    let key = new_key(confirmed[0]);
    world.note_secret(&key);
    assert_eq!(world.somebody_with(&key).get("/v1/links").await.status, 200);
    let of = "WHERE tenant_id = (SELECT tenant_id FROM users WHERE email = 'v@example.org')";
    assert_eq!((count(&world, &format!("secret_keys {of}")).await, count(&world, "sessions").await), (1, 1));
}

/// The page of a sign-up is a page like the others: on the service's host, with the same headers, only for its own
/// forms.
#[tokio::test]
async fn the_page_is_as_private_as_the_others() {
    let world = spawn().await;
    let (_, token) = sign_up(&world, "v@example.org").await;
    let hostile = world.nobody.get("/account/confirm?token=%22%3E%3Csvg%20onload%3D1%3E").await;
    assert_eq!((hostile.status, hostile.header("location")), (303, "/signin?error=signup_invalid"));
    let page = world.nobody.get(&format!("/account/confirm?token={token}")).await;
    assert_eq!(page.status, 200);
    let told = ["cache-control", "referrer-policy", "x-robots-tag"].map(|name| page.header(name));
    assert_eq!(told, ["no-store", "same-origin", "noindex"]);
    for query in ["", "?token=a&token=b"] {
        let page = world.nobody.browse(Method::GET, &format!("/account/confirm{query}")).send().await;
        assert_eq!((page.status, page.header("content-type")), (400, "text/html; charset=utf-8"), "{query}");
    }
    let form = || world.nobody.ask(Method::POST, "/account/confirm").form(&[("token", &*token)]);
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://other.example"), ("origin", "null")] {
        let refused = form().header(name, value).send().await;
        assert_eq!((refused.status, refused.header("location")), (303, "/signin?error=invalid_request"));
    }
    assert_eq!(form().header("host", "unknown.example").send().await.status, 404);
    let confirmed = form().send().await;
    world.note_secret(&new_key(&confirmed));
    assert!(confirmed.session().is_some(), "nothing of that has used it up");
}
