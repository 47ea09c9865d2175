//! How many mails an address and its domain get in an hour, from all requesters.

use std::time::Duration;

use deeplink_testing::{Reply, World, eventually, spawn, spawn_with};
use http::Method;
use serde_json::json;

/// A world behind a proxy, which reports the client's address.
async fn behind_a_proxy() -> World {
    spawn_with(|config| config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")]).await
}

async fn ask_from(world: &World, client: &str, email: &str) -> Reply {
    let ask = world.nobody.ask(Method::POST, "/v1/auth/signin").header("x-forwarded-for", client);
    let reply = ask.json(&json!({"email": email})).send().await;
    assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"status":"sent"}"#), "{client} {email}");
    reply
}

/// The sign-in links that are valid now.
async fn usable(world: &World) -> i64 {
    let now = world.clock.now().as_millis();
    world.db.number(format!("SELECT CAST(count(*) AS BIGINT) FROM sign_ins WHERE expires_at > {now}")).await
}

/// Waits until all mails are sent, and returns how many an address was sent.
async fn mailed(world: &World, email: &str) -> usize {
    let waiting = "SELECT CAST(count(*) AS BIGINT) FROM mails";
    eventually("no mail waits", Duration::from_mins(1), || async { world.db.number(waiting).await == 0 }).await;
    world.mails_to(email).len()
}

/// An address has one allowance with and without a tag, for each kind of mail.
#[tokio::test]
async fn r14_tags_do_not_multiply_mails() {
    let world = spawn().await;
    for number in 0..30 {
        let email = if number % 3 == 0 { "v@example.com".to_owned() } else { format!("V+{number}@Example.com") };
        let reply = world.nobody.post("/v1/auth/signin", &json!({"email": email})).await;
        assert_eq!(reply.status, 200);
    }
    assert_eq!(usable(&world).await, 5);
    for number in 0..30 {
        let reply = world.nobody.post("/v1/auth/signup", &json!({"email": format!("v+{number}@example.com")})).await;
        let expected = if number < 5 { "201" } else { "429 rate_limited" };
        assert_eq!(reply.outcome(), expected, "{number}");
    }
    let refused = world.nobody.post("/v1/auth/signup", &json!({"email": "v@example.com"})).await;
    assert_eq!(refused.header("retry-after"), "3600");
    assert!(refused.text().contains("this address or its domain"), "{}", refused.text());
    for number in 0..30 {
        let invited = world.a.post("/v1/auth/users", &json!({"email": format!("v+{number}@example.com")})).await;
        assert_eq!(invited.status, 201);
    }
    assert_eq!(world.db.number("SELECT CAST(count(*) AS BIGINT) FROM tokens WHERE purpose = 'invite'").await, 5);
    // Others do not affect each other, and a plus sign at the start does not begin a tag.
    for email in ["w@example.com", "v.@example.org", "v.x@example.com", "+v@example.com", "+w@example.com"] {
        world.nobody.post("/v1/auth/signin", &json!({"email": email})).await;
    }
    assert_eq!(usable(&world).await, 9, "one of them is no address");
    world.clock.advance(Duration::from_hours(1));
    world.nobody.post("/v1/auth/signin", &json!({"email": "v+31@example.com"})).await;
    assert_eq!(usable(&world).await, 1);
}

/// A domain has many spellings in Unicode, full-width letters among them, and they are one domain.
#[tokio::test]
async fn r14_spellings_of_a_domain_do_not_multiply_mails() {
    let world = spawn().await;
    for number in 0_u8..30 {
        let letter = |at: u8, plain: char, wide: char| if number >> at & 1 == 1 { wide } else { plain };
        let (e, x) = (letter(0, 'e', 'ｅ'), letter(1, 'x', 'ｘ'));
        let email = format!("v@{e}{x}ample.com");
        let reply = world.nobody.post("/v1/auth/signin", &json!({"email": email})).await;
        assert_eq!(reply.status, 200, "{email} {}", reply.text());
    }
    assert_eq!(usable(&world).await, 5);
}

/// Five links requested by a stranger do not lock out the account's owner: one more is sent in the hour, if it is
/// requested from another network than the five. That does not reveal whether there is an account.
#[tokio::test]
async fn r14_one_mail_is_kept_for_whoever_has_the_account() {
    let world = behind_a_proxy().await;
    for (strangers, owners) in [
        (["198.51.100.1", "198.51.100.77"], "203.0.113.5"),
        (["2001:db8:1:2::1", "2001:db8:1:ffff::1"], "2001:db8:2::1"),
    ] {
        let before = mailed(&world, "a@example.com").await;
        for number in 0..12 {
            ask_from(&world, strangers[number % 2], "a@example.com").await;
            ask_from(&world, strangers[number % 2], "nobody-yet@example.com").await;
        }
        assert_eq!(usable(&world).await, 10, "addresses of one network count as one");
        for _ in 0..3 {
            // A tag is the same mailbox without an account: it does not use up the mail reserved for the address
            // without it.
            ask_from(&world, owners, "a+tag@example.com").await;
            let known = ask_from(&world, owners, "a@example.com").await;
            let unknown = ask_from(&world, owners, "nobody-yet@example.com").await;
            assert_eq!(known.without_request_id(), unknown.without_request_id());
        }
        assert_eq!(usable(&world).await, 13, "a sixth for each, once");
        assert_eq!(mailed(&world, "a@example.com").await, before + 6);
        assert_eq!(mailed(&world, "nobody-yet@example.com").await % 5, 0, "and sent where there is an account");
        assert_eq!(mailed(&world, "a+tag@example.com").await, 0);
        world.clock.advance(Duration::from_hours(1));
    }
}

/// For an address without an account, a placeholder for the reserved mail is stored and never sent: without it, the
/// response time would tell it from an address with an account.
#[tokio::test]
async fn r14_the_kept_mail_costs_as_much_without_an_account() {
    let world = behind_a_proxy().await;
    std::fs::write(world.home().join("mail"), "in the way").expect("a file");
    let count = async |what: String| world.db.number(format!("SELECT CAST(count(*) AS BIGINT) FROM {what}")).await;
    for email in ["a@example.com", "nobody-yet@example.com"] {
        for _ in 0..6 {
            ask_from(&world, "198.51.100.1", email).await;
        }
    }
    for email in ["a@example.com", "nobody-yet@example.com"] {
        ask_from(&world, "203.0.113.5", email).await;
        assert_eq!(count(format!("sign_ins WHERE email = '{email}'")).await, 6, "{email}");
        let kept = format!("mail_allowances WHERE purpose = 'kept' AND address = '{email}' AND sent = 1");
        assert_eq!(count(kept).await, 1, "{email}");
    }
    eventually("it is dropped", Duration::from_mins(1), || async { count("mails".to_owned()).await == 11 }).await;
}

/// If the owner was one of those who used up the five, no further mail is reserved.
#[tokio::test]
async fn r14_nothing_is_kept_for_a_network_that_had_one_of_the_five() {
    let world = behind_a_proxy().await;
    ask_from(&world, "203.0.113.5", "a@example.com").await;
    for _ in 0..4 {
        ask_from(&world, "198.51.100.1", "a@example.com").await;
    }
    ask_from(&world, "203.0.113.99", "a@example.com").await;
    assert_eq!(usable(&world).await, 5);
    let stored = world.db.texts("SELECT networks FROM mail_allowances WHERE purpose = 'signin'").await.remove(0);
    assert!(stored.split(' ').skip(1).all(|mac| mac.len() == 16) && !stored.contains('.'), "no address: {stored}");
}

/// A domain in which no account has a confirmed address gets 200 mails an hour, of all kinds; one in which an account has proved
/// an address has no such limit.
#[tokio::test]
async fn r14_a_domain_of_nobody_gets_200_mails_an_hour() {
    let world = spawn().await;
    let signin = async |email: String| world.nobody.post("/v1/auth/signin", &json!({"email": email})).await.status;
    for number in 0..100 {
        assert_eq!(signin(format!("n{number}@nobodys.example.net")).await, 200);
        // A refusal for one address does not count against the others of its domain.
        assert_eq!(signin("often@nobodys.example.net".to_owned()).await, 200);
    }
    assert_eq!(usable(&world).await, 105);
    for number in 100..180 {
        signin(format!("n{number}@nobodys.example.net")).await;
    }
    for number in 0..20 {
        let email = format!("s{number}@nobodys.example.net");
        let reply = world.nobody.post("/v1/auth/signup", &json!({"email": email})).await;
        let expected = if number < 15 { "201" } else { "429 rate_limited" };
        assert_eq!(reply.outcome(), expected, "{number}");
        assert!(number < 15 || reply.header("retry-after") == "3600");
    }
    for number in 180..190 {
        signin(format!("n{number}@nobodys.example.net")).await;
        signin(format!("n{number}@other.example.net")).await;
    }
    world.a.post("/v1/auth/users", &json!({"email": "i@nobodys.example.net"})).await;
    assert_eq!(usable(&world).await, 195, "185 and those of another domain");
    let tokens = "SELECT CAST(count(*) AS BIGINT) FROM tokens WHERE purpose = ";
    let counts =
        [world.db.number(format!("{tokens}'signup'")).await, world.db.number(format!("{tokens}'invite'")).await];
    assert_eq!(counts, [15, 0]);
    // An account with an unproved address does not lift the limit; a proved one does.
    let of_domain = "email = 's0@nobodys.example.net'";
    world.db.execute(format!("UPDATE users SET verified = TRUE WHERE {of_domain}")).await;
    signin("n200@nobodys.example.net".to_owned()).await;
    assert_eq!(usable(&world).await, 196);
    world.db.execute(format!("UPDATE users SET verified = FALSE WHERE {of_domain}")).await;
    signin("n201@nobodys.example.net".to_owned()).await;
    assert_eq!(usable(&world).await, 196);
    world.clock.advance(Duration::from_hours(1));
    signin("n202@nobodys.example.net".to_owned()).await;
    assert_eq!(usable(&world).await, 1);
}
