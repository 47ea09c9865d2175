//! Secret keys: listed, issued to a signed-in person, made with a mailed code, deleted.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, World, at_once, code_in, eventually, insist, spawn, spawn_nodes, spawn_with};

const KEYS: &str = "/v1/auth/secret-keys";
const CONFIRM: &str = "/v1/auth/secret-keys/confirm";
const ISSUE: &str = "/v1/auth/secret-keys/issue";

async fn issue(caller: &Caller, session: &str) -> Reply {
    caller.ask_without_key(Method::POST, ISSUE).session(session).body("{}").send().await
}

async fn listed(caller: &Caller) -> Vec<Value> {
    caller.get(KEYS).await.json()["keys"].as_array().expect("keys").clone()
}

async fn request(caller: &Caller, email: &str) -> Reply {
    caller.post(KEYS, &json!({"email": email})).await
}

async fn confirm(caller: &Caller, email: &str, token: &str) -> Reply {
    caller.post(CONFIRM, &json!({"email": email, "token": token})).await
}

/// Requests a code as A, and reads it in the mail: the `nth` of this world.
async fn code_of_a(world: &World, nth: usize) -> String {
    // Mails in the same millisecond have no order.
    world.clock.advance(Duration::from_millis(1));
    let asked = request(&world.a, "a@example.com").await;
    assert_eq!((asked.status, asked.json()), (200, json!({"status": "code_sent"})), "{}", asked.text());
    let mails = world.mails(nth).await;
    let mail = mails.last().expect("a mail");
    assert!(mail.contains("To: a@example.com"), "{mail}");
    code_in(mail).unwrap_or_else(|| panic!("no code: {mail}"))
}

/// A code that is certainly wrong.
fn wrong(code: &str) -> String {
    let last = if code.ends_with('A') { 'B' } else { 'A' };
    format!("{}{last}", &code[..5])
}

/// Fills an account up to its limit.
async fn fill(world: &World, caller: &Caller) {
    let session = world.session_of(caller).await;
    for _ in listed(caller).await.len()..5 {
        assert_eq!(issue(caller, &session).await.status, 201);
    }
}

async fn stored(world: &World, caller: &Caller) -> i64 {
    let sql = "SELECT CAST(count(*) AS BIGINT) FROM secret_keys WHERE affiliate_id IS NULL AND tenant_id";
    world.db.number(format!("{sql} = '{}'", caller.tenant)).await
}

#[tokio::test]
async fn somebody_who_is_signed_in_is_issued_a_key() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    world.clock.advance(Duration::from_secs(1));
    let made = issue(&world.a, &session).await;
    assert_eq!((made.status, made.header("cache-control")), (201, "no-store"), "{}", made.text());
    let (id, key) = (made.member("id"), made.member("key"));
    assert_eq!(made.header("location"), format!("{KEYS}/{id}"));
    assert_eq!(made.member("key_prefix"), format!("{}...", &key[..18]));
    assert_eq!(made.member("created_at"), world.clock.now().to_string());
    let holder = world.somebody_with(&key);
    holder.make("mine").await;
    assert_eq!(world.a.get("/v1/links/mine").await.status, 200, "it is the account's");

    let keys = listed(&holder).await;
    assert_eq!(keys.len(), 2, "affiliates' credentials are not among them");
    assert_eq!((&keys[0]["id"], &keys[0]["key_prefix"]), (&json!(id), &json!(made.member("key_prefix"))));
    let owner = world.db.texts(format!("SELECT id FROM users WHERE tenant_id = '{}'", world.a.tenant)).await;
    assert_eq!((&keys[0]["created_by"], &keys[0]["last_used_at"].is_null()), (&json!(owner[0]), &true));
    let names: Vec<_> = keys[0].as_object().expect("a key").keys().cloned().collect();
    assert_eq!(names, ["id", "key_prefix", "created_by", "created_at", "last_used_at"]);
}

#[tokio::test]
async fn who_is_issued_a_key_and_how_it_is_asked() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    let ask = || world.nobody.ask(Method::POST, ISSUE);
    for (ask, expected) in [
        (ask().body("{}"), "401 unauthorized"),
        (ask().session(&"0".repeat(64)).body("{}"), "401 unauthorized"),
        (ask().session("x").body("{}"), "401 unauthorized"),
        (ask().session(&session).session(&session).body("{}"), "401 unauthorized"),
        (world.a.ask(Method::POST, ISSUE).body("{}"), "401 invalid_key"),
        (world.a.ask(Method::POST, ISSUE).session(&session).body("{}"), "401 invalid_key"),
        (ask().session(&session).header("sec-fetch-site", "cross-site").body("{}"), "403 csrf_rejected"),
        (ask().session(&session).header("sec-fetch-site", "same-site").body("{}"), "403 csrf_rejected"),
        (ask().session(&session).header("origin", "https://other.example").body("{}"), "403 csrf_rejected"),
        (ask().session(&session).header("origin", "null").body("{}"), "403 csrf_rejected"),
        (ask().session(&session).body_as("text/plain", "{}"), "415 unsupported_media_type"),
        (ask().session(&session), "415 unsupported_media_type"),
        (ask().session(&session).body("x".repeat(70_000)), "413 payload_too_large"),
        (ask().session(&session).body(""), "400 bad_request"),
        (ask().session(&session).body("[]"), "400 bad_request"),
        (ask().session(&session).header("idempotency-key", "").body("{}"), "400 bad_request Idempotency-Key"),
    ] {
        assert_eq!(ask.send().await.outcome(), expected);
    }
    assert_eq!(stored(&world, &world.a).await, 1);
    let own = ask().session(&session).header("sec-fetch-site", "same-origin").header("origin", world.a.base());
    assert_eq!(own.body("{}").send().await.status, 201);

    world.clock.advance(Duration::from_hours(30 * 24));
    assert_eq!(issue(&world.a, &session).await.outcome(), "401 unauthorized", "a session lasts 30 days");

    let off = spawn_with(|config| config.sessions = false).await;
    let session = off.session_of(&off.a).await;
    let refused = issue(&off.a, &session).await;
    assert_eq!((refused.outcome().as_str(), refused.header("retry-after")), ("503 secret_keys_not_configured", ""));
    let refused = request(&off.a, "a@example.com").await;
    assert_eq!((refused.outcome().as_str(), refused.header("retry-after")), ("503 secret_keys_not_configured", ""));
}

#[tokio::test]
async fn a_mailed_code_makes_a_key_once() {
    let world = spawn().await;
    let code = code_of_a(&world, 1).await;
    let typed = format!(" {}\n", code.to_lowercase());
    let made = confirm(&world.a, " A@Example.com ", &typed).await;
    assert_eq!((made.status, made.header("cache-control")), (201, "no-store"), "{}", made.text());
    let holder = world.somebody_with(&made.member("key"));
    assert_eq!(listed(&holder).await[0]["id"], json!(made.member("id")));
    assert!(listed(&holder).await[0]["created_by"].is_string());
    assert_eq!(confirm(&world.a, "a@example.com", &code).await.outcome(), "400 invalid_code token");
    // The row is deleted, so the next one can be requested at once.
    let next = code_of_a(&world, 2).await;
    assert_eq!(confirm(&holder, "a@example.com", &next).await.status, 201);
}

#[tokio::test]
async fn who_may_ask_for_a_code() {
    let world = spawn().await;
    let tenant = &world.a.tenant;
    world
        .db
        .execute(format!(
            "INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at)
             VALUES ('usr_0123456789abcdef01234567', '{tenant}', 'new@example.com', FALSE, FALSE, 1)"
        ))
        .await;
    for (email, expected) in [
        ("nobody@example.com", "403 not_a_member"),
        ("b@example.com", "403 not_a_member"),
        ("new@example.com", "403 user_unverified"),
        ("a@example", "400 invalid_email email"),
        ("", "400 invalid_email email"),
    ] {
        assert_eq!(request(&world.a, email).await.outcome(), expected, "{email}");
    }
    assert_eq!(world.a.post(KEYS, &json!({})).await.outcome(), "400 bad_request email");
    assert_eq!(world.a.post(CONFIRM, &json!({"email": "a@example.com"})).await.outcome(), "400 bad_request token");
    let code = code_of_a(&world, 1).await;
    world.clock.advance(Duration::from_millis(90_500));
    let pending = request(&world.a, "a@example.com").await;
    assert_eq!((pending.outcome().as_str(), pending.header("retry-after")), ("429 request_pending", "510"));
    assert_eq!(world.mails(1).await.len(), 1, "one mail for one code");
    assert_eq!(confirm(&world.a, "a@example.com", &code).await.status, 201);
    fill(&world, &world.a).await;
    assert_eq!(request(&world.a, "a@example.com").await.outcome(), "409 key_limit");
    assert_eq!(issue(&world.a, &world.session_of(&world.a).await).await.outcome(), "409 key_limit");
}

/// S6: a code works for 10 minutes.
#[tokio::test]
async fn s6_a_code_ends_after_ten_minutes() {
    let world = spawn().await;
    let code = code_of_a(&world, 1).await;
    world.clock.advance(Duration::from_secs(599));
    assert_eq!(confirm(&world.a, "a@example.com", &code).await.status, 201);
    let code = code_of_a(&world, 2).await;
    world.clock.advance(Duration::from_secs(599));
    let pending = request(&world.a, "a@example.com").await;
    assert_eq!((pending.outcome().as_str(), pending.header("retry-after")), ("429 request_pending", "1"));
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(confirm(&world.a, "a@example.com", &code).await.outcome(), "400 invalid_code token");
    let code = code_of_a(&world, 3).await;
    assert_eq!(confirm(&world.a, "a@example.com", &code).await.status, 201);
}

#[tokio::test]
async fn a_code_is_not_wasted_where_there_is_no_room() {
    let world = spawn().await;
    let code = code_of_a(&world, 1).await;
    fill(&world, &world.a).await;
    for _ in 0..8 {
        assert_eq!(confirm(&world.a, "a@example.com", &code).await.outcome(), "409 key_limit");
    }
    let other = listed(&world.a).await[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(world.a.delete(&format!("{KEYS}/{other}")).await.status, 204);
    assert_eq!(confirm(&world.a, "a@example.com", &code).await.status, 201);
}

/// S13: five wrong codes are refused; the sixth try is 429, and the code is dead even for its owner. It blocks a new
/// request until it expires. Exact under concurrent tries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s13_five_wrong_codes() {
    let world = spawn_nodes(2).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let code = code_of_a(&world, 1).await;
    let guess = wrong(&code);
    let outcomes = at_once(100, |number| {
        let (caller, guess) = (callers[number % 2].clone(), guess.clone());
        // All wait for one row; on a busy machine some are told to retry, which is not a try.
        async move { insist(|| confirm(&caller, "a@example.com", &guess)).await.outcome() }
    })
    .await;
    let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
    assert_eq!((count("400 invalid_code token"), count("429 too_many_attempts")), (5, 95), "{outcomes:?}");
    world.clock.advance(Duration::from_mins(1));
    let right = confirm(&world.a, "a@example.com", &code).await;
    assert_eq!((right.outcome().as_str(), right.header("retry-after")), ("429 too_many_attempts", "540"));
    let again = request(&world.a, "a@example.com").await;
    assert_eq!((again.outcome().as_str(), again.header("retry-after")), ("429 request_pending", "540"));
    world.clock.advance(Duration::from_secs(541));
    let next = code_of_a(&world, 2).await;
    for guess in ["", "12345", "1234567", "ÄBCDEF", &wrong(&next)] {
        assert_eq!(confirm(&world.a, "a@example.com", guess).await.outcome(), "400 invalid_code token");
    }
    assert_eq!(confirm(&world.a, "a@example.com", &next).await.outcome(), "429 too_many_attempts", "each try counts");
    assert_eq!(stored(&world, &world.a).await, 1);
}

/// S14: tries are counted per account and address; S15: a code makes a key only for the account and the address that it
/// was sent for.
#[tokio::test]
async fn s14_a_code_is_of_one_account_and_address() {
    let world = spawn().await;
    let code = code_of_a(&world, 1).await;
    for _ in 0..10 {
        assert_eq!(confirm(&world.b, "a@example.com", &code).await.outcome(), "400 invalid_code token");
        assert_eq!(confirm(&world.a, "b@example.com", &code).await.outcome(), "400 invalid_code token");
    }
    // B has its own code pending: A's does not work there either.
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(request(&world.b, "b@example.com").await.status, 200);
    let codes: Vec<_> = world.mails(2).await.iter().filter_map(|mail| code_in(mail)).collect();
    assert_eq!((codes.len(), &codes[0]), (2, &code));
    if codes[0] != codes[1] {
        assert_eq!(confirm(&world.b, "b@example.com", &code).await.outcome(), "400 invalid_code token");
    }
    assert_eq!((stored(&world, &world.a).await, stored(&world, &world.b).await), (1, 1));
    assert_eq!(confirm(&world.a, "a@example.com", &code).await.status, 201);
}

/// S16: a code becomes invalid when its person is removed from the team, and no other one can be requested for them.
/// (Their sessions and invitations are in `team`.)
#[tokio::test]
async fn s16_a_code_ends_with_its_person() {
    let world = spawn().await;
    let friend = world.join(&world.a, "friend@example.com").await;
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(request(&world.a, "friend@example.com").await.status, 200);
    let mailed = || world.mails_to("friend@example.com").iter().find_map(|mail| code_in(mail));
    eventually("the code is mailed", Duration::from_secs(15), async || mailed().is_some()).await;
    let code = mailed().expect("a code");
    assert_eq!(world.a.delete(&format!("/v1/auth/users/{friend}")).await.status, 204);
    assert_eq!(confirm(&world.a, "friend@example.com", &code).await.outcome(), "400 invalid_code token");
    assert_eq!(request(&world.a, "friend@example.com").await.outcome(), "403 not_a_member");
    assert_eq!(stored(&world, &world.a).await, 1);
}

/// S16, with a key that is issued concurrently: it is the account's and no person's, or it was refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s16_a_key_is_issued_during_the_removal() {
    let world = spawn_nodes(2).await;
    for round in 0..10 {
        let email = format!("friend-{round}@example.com");
        let friend = world.join(&world.a, &email).await;
        let session = world.sign_in(&email).await;
        let callers = [world.at(0, &world.a), world.at(1, &world.nobody)];
        let replies = at_once(2, |number| {
            let (caller, path, session) =
                (callers[number].clone(), format!("/v1/auth/users/{friend}"), session.clone());
            async move { if number == 0 { caller.delete(&path).await } else { issue(&caller, &session).await } }
        })
        .await;
        let (removed, issued) = (replies[0].outcome(), replies[1].outcome());
        assert_eq!(removed, "204", "round {round}");
        assert!(matches!(issued.as_str(), "201" | "401 unauthorized"), "round {round}: {issued}");
        for key in listed(&world.a).await.iter().filter(|key| key["key_prefix"] != json!(prefix(&world.a))) {
            assert_eq!(key["created_by"], Value::Null, "round {round}");
            let path = format!("{KEYS}/{}", key["id"].as_str().expect("an id"));
            assert_eq!(world.a.delete(&path).await.status, 204);
        }
    }
}

fn prefix(caller: &Caller) -> String {
    format!("{}...", &caller.key().expect("a key")[..18])
}

/// X21: a signed-in person has their own Idempotency-Keys: another team member is issued another key.
#[tokio::test]
async fn x21_two_people_with_one_idempotency_key() {
    let world = spawn().await;
    world.join(&world.a, "friend@example.com").await;
    let sessions = [world.sign_in("a@example.com").await, world.sign_in("friend@example.com").await];
    let ask = async |session: &str| {
        let ask = world.nobody.ask(Method::POST, ISSUE).session(session).header("idempotency-key", "key");
        ask.body("{}").send().await
    };
    let [one, other] = [ask(&sessions[0]).await, ask(&sessions[1]).await];
    assert_eq!((one.status, other.status, other.header("idempotency-replayed")), (201, 201, ""));
    assert_ne!(one.member("id"), other.member("id"));
    assert_eq!(ask(&sessions[0]).await.body, one.body);
    let conflict = world.nobody.ask(Method::POST, ISSUE).session(&sessions[0]).header("idempotency-key", "key");
    assert_eq!(conflict.body("{ }").send().await.outcome(), "409 idempotency_conflict Idempotency-Key");
    // A request for a code has a reply without a secret; it is stored too, and a repeat mails nothing.
    let request = || world.a.ask(Method::POST, KEYS).header("idempotency-key", "key");
    for replayed in ["", "true"] {
        let asked = request().json(&json!({"email": "a@example.com"})).send().await;
        assert_eq!((asked.status, asked.header("idempotency-replayed")), (200, replayed));
    }
}

#[tokio::test]
async fn a_key_is_deleted_by_another() {
    let world = spawn().await;
    let session = world.session_of(&world.a).await;
    let own = listed(&world.a).await[0]["id"].as_str().expect("an id").to_owned();
    let delete = async |caller: &Caller, id: &str| caller.delete(&format!("{KEYS}/{id}")).await.outcome();
    assert_eq!(delete(&world.a, &own).await, "409 key_in_use", "before it is the last one");
    let made = issue(&world.a, &session).await;
    let (id, holder) = (made.member("id"), world.somebody_with(&made.member("key")));
    assert_eq!(holder.get("/v1/links").await.status, 200);
    let of_affiliate = world.db.texts("SELECT id FROM secret_keys WHERE affiliate_id IS NOT NULL").await;
    for elsewhere in ["x", "skid_0123456789abcdef01234567", &own.replace("skid", "pkid"), &of_affiliate[0]] {
        assert_eq!(delete(&world.a, elsewhere).await, "404 not_found", "{elsewhere}");
    }
    assert_eq!(delete(&world.b, &id).await, "404 not_found");
    assert_eq!(delete(&holder, &id).await, "409 key_in_use");
    assert_eq!(delete(&world.a, &id).await, "204");
    assert_eq!(holder.get("/v1/links").await.outcome(), "401 invalid_key", "at once");
    assert_eq!(delete(&world.a, &id).await, "404 not_found");
    assert_eq!(delete(&holder, &own).await, "401 invalid_key");
    assert_eq!(listed(&world.a).await.len(), 1);
}

/// K1: an account always has a key: of two that delete each other, one stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k1_two_keys_delete_each_other() {
    let world = spawn_nodes(2).await;
    let session = world.session_of(&world.a).await;
    let first = listed(&world.a).await[0]["id"].as_str().expect("an id").to_owned();
    let mut left = (first, world.a.clone());
    for round in 0..200 {
        let made = issue(&world.a, &session).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let other = (made.member("id"), world.somebody_with(&made.member("key")));
        let both = [left.clone(), other.clone()];
        let ids = [other.0.clone(), left.0.clone()];
        let outcomes = at_once(2, |number| {
            let (caller, path) = (world.at(number, &both[number].1), format!("{KEYS}/{}", ids[number]));
            async move { caller.delete(&path).await.outcome() }
        })
        .await;
        let won = outcomes.iter().position(|outcome| outcome == "204").unwrap_or_else(|| panic!("{outcomes:?}"));
        let lost = &outcomes[1 - won];
        assert!(matches!(lost.as_str(), "401 invalid_key" | "409 last_key" | "409 key_in_use"), "{round} {outcomes:?}");
        assert_eq!(stored(&world, &world.a).await, 1, "round {round}");
        left = both[won].clone();
    }
}

/// K2: five keys, exact at issue and confirm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_five_keys() {
    let world = spawn_nodes(2).await;
    let session = world.session_of(&world.a).await;
    let code = code_of_a(&world, 1).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let outcomes = at_once(20, |number| {
        let (caller, session, code) = (callers[number % 2].clone(), session.clone(), code.clone());
        async move {
            if number % 10 == 9 {
                confirm(&caller, "a@example.com", &code).await.outcome()
            } else {
                issue(&caller, &session).await.outcome()
            }
        }
    })
    .await;
    assert_eq!(outcomes.iter().filter(|outcome| *outcome == "201").count(), 4, "{outcomes:?}");
    let is_refusal = |outcome: &&String| matches!(outcome.as_str(), "409 key_limit" | "400 invalid_code token");
    assert_eq!(outcomes.iter().filter(is_refusal).count(), 16, "{outcomes:?}");
    assert_eq!(stored(&world, &world.a).await, 5);
    assert_eq!(request(&world.a, "a@example.com").await.outcome(), "409 key_limit", "and at the request for a code");
}

/// K3: a deleted key is refused at once on its node, and elsewhere within 5 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k3_a_deleted_key_is_refused_everywhere() {
    let world = spawn_nodes(2).await;
    let made = issue(&world.a, &world.session_of(&world.a).await).await;
    let holder = world.somebody_with(&made.member("key"));
    let (here, there) = (world.at(0, &holder), world.at(1, &holder));
    assert_eq!((here.get("/v1/links").await.status, there.get("/v1/links").await.status), (200, 200));
    assert_eq!(world.at(0, &world.a).delete(&format!("{KEYS}/{}", made.member("id"))).await.status, 204);
    assert_eq!(here.get("/v1/links").await.outcome(), "401 invalid_key");
    let refused = async || there.get("/v1/links").await.outcome() == "401 invalid_key";
    eventually("the other node refuses it", Duration::from_secs(5), refused).await;
}

/// The use of a key is stored after the reply, at most once a minute, and outlives the process.
#[tokio::test]
async fn a_key_says_when_it_was_last_used() {
    let mut world = spawn().await;
    let shown = async |world: &World| listed(&world.a).await[0]["last_used_at"].as_str().map(str::to_owned);
    assert_eq!(shown(&world).await, None);
    let first = world.clock.now().to_string();
    let soon = Duration::from_mins(1);
    eventually("the first use is stored", soon, || async { shown(&world).await == Some(first.clone()) }).await;
    world.clock.advance(Duration::from_secs(59));
    for _ in 0..50 {
        assert_eq!(shown(&world).await, Some(first.clone()));
    }
    // One write stores all uses of a second, so another key's first use would bring the second use of this one.
    let used = "SELECT CAST(count(*) AS BIGINT) FROM secret_keys WHERE last_used_at IS NOT NULL";
    let before = world.db.number(used).await;
    assert_eq!(world.b.get("/v1/links").await.status, 200);
    eventually("another key's use is stored", soon, || async { world.db.number(used).await > before }).await;
    assert_eq!(shown(&world).await, Some(first.clone()), "less than a minute is not worth a write");
    world.clock.advance(Duration::from_secs(1));
    let later = world.clock.now().to_string();
    eventually("a minute later it is again", soon, || async { shown(&world).await == Some(later.clone()) }).await;
    world.restart(|_| {}).await;
    assert_eq!(shown(&world).await, Some(later));
    let unused = "SELECT CAST(count(*) AS BIGINT) FROM secret_keys WHERE last_used_at IS NULL";
    assert!(world.db.number(unused).await > 0, "only what is used");
}
