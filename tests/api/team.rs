//! The people of an account: listed, invited, removed.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, at_once, eventually, spawn, spawn_nodes, spawn_with};

async fn users(caller: &Caller) -> Vec<Value> {
    caller.get("/v1/auth/users").await.json()["users"].as_array().expect("users").clone()
}

async fn invite(caller: &Caller, email: &str) -> String {
    caller.post("/v1/auth/users", &json!({"email": email})).await.outcome()
}

async fn owner(caller: &Caller) -> String {
    users(caller).await.last().expect("an owner")["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_team_is_listed_newest_first() {
    let world = spawn().await;
    world.clock.advance(Duration::from_millis(10));
    let reply = world.a.post("/v1/auth/users", &json!({"email": " Friend@Example.COM "})).await;
    let body = reply.json();
    let id = reply.member("id");
    assert_eq!(body, json!({"id": id, "email": "friend@example.com", "status": "invited"}));
    assert_eq!(reply.header("location"), format!("/v1/auth/users/{id}"));
    let listed = users(&world.a).await;
    assert_eq!(
        listed[0],
        json!({
            "id": id, "email": "friend@example.com", "verified": false, "status": "pending", "is_owner": false,
            "created_at": world.clock.now().to_string(),
        })
    );
    let owner = &listed[1];
    assert_eq!(
        (&owner["email"], &owner["status"], &owner["is_owner"]),
        (&json!("a@example.com"), &json!("active"), &json!(true))
    );
    assert_eq!(users(&world.b).await.len(), 1);
    world.clock.advance(Duration::from_millis(10));
    world.join(&world.a, "second@example.com").await;
    let listed = users(&world.a).await;
    assert_eq!((&listed[0]["status"], &listed[0]["verified"]), (&json!("active"), &json!(true)));
}

#[tokio::test]
async fn addresses_are_judged_and_members_are_not_invited_again() {
    let world = spawn().await;
    for (body, expected) in [
        (json!({}), "400 bad_request email"),
        (json!({"email": null}), "400 bad_request email"),
        (json!({"email": "a@b"}), "400 invalid_email email"),
        (json!({"email": "a@example.com,b@example.com"}), "400 invalid_email email"),
        (json!({"email": " A@EXAMPLE.COM "}), "409 user_exists email"),
    ] {
        assert_eq!(world.a.post("/v1/auth/users", &body).await.outcome(), expected, "{body}");
    }
    assert_eq!(invite(&world.a1, "friend@example.com").await, "403 forbidden_scope");
    assert_eq!(users(&world.a).await.len(), 1);
}

#[tokio::test]
async fn an_invitation_again_is_a_new_link_to_the_same_person() {
    let world = spawn().await;
    let first = world.invite(&world.a, "friend@example.com").await;
    let second = world.invite(&world.a, "friend@example.com").await;
    assert_eq!(users(&world.a).await.len(), 2);
    assert!(world.nobody.accept(&first).await.header("location").ends_with("?error=invite_invalid"));
    assert!(world.nobody.accept(&second).await.header("location").ends_with("?invite=accepted"));
    assert_eq!(invite(&world.a, "friend@example.com").await, "409 user_exists email");
}

#[tokio::test]
async fn an_address_gets_five_invitations_an_hour_whoever_sends_them() {
    let world = spawn().await;
    let mut last = String::new();
    for _ in 0..5 {
        last = world.invite(&world.a, "friend@example.com").await;
    }
    for caller in [&world.a, &world.b] {
        assert_eq!(invite(caller, "friend@example.com").await, "201", "and nothing is said");
    }
    assert_eq!(invite(&world.a, "other@example.com").await, "201");
    assert_eq!(world.mails(6).await.len(), 6);
    assert_eq!(world.mails_to("friend@example.com").len(), 5);
    assert!(
        world.nobody.accept(&last).await.header("location").ends_with("?invite=accepted"),
        "the last link still works"
    );
    world.clock.advance(Duration::from_hours(1));
    world.invite(&world.b, "friend@example.com").await;
}

/// Invitations go to people who never asked for mail: a team may send a limited number, and only once a person in it is
/// verified.
#[tokio::test]
async fn a_team_sends_fifty_invitations_an_hour_and_none_while_nobody_is_known() {
    let world = spawn().await;
    let numbered =
        async |number: usize| world.a.post("/v1/auth/users", &json!({"email": format!("n{number}@example.com")})).await;
    for number in 0..50 {
        assert_eq!(numbered(number).await.status, 201);
    }
    world.clock.advance(Duration::from_secs(10));
    let refused = numbered(50).await;
    assert_eq!((refused.outcome().as_str(), refused.header("retry-after")), ("429 rate_limited", "3590"));
    assert_eq!(users(&world.a).await.len(), 51, "and no person was stored");
    assert_eq!(invite(&world.b, "friend@example.com").await, "201", "others are not affected");
    world.clock.advance(Duration::from_secs(3_590));
    assert_eq!(numbered(50).await.status, 201);

    let opened = world.nobody.post("/v1/auth/signup", &json!({"email": "new@example.com"})).await;
    eventually("the mail is out", Duration::from_secs(30), || async { !world.mails_to("new@example.com").is_empty() })
        .await;
    let stranger = world.somebody_with(&opened.member("api_key"));
    assert_eq!(invite(&stranger, "friend@example.com").await, "403 user_unverified");
    let token = deeplink_testing::token_in(&world.mails_to("new@example.com").remove(0)).expect("a token");
    let owner = world.somebody_with(&crate::confirmations::new_key(&world.nobody.confirm(&token).await));
    assert_eq!(invite(&owner, "friend@example.com").await, "201");
}

#[tokio::test]
async fn a_repeat_with_the_same_key_invites_once() {
    let world = spawn().await;
    let ask = |email: &str| {
        let ask = world.a.ask(Method::POST, "/v1/auth/users").header("idempotency-key", "key-1");
        ask.json(&json!({"email": email})).send()
    };
    let first = ask("friend@example.com").await;
    let again = ask("friend@example.com").await;
    assert_eq!((again.status, again.header("idempotency-replayed"), &again.body), (201, "true", &first.body));
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(ask("other@example.com").await.outcome(), "409 idempotency_conflict Idempotency-Key");
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM tokens").await, 1);
}

/// U2: the plan's limit of people is exact under concurrent invitations. Inviting a person again does not count twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u2_a_plan_includes_so_many_people() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let refused = world.a.post("/v1/auth/users", &json!({"email": "friend@example.com"})).await;
    assert_eq!(refused.outcome(), "402 quota_exceeded");
    let told = ["resource", "limit", "current"].map(|name| refused.json()[name].clone());
    assert_eq!(told, [json!("team_members"), json!(1), json!(1)]);
    world.db.execute(format!("UPDATE tenants SET plan_tier = 'pro' WHERE id = '{}'", world.a.tenant)).await;
    let outcomes = at_once(8, |number| {
        let caller = world.a.clone();
        async move { invite(&caller, &format!("n{number}@example.com")).await }
    })
    .await;
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "201").count(), 4, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "402 quota_exceeded").count(), 4, "{outcomes:?}");
    let pending = users(&world.a).await[0]["email"].as_str().expect("an address").to_owned();
    assert_eq!(invite(&world.a, &pending).await, "201");
    assert_eq!(users(&world.a).await.len(), 5);
}

/// U1: an account keeps one person with a confirmed address: of two who remove each other one stays, two hundred times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u1_somebody_stays() {
    let world = spawn_nodes(2).await;
    let callers = [0, 1].map(|node| world.at(node, &world.a));
    let tenant = &world.a.tenant;
    let first = owner(&world.a).await;
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{first}")).await.outcome(), "409 last_user");
    let mut ids = [first, world.join(&world.a, "second@example.com").await];
    for round in 0..200 {
        let outcomes = at_once(2, |number| {
            let (caller, path) = (callers[number].clone(), format!("/v1/auth/users/{}", ids[number]));
            async move { caller.delete(&path).await.outcome() }
        })
        .await;
        let gone = outcomes.iter().position(|outcome| outcome == "204").expect("one goes");
        assert_eq!(outcomes[1 - gone], "409 last_user", "round {round}");
        let new = format!("usr_{round:024x}");
        let sql = format!(
            "INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at)
             VALUES ('{new}', '{tenant}', 'n{round}@example.com', TRUE, FALSE, 0)"
        );
        world.db.execute(sql).await;
        ids[gone] = new;
    }
    // People who are only invited do not count.
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{}", ids[0])).await.status, 204);
    assert_eq!(invite(&world.a, "friend@example.com").await, "201");
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{}", ids[1])).await.outcome(), "409 last_user");
    let pending = users(&world.a).await.iter().find(|user| user["status"] == "pending").expect("one")["id"].clone();
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{}", pending.as_str().expect("an id"))).await.status, 204);
}

/// S16: a removed person is out at once: their sessions and invitations end, on every node, and a later sign-in opens
/// their own account. Keys that they made stay the account's.
#[tokio::test]
async fn s16_who_is_removed_is_out_at_once() {
    let world = spawn_nodes(2).await;
    let friend = world.join(&world.a, "friend@example.com").await;
    let sessions = [world.sign_in("friend@example.com").await, world.sign_in("friend@example.com").await];
    let pending = world.magic_link("friend@example.com").await;
    let key = world
        .nobody
        .ask(Method::POST, "/v1/auth/secret-keys/issue")
        .session(&sessions[0])
        .json(&json!({}))
        .send()
        .await
        .member("key");
    let gone = world.a.delete(&format!("/v1/auth/users/{friend}")).await;
    assert_eq!((gone.status, gone.text().as_str()), (204, ""));
    for session in &sessions {
        for node in 0..2 {
            assert_eq!(world.at(node, &world.nobody).me(session).await.outcome(), "401 unauthorized");
        }
    }
    assert_eq!(world.somebody_with(&key).get("/v1/links").await.status, 200);
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{friend}")).await.outcome(), "404 not_found");
    let session = world.nobody.use_link(&pending).await.session().expect("a session");
    assert_ne!(world.nobody.me(&session).await.json()["tenant"]["id"], world.a.tenant.as_str());

    let token = world.invite(&world.a, "other@example.com").await;
    let other = users(&world.a).await[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{other}")).await.status, 204);
    assert!(world.nobody.accept(&token).await.header("location").ends_with("?error=invite_invalid"));
    let left = "SELECT CAST(count(*) AS BIGINT) FROM tokens";
    assert_eq!(world.db.number(left).await, 0);
}

/// S16, with a concurrent sign-in: either the person is removed and their session with them, or the sign-in came later
/// and opened a separate account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_a_sign_in_during_the_removal_stays_outside() {
    let world = spawn_nodes(2).await;
    for round in 0..20 {
        let email = format!("friend-{round}@example.com");
        let friend = world.join(&world.a, &email).await;
        let link = world.magic_link(&email).await;
        let callers = [world.at(0, &world.a), world.at(1, &world.nobody)];
        let replies = at_once(2, |number| {
            let (caller, path, link) = (callers[number].clone(), format!("/v1/auth/users/{friend}"), link.clone());
            async move { if number == 0 { caller.delete(&path).await } else { caller.use_link(&link).await } }
        })
        .await;
        assert_eq!(replies[0].status, 204, "{}", replies[0].text());
        let session = replies[1].session().expect("the link works");
        let me = world.nobody.me(&session).await;
        let outside = me.status == 200 && me.json()["tenant"]["id"] != world.a.tenant.as_str();
        assert!(me.status == 401 || outside, "round {round}: {}", me.text());
    }
}

/// I2: a person in another account looks like one who does not exist.
#[tokio::test]
async fn i2_people_of_others_are_not_there() {
    let world = spawn().await;
    let of_b = owner(&world.b).await;
    let before = world.db.dump().await;
    let path = |id: &str| format!("/v1/auth/users/{id}");
    let answer = world.a.delete(&path(&of_b)).await;
    assert_eq!(answer.outcome(), "404 not_found");
    assert_eq!(answer.member("error"), format!("no team member with ID {of_b}"));
    for other in ["usr_0123456789abcdef01234567", "nobody"] {
        let missing = world.a.delete(&path(other)).await;
        assert_eq!(missing.without_ids([other]), answer.without_ids([&*of_b]));
    }
    assert_eq!(world.db.dump().await, before);
}

/// Expired rows are deleted: magic links, counts of mails, invitations.
#[tokio::test]
async fn what_is_over_is_taken_away() {
    let world = spawn().await;
    world.magic_link("new@example.com").await;
    world.invite(&world.a, "friend@example.com").await;
    let rows = async || {
        let count = "SELECT CAST((SELECT count(*) FROM sign_ins) + (SELECT count(*) FROM mail_allowances)
            + (SELECT count(*) FROM tokens) AS BIGINT)";
        world.db.number(count).await
    };
    assert_eq!(rows().await, 6);
    world.clock.advance(Duration::from_hours(24 * 7));
    eventually("they are deleted", Duration::from_secs(90), || async { rows().await == 0 }).await;
}

/// An invitation names the inviter's address only if that address is confirmed.
#[tokio::test]
async fn an_invitation_says_who_invites() {
    let world = spawn().await;
    world.invite(&world.a, "friend@example.com").await;
    assert!(world.mails_to("friend@example.com")[0].contains("a@example.com has invited you to their team"));
    let key = world.nobody.post("/v1/auth/signup", &json!({"email": "ceo@example.org"})).await.member("api_key");
    assert_eq!(invite(&world.somebody_with(&key), "victim@example.com").await, "403 user_unverified");
}
