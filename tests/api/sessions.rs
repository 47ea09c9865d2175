//! Mailed tokens and the sessions that they start.

use std::time::Duration;

use deeplink_server::config::MailTransport;
use http::Method;
use serde_json::json;

use crate::confirmations::{confirms_nothing, new_key};
use deeplink_testing::{Caller, Reply, Role, World, at_once, eventually, spawn, spawn_nodes, spawn_with};

const EXPIRED: &str = "/signin?error=link_expired";

pub(crate) fn expired(reply: &Reply) -> bool {
    (reply.status, reply.header("location"), reply.session()) == (303, EXPIRED, None)
}

fn invalid_invite(reply: &Reply) -> bool {
    reply.status == 303 && reply.header("location").ends_with("/signin?error=invite_invalid")
}

fn accepted(reply: &Reply) -> bool {
    reply.status == 303 && reply.header("location").ends_with("/signin?invite=accepted")
}

/// Signs a person up; returns their account's key and the token of the mailed link.
pub(crate) async fn sign_up(world: &World, email: &str) -> (Caller, String) {
    let mut key = String::new();
    let token = world
        .mailed_token(email, async {
            key = world.nobody.post("/v1/auth/signup", &json!({"email": email})).await.member("api_key");
        })
        .await;
    (world.somebody_with(&key), token)
}

#[tokio::test]
async fn a_first_sign_in_opens_an_account_and_later_ones_come_back_to_it() {
    let world = spawn().await;
    let session = world.sign_in("new@example.com").await;
    let me = world.nobody.me(&session).await;
    let now = json!(world.clock.now().to_string());
    assert_eq!((me.status, me.header("cache-control")), (200, "no-store"));
    let first = me.json();
    assert_eq!(first["user"]["email"], "new@example.com");
    assert_eq!((&first["user"]["verified"], &first["user"]["is_owner"]), (&json!(true), &json!(true)));
    assert_eq!(first["tenant"]["created_at"], now);
    let again = world.sign_in(" New@Example.COM ".trim().to_lowercase().as_str()).await;
    assert_ne!(again, session);
    assert_eq!(world.nobody.me(&again).await.json(), first);
    // Signing in makes no key.
    let keys = format!("SELECT CAST(count(*) AS BIGINT) FROM secret_keys WHERE tenant_id = {}", first["tenant"]["id"]);
    assert_eq!(world.db.number(keys.replace('"', "'")).await, 0);
    let of_a = world.sign_in("a@example.com").await;
    assert_eq!(world.nobody.me(&of_a).await.json()["tenant"]["id"], world.a.tenant.as_str());
}

/// S3: opening a link changes nothing, however often scanners do; then its form works.
#[tokio::test]
async fn s3_opening_a_link_uses_nothing_up() {
    let world = spawn().await;
    let (link, invite) =
        (world.magic_link("new@example.com").await, world.invite(&world.a, "friend@example.com").await);
    let (_, signup) = sign_up(&world, "other@example.com").await;
    world.mails(3).await;
    world.at_rest().await;
    let before = world.db.dump().await;
    for (path, token) in [("/v1/auth/callback", &link), ("/v1/auth/verify", &invite), ("/account/confirm", &signup)] {
        for _ in 0..50 {
            for method in [Method::GET, Method::HEAD] {
                let page = world.nobody.ask(method.clone(), &format!("{path}?token={token}")).send().await;
                assert_eq!((page.status, page.session()), (200, None));
                assert_eq!(page.text().matches(token.as_str()).count(), usize::from(method == Method::GET));
            }
        }
    }
    assert_eq!(world.db.dump().await, before);
    assert!(world.nobody.use_link(&link).await.session().is_some());
    assert!(accepted(&world.nobody.accept(&invite).await));
    world.note_secret(&new_key(&world.nobody.confirm(&signup).await));
}

/// S3: a link that no longer works says so when it is opened, instead of offering a button. That is found out without
/// using anything up, and while it cannot be found out, the button is shown.
#[tokio::test]
async fn s3_a_dead_link_says_so_when_it_is_opened() {
    let world = spawn_with(|config| config.limits.misses_per_minute = 20).await;
    let opened = async |path: &str, token: &str| world.nobody.get(&format!("{path}?token={token}")).await;
    let used = world.magic_link("new@example.com").await;
    assert!(world.nobody.use_link(&used).await.session().is_some());
    assert!(expired(&opened("/v1/auth/callback", &used).await));
    let withdrawn = world.invite(&world.a, "friend@example.com").await;
    let users = world.a.get("/v1/auth/users").await.json();
    let friend = users["users"].as_array().expect("users").iter().find(|user| user["email"] == "friend@example.com");
    let friend = friend.expect("an invitation")["id"].as_str().expect("an id");
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{friend}")).await.status, 204);
    assert!(invalid_invite(&opened("/v1/auth/verify", &withdrawn).await));
    let (_, confirmed) = sign_up(&world, "other@example.org").await;
    world.note_secret(&new_key(&world.nobody.confirm(&confirmed).await));
    let reply = opened("/account/confirm", &confirmed).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/signin?error=signup_invalid"));
    // No link works on another's page.
    let live = world.magic_link("third@example.com").await;
    assert!(invalid_invite(&opened("/v1/auth/verify", &live).await));
    world.clock.advance(Duration::from_mins(16));
    assert!(expired(&opened("/v1/auth/callback", &live).await));
    // An address that has guessed too often learns nothing more.
    let guess = |number: u32| format!("{number:064x}");
    let mut guesses = 0;
    while expired(&opened("/v1/auth/callback", &guess(guesses)).await) {
        guesses += 1;
        assert!(guesses <= 20, "guessing goes on");
    }
    let before = world.node(0).lookups();
    assert_eq!(opened("/v1/auth/callback", &guess(guesses)).await.status, 200);
    assert_eq!(world.node(0).lookups(), before, "and costs no query");
}

/// S4: of fifty concurrent requests with one token, one gets a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s4_one_of_fifty_signs_in() {
    let world = spawn_nodes(2).await;
    let nodes = [0, 1].map(|node| world.at(node, &world.nobody));
    let token = world.magic_link("new@example.com").await;
    let replies = at_once(50, |number| {
        let (caller, token) = (nodes[number % 2].clone(), token.clone());
        async move { caller.use_link(&token).await }
    })
    .await;
    assert_eq!(replies.iter().filter(|reply| reply.session().is_some()).count(), 1);
    assert_eq!(replies.iter().filter(|reply| expired(reply)).count(), 49);
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM sessions").await, 1);
    // A new address gets one account, even if two of its links are used concurrently.
    let links = [world.magic_link("twice@example.com").await, world.magic_link("twice@example.com").await];
    let replies = at_once(2, |number| {
        let (caller, token) = (nodes[number].clone(), links[number].clone());
        async move { caller.use_link(&token).await }
    })
    .await;
    let mut tenants = Vec::new();
    for reply in replies {
        let me = world.nobody.me(&reply.session().expect("a session")).await.json();
        tenants.push(me["tenant"]["id"].as_str().expect("an id").to_owned());
    }
    assert_eq!(tenants[0], tenants[1]);
    let empty = "SELECT CAST(count(*) AS BIGINT) FROM tenants WHERE id NOT IN (SELECT tenant_id FROM users)";
    assert_eq!(world.db.number(empty).await, 0);
}

/// S5: a token works only for what it was mailed for, and is not used up elsewhere.
#[tokio::test]
async fn s5_tokens_work_for_their_own_purpose_only() {
    let world = spawn().await;
    let link = world.magic_link("new@example.com").await;
    let invite = world.invite(&world.a, "friend@example.com").await;
    let (_, signup) = sign_up(&world, "other@example.com").await;
    for _ in 0..3 {
        assert!(invalid_invite(&world.nobody.accept(&link).await));
        assert!(invalid_invite(&world.nobody.accept(&signup).await));
        assert!(expired(&world.nobody.use_link(&invite).await) && expired(&world.nobody.use_link(&signup).await));
        for token in [&link, &invite] {
            assert!(confirms_nothing(&world.nobody.confirm(token).await));
        }
    }
    let session = world.nobody.use_link(&link).await.session().expect("a session");
    assert!(accepted(&world.nobody.accept(&invite).await));
    world.note_secret(&new_key(&world.nobody.confirm(&signup).await));
    // A provider's state is not a token, and a token is not a state.
    let state = "SELECT CAST(count(*) AS BIGINT) FROM oauth_states";
    assert_eq!(world.db.number(state).await, 0);
    let asked = world.nobody.get(&format!("/v1/auth/oauth/google/callback?code=x&state={link}")).await;
    assert_eq!(asked.header("location"), "/signin?error=oauth_state_invalid");
    // And a token is not a session, nor a session a token.
    for token in [&link, &invite, &signup] {
        assert_eq!(world.nobody.me(token).await.outcome(), "401 unauthorized");
    }
    assert!(expired(&world.nobody.use_link(&session).await) && invalid_invite(&world.nobody.accept(&session).await));
    for nothing in ["", "x", "0", &"0".repeat(63), &"A".repeat(64), &"0".repeat(64), &"0".repeat(65)] {
        assert!(expired(&world.nobody.use_link(nothing).await) && invalid_invite(&world.nobody.accept(nothing).await));
        assert!(confirms_nothing(&world.nobody.confirm(nothing).await));
    }
}

/// Sign-in pages are only on the service's own host: no other host shows its forms.
#[tokio::test]
async fn token_pages_are_on_the_services_host() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    for page in ["callback", "verify", "oauth/google/start", "oauth/google/callback"] {
        for host in ["unknown.example.com", "go.example.com"] {
            let ask = world.nobody.ask(Method::GET, &format!("/v1/auth/{page}?token={}", "0".repeat(64)));
            assert_eq!(ask.header("host", host).send().await.status, 404, "{page} at {host}");
        }
    }
}

/// S18: with sign-up closed, a sign-in opens no account either; people with one can sign in.
#[tokio::test]
async fn s18_closed_is_closed_for_sign_ins_too() {
    let world = spawn_with(|config| config.signup_open = false).await;
    let before = world.db.dump().await["tenants"].clone();
    let token = world.magic_link("new@example.com").await;
    let refused = world.nobody.use_link(&token).await;
    assert_eq!((refused.status, refused.header("location")), (303, "/signin?error=signup_closed"));
    assert!(refused.session().is_none() && expired(&world.nobody.use_link(&token).await), "and the link is used up");
    assert_eq!(world.db.dump().await["tenants"], before);
    let session = world.sign_in("a@example.com").await;
    assert_eq!(world.nobody.me(&session).await.json()["tenant"]["id"], world.a.tenant.as_str());
}

/// S6: a magic link works for 15 minutes, an invitation and the link of a sign-up for 7 days, a session for 30 days
/// regardless of use.
#[tokio::test]
async fn s6_everything_ends_in_time() {
    let world = spawn().await;
    const MINUTE: u64 = 60;
    const DAY: u64 = 86_400;
    let link = async |email: &str| world.magic_link(email).await;
    let ends = async |what: &str, seconds: u64, works: bool| {
        let email = format!("{what}-{works}@example.com");
        let token = match what {
            "magic" => link(&email).await,
            "invite" => world.invite(&world.a, &email).await,
            "signup" => sign_up(&world, &email).await.1,
            _ => world.sign_in(&email).await,
        };
        world.clock.advance(Duration::from_secs(if works { seconds - 1 } else { seconds }));
        let works_now = match what {
            "magic" => world.nobody.use_link(&token).await.session().is_some(),
            "signup" => {
                let reply = world.nobody.confirm(&token).await;
                reply.session().inspect(|_| world.note_secret(&new_key(&reply))).is_some()
            }
            "invite" => accepted(&world.nobody.accept(&token).await),
            _ => world.nobody.me(&token).await.status == 200,
        };
        assert_eq!(works_now, works, "{what}");
    };
    for (what, seconds) in [("magic", 15 * MINUTE), ("invite", 7 * DAY), ("signup", 7 * DAY), ("session", 30 * DAY)] {
        ends(what, seconds, true).await;
        ends(what, seconds, false).await;
    }
}

/// S7: signing in starts a new session and ends the one that was presented; a failed sign-in does not.
#[tokio::test]
async fn s7_a_planted_session_ends_with_the_sign_in() {
    let world = spawn().await;
    let planted = world.sign_in("b@example.com").await;
    let use_link = async |token: &str| {
        world.nobody.ask(Method::POST, "/v1/auth/callback").form(&[("token", token)]).session(&planted).send().await
    };
    assert!(expired(&use_link(&"0".repeat(64)).await));
    assert_eq!(world.nobody.me(&planted).await.status, 200);
    let session = use_link(&world.magic_link("a@example.com").await).await.session().expect("a session");
    assert_ne!(session, planted);
    assert_eq!(world.nobody.me(&planted).await.outcome(), "401 unauthorized");
    assert_eq!(world.nobody.me(&session).await.json()["user"]["email"], "a@example.com");
}

/// S9: the cookie is exactly as promised; signing out clears it with the same attributes and ends the session, so that
/// a copy of it is invalid.
#[tokio::test]
async fn s9_the_cookie_and_its_end() {
    for (public_url, secure) in [(None, ""), (Some("https://links.example.com"), "; Secure")] {
        let world = spawn_with(|config| {
            config.public_url = public_url.map(|url| url.parse().expect("a URL"));
            config.mail = Some(MailTransport::Directory(config.data_dir.join("mail")));
        })
        .await;
        let token = world.magic_link("new@example.com").await;
        let reply = world.nobody.use_link(&token).await;
        let session = reply.session().expect("a session");
        assert!(session.len() == 64 && session.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        let attributes = "Path=/; HttpOnly; SameSite=Lax; Max-Age";
        assert_eq!(reply.header("set-cookie"), format!("session_token={session}; {attributes}=2592000{secure}"));
        assert_eq!((reply.status, reply.header("location")), (303, "/account"));
        assert_eq!((reply.header("cache-control"), reply.header("referrer-policy")), ("no-store", "same-origin"));

        let signout = async || world.nobody.ask(Method::POST, "/v1/auth/signout").session(&session).send().await;
        let out = signout().await;
        assert_eq!((out.status, out.text().as_str()), (204, ""));
        assert_eq!(out.header("set-cookie"), format!("session_token=; {attributes}=0{secure}"));
        assert_eq!(world.nobody.me(&session).await.outcome(), "401 unauthorized");
        assert_eq!(signout().await.outcome(), "401 unauthorized");
    }
}

/// S9: these are not sessions: no cookie, two of them, a key instead of it, a key beside it.
#[tokio::test]
async fn s9_what_is_no_session() {
    let world = spawn().await;
    let session = world.sign_in("a@example.com").await;
    let me = || world.nobody.ask(Method::GET, "/v1/auth/me");
    assert_eq!(me().send().await.outcome(), "401 unauthorized");
    assert_eq!(me().session(&session).session(&session).send().await.outcome(), "401 unauthorized");
    assert_eq!(me().session(&session.to_uppercase()).send().await.outcome(), "401 unauthorized");
    let key = world.a.key().expect("a key");
    assert_eq!(me().bearer(key).send().await.outcome(), "401 invalid_key");
    assert_eq!(me().bearer(key).session(&session).send().await.outcome(), "401 invalid_key");
    assert_eq!(me().session(key).send().await.outcome(), "401 unauthorized");
    assert_eq!(me().session(&session).send().await.status, 200);
}

/// S17: accepting an invitation does not sign in, and works once, for the address that was invited. Inviting an address
/// that is verified in another account gets the same answer, and the invitation cannot be accepted.
#[tokio::test]
async fn s17_an_invitation_is_for_one_address_and_signs_nobody_in() {
    let world =
        spawn_with(|config| config.marketing_url = Some("https://www.example.com".parse().expect("a URL"))).await;
    let invite = async |email: &str| world.a.post("/v1/auth/users", &json!({"email": email})).await;
    let token = world.invite(&world.a, "friend@example.com").await;
    let reply = world.nobody.accept(&token).await;
    assert_eq!(
        (reply.header("location"), reply.header("set-cookie")),
        ("https://www.example.com/signin?invite=accepted", "")
    );
    assert!(invalid_invite(&world.nobody.accept(&token).await));
    let session = world.sign_in("friend@example.com").await;
    let me = world.nobody.me(&session).await.json();
    assert_eq!(me["tenant"]["id"], world.a.tenant.as_str());
    assert_eq!((&me["user"]["is_owner"], &me["user"]["verified"]), (&json!(false), &json!(true)));

    let (fresh, taken) = (invite("fresh@example.com").await, invite("b@example.com").await);
    assert_eq!((fresh.status, taken.status), (201, 201));
    let shape = |reply: &Reply| {
        let body = reply.json();
        (body.as_object().expect("an object").keys().cloned().collect::<Vec<_>>(), body["status"].clone())
    };
    assert_eq!(shape(&fresh), shape(&taken));
    eventually("both are mailed", Duration::from_secs(15), || async { world.mails_to("b@example.com").len() == 1 })
        .await;
    let token = world.invite(&world.a, "b@example.com").await;
    for _ in 0..2 {
        let reply = world.nobody.accept(&token).await;
        assert_eq!(reply.header("location"), "https://www.example.com/signin?error=invite_invalid");
    }
    let session = world.sign_in("b@example.com").await;
    assert_eq!(world.nobody.me(&session).await.json()["tenant"]["id"], world.b.tenant.as_str(), "B stays where B is");
}

/// S18: a sign-up by another person never captures the owner of the address: their sign-in opens a separate account,
/// and the mailed link of the sign-up is dead, as are invitations.
#[tokio::test]
async fn s18_nobody_waits_in_an_account_for_its_victim() {
    let world = spawn().await;
    let (attacker, signup) = sign_up(&world, "v@example.org").await;
    let invite = world.invite(&world.b, "v@example.org").await;
    let session = world.sign_in("v@example.org").await;
    let me = world.nobody.me(&session).await.json();
    let attackers = attacker.get("/v1/auth/users").await.json();
    assert_ne!(me["user"]["id"], attackers["users"][0]["id"]);
    assert_eq!(
        (&attackers["users"][0]["verified"], attackers["users"].as_array().map(Vec::len)),
        (&json!(false), Some(1))
    );
    let of_attacker = "SELECT tenant_id FROM users WHERE email = 'v@example.org' AND NOT verified AND is_owner";
    assert_ne!(me["tenant"]["id"], world.db.texts(of_attacker).await[0].as_str());
    assert!(confirms_nothing(&world.nobody.confirm(&signup).await));
    assert!(invalid_invite(&world.nobody.accept(&invite).await));
    // The attacker cannot invite anyone, and an invitation into another account does not move the address, either.
    let refused = attacker.post("/v1/auth/users", &json!({"email": "v@example.org"})).await;
    assert_eq!(refused.outcome(), "403 user_unverified");
    let again = world.invite(&world.b, "v@example.org").await;
    assert!(invalid_invite(&world.nobody.accept(&again).await));
    assert_eq!(world.nobody.me(&session).await.json(), me);
}

/// S18: confirming a sign-up signs in to the account that it opened, and other sign-ups of the address lapse.
#[tokio::test]
async fn s18_a_confirmed_sign_up_is_its_owners() {
    let world = spawn().await;
    let (first, _) = sign_up(&world, "new@example.com").await;
    let (_, token) = sign_up(&world, "new@example.com").await;
    let (_, other) = sign_up(&world, "new@example.com").await;
    let confirmed = world.nobody.confirm(&token).await;
    let session = confirmed.session().expect("a session");
    let second = world.somebody_with(&new_key(&confirmed));
    let me = world.nobody.me(&session).await.json();
    let users = async |caller: &Caller| caller.get("/v1/auth/users").await.json()["users"][0].clone();
    assert_eq!((&users(&second).await["id"], &users(&second).await["verified"]), (&me["user"]["id"], &json!(true)));
    assert_eq!(users(&first).await["verified"], json!(false));
    for token in [&other, &token] {
        assert!(confirms_nothing(&world.nobody.confirm(token).await));
    }
    let later = world.sign_in("new@example.com").await;
    assert_eq!(world.nobody.me(&later).await.json(), me);
}

/// S18: of two sign-ups of one address that are confirmed concurrently, one succeeds; the same holds for a sign-up and
/// a sign-in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s18_an_address_is_proved_once_at_one_instant() {
    let world = spawn_nodes(2).await;
    let nodes = [0, 1].map(|node| world.at(node, &world.nobody));
    for round in 0..10 {
        let email = format!("n{round}@example.com");
        let (_, first) = sign_up(&world, &email).await;
        let (_, second) = sign_up(&world, &email).await;
        let link = world.magic_link(&email).await;
        let tokens = [first, second, link];
        let replies = at_once(3, |number| {
            let (caller, token) = (nodes[number % 2].clone(), tokens[number].clone());
            async move { if number < 2 { caller.confirm(&token).await } else { caller.use_link(&token).await } }
        })
        .await;
        for reply in &replies {
            let is_refused = expired(reply) || confirms_nothing(reply);
            assert!(reply.session().is_some() || is_refused, "round {round}: {} {}", reply.status, reply.text());
        }
        // The magic link proves the address even if it comes second; a sign-up only if it comes first.
        let link = replies[2].session().expect("the link signs in");
        let me = world.nobody.me(&link).await.json();
        for reply in &replies[..2] {
            if let Some(session) = reply.session() {
                world.note_secret(&new_key(reply));
                assert_eq!(world.nobody.me(&session).await.json(), me, "round {round}");
            }
        }
        let verified = format!("SELECT CAST(count(*) AS BIGINT) FROM users WHERE email = '{email}' AND verified");
        assert_eq!(world.db.number(verified).await, 1);
    }
}
