//! One-time links that the operator prints: who gets in with them, once, and as whom. The commands that print them are
//! tested beside a running server, in the suite `operation`.

use std::time::Duration;

use deeplink_core::secret::{Random, Token};
use deeplink_server::config::MailTransport;
use http::Method;
use serde_json::json;

use crate::sessions::sign_up;
use crate::suspension::{resume, suspend};
use deeplink_testing::{Ask, Caller, Reply, World, at_once, spawn, spawn_nodes, spawn_with};

const PLACEHOLDER: &str = "owner@deeplink.invalid";
const INVALID: &str = "/signin?error=once_invalid";

/// Stores a link to an account, as the operator's command does; returns its token.
async fn link_to(world: &World, tenant: &str) -> String {
    let token = Token::generate(&mut Random::system());
    world.note_secret(token.expose());
    let (hash, until) = (token.hash(), world.clock.now().plus_days(1).as_millis());
    let sql =
        format!("INSERT INTO one_time_links (hash, tenant_id, expires_at) VALUES ('{hash}', '{tenant}', {until})");
    world.db.execute(sql).await;
    token.expose().to_owned()
}

/// Makes A's account one of a first start, which has no real address.
async fn as_first_start(world: &World) -> String {
    let tenant = world.a.tenant.to_string();
    world
        .db
        .execute(format!("UPDATE users SET email = '{PLACEHOLDER}' WHERE tenant_id = '{tenant}' AND is_owner"))
        .await;
    tenant
}

fn entering(caller: &Caller, token: &str, email: &str) -> Ask {
    caller.browse(Method::POST, "/signin/once").form(&[("token", token), ("email", email)])
}

async fn enter(caller: &Caller, token: &str, email: &str) -> Reply {
    entering(caller, token, email).send().await
}

fn is_invalid(reply: &Reply) -> bool {
    (reply.status, reply.header("location"), reply.session()) == (303, INVALID, None)
}

/// The account, the address and the role of whom a reply signs in.
async fn who(world: &World, reply: &Reply) -> (String, String, bool) {
    assert_eq!((reply.status, reply.header("location")), (303, "/account"), "{}", reply.text());
    let me = world.nobody.me(&reply.session().expect("a session")).await.json();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    assert_eq!(me["user"]["verified"], true);
    (text(&me["tenant"]["id"]), text(&me["user"]["email"]), me["user"]["is_owner"] == true)
}

async fn people(world: &World, tenant: &str) -> Vec<String> {
    world.db.texts(format!("SELECT email FROM users WHERE tenant_id = '{tenant}' ORDER BY email")).await
}

/// The person who opens the link of a first start becomes the owner, in place of the placeholder: the team and mails
/// name their address, and they can sign in by mail from then on. Everything else in the account stays.
#[tokio::test]
async fn the_first_person_becomes_the_owner() {
    let world = spawn().await;
    let tenant = as_first_start(&world).await;
    world.a.make("first-link").await;
    let invited = world
        .mailed_token("friend@example.com", world.a.post("/v1/auth/users", &json!({"email": "friend@example.com"})))
        .await;
    assert!(!world.mails_to("friend@example.com")[0].contains(PLACEHOLDER), "no mail names the placeholder");
    let token = link_to(&world, &tenant).await;
    let page = world.nobody.get(&format!("/signin/once?token={token}")).await;
    assert!(page.status == 200 && page.text().contains("become the owner"), "{}", page.text());
    assert!(!page.text().contains(PLACEHOLDER), "{}", page.text());

    let entered = enter(&world.nobody, &token, " Ana@Example.com ").await;
    assert_eq!(who(&world, &entered).await, (tenant.clone(), "ana@example.com".into(), true));
    assert_eq!(people(&world, &tenant).await, ["ana@example.com", "friend@example.com"]);
    assert_eq!(world.a.get("/v1/links/first-link").await.status, 200, "keys go on working");
    assert!(is_invalid(&enter(&world.nobody, &token, "ben@example.com").await), "it worked once");
    let again = world.sign_in("ana@example.com").await;
    assert_eq!(world.nobody.me(&again).await.json()["tenant"]["id"], tenant);
    assert!(world.nobody.accept(&invited).await.header("location").ends_with("invite=accepted"));
}

/// While the account from the first start has no owner, the home and sign-in pages say how to open it, because signing in by
/// email would create a second account. Only on one's own machine, and not once signed in.
#[tokio::test]
async fn an_unclaimed_account_is_named_before_anyone_signs_in_elsewhere() {
    const COMMAND: &str = "deeplink-server tenant signin <span class=\"option\">--tenant</span> owner@deeplink.invalid";
    const SECOND: &str = "you get a second, empty account";
    let world = spawn().await;
    let page = async |path: &str| world.nobody.browse(Method::GET, path).send().await.text();
    for path in ["/", "/signin"] {
        assert!(!page(path).await.contains("tenant signin"), "{path}");
    }
    let tenant = as_first_start(&world).await;
    for path in ["/", "/signin", "/signin?error=link_expired"] {
        let page = page(path).await;
        assert!(page.contains(COMMAND) && page.contains(SECOND), "{path}: {page}");
        assert!(
            page.contains("Copy<span class=\"unseen\"> the command</span>") && page.contains("<script nonce="),
            "{path}"
        );
        let form = page.find("name=\"email\"").or(page.find("href=\"/signin\"")).expect("a way to sign in");
        assert!(page.find(COMMAND).expect("the command") < form, "{path}: {page}");
    }
    let refused = world.nobody.browse(Method::POST, "/signin").form(&[("email", "x")]).send().await;
    assert!(refused.status == 400 && refused.text().contains(COMMAND), "{}", refused.text());
    let session = world.session_of(&world.b).await;
    let home = world.nobody.browse(Method::GET, "/").session(&session).send().await.text();
    assert!(!home.contains(COMMAND), "{home}");
    let token = link_to(&world, &tenant).await;
    assert_eq!(enter(&world.nobody, &token, "ana@example.com").await.status, 303);
    for path in ["/", "/signin"] {
        assert!(!page(path).await.contains("tenant signin"), "{path}: it has an owner");
    }

    let closed = spawn_with(|config| config.signup_open = false).await;
    as_first_start(&closed).await;
    let page = closed.nobody.browse(Method::GET, "/signin").send().await.text();
    assert!(page.contains(COMMAND) && !page.contains(SECOND), "{page}");
    let public = spawn_with(|config| {
        config.public_url = Some("https://links.example.com".parse().expect("a URL"));
        config.mail = Some(MailTransport::Directory(config.data_dir.join("mail")));
    })
    .await;
    as_first_start(&public).await;
    for path in ["/", "/signin"] {
        let page = public.nobody.browse(Method::GET, path).header("host", "links.example.com").send().await.text();
        assert!(!page.contains("tenant signin"), "strangers need not know: {page}");
    }
}

/// A person who was invited to the account of a first start, or is in its team already, becomes its owner too.
#[tokio::test]
async fn an_invited_person_and_a_member_can_become_the_owner() {
    for is_member in [false, true] {
        let world = spawn().await;
        let tenant = as_first_start(&world).await;
        if is_member {
            world.join(&world.a, "ana@example.com").await;
        } else {
            world.invite(&world.a, "ana@example.com").await;
        }
        let token = link_to(&world, &tenant).await;
        let entered = enter(&world.nobody, &token, "ana@example.com").await;
        assert_eq!(who(&world, &entered).await, (tenant.clone(), "ana@example.com".into(), true));
        assert_eq!(people(&world, &tenant).await, ["ana@example.com"]);
    }
}

/// In an account with people, an address of theirs signs that person in, an invited or a new one joins, and one of
/// another account is refused, with what was entered, and without using the link up.
#[tokio::test]
async fn a_link_signs_people_in_and_adds_new_ones() {
    let world = spawn().await;
    let tenant = world.a.tenant.to_string();
    world.invite(&world.a, "invited@example.com").await;
    let token = link_to(&world, &tenant).await;
    let page = world.nobody.get(&format!("/signin/once?token={token}")).await;
    assert!(page.text().contains("value=\"a@example.com\"") && page.text().contains("join the team"));
    for (email, says) in [
        (
            "b@example.com",
            "This address already has its own account on this service; enter another address, or delete that account first.",
        ),
        (PLACEHOLDER, "This is not a valid email address."),
        ("nobody", "This is not a valid email address."),
        ("", "This is not a valid email address."),
    ] {
        let refused = enter(&world.nobody, &token, email).await;
        assert!(matches!(refused.status, 400 | 409) && refused.session().is_none(), "{email}: {}", refused.status);
        assert!(refused.text().contains(says), "{email}: {}", refused.text());
        assert!(refused.text().contains(&format!("value=\"{email}\"")), "{email}: {}", refused.text());
    }
    let entered = enter(&world.nobody, &token, "a@example.com").await;
    assert_eq!(who(&world, &entered).await, (tenant.clone(), "a@example.com".into(), true));
    for email in ["invited@example.com", "new@example.com"] {
        let token = link_to(&world, &tenant).await;
        let entered = enter(&world.nobody, &token, email).await;
        assert_eq!(who(&world, &entered).await, (tenant.clone(), email.into(), false));
        world.clock.advance(Duration::from_millis(1));
    }
    assert_eq!(people(&world, &tenant).await, ["a@example.com", "invited@example.com", "new@example.com"]);
    let log = world.a.get("/v1/audit").await.json();
    let joined: Vec<_> =
        log["entries"].as_array().expect("entries").iter().filter(|of| of["action"] == "user.joined").collect();
    let joined: Vec<_> = joined.iter().map(|of| of["actor"].as_str()).collect();
    assert_eq!(joined, [Some("new@example.com"), Some("invited@example.com")]);
}

/// S18: where people prove their addresses, a link takes only addresses that are confirmed in the account: any other
/// would lead its real owner's next sign-in to this account. The account of a first start is an exception: it has none.
#[tokio::test]
async fn s18_a_public_service_takes_no_unproved_addresses() {
    let world = spawn_with(|config| {
        config.public_url = Some("https://links.example.com".parse().expect("a URL"));
        config.mail = Some(MailTransport::Directory(config.data_dir.join("mail")));
    })
    .await;
    let tenant = world.a.tenant.to_string();
    let token = link_to(&world, &tenant).await;
    const HOST: &str = "links.example.com";
    let page =
        world.nobody.browse(Method::GET, &format!("/signin/once?token={token}")).header("host", HOST).send().await;
    assert!(page.status == 200 && !page.text().contains("join the team"), "{}", page.text());
    assert_eq!(world.a.post("/v1/auth/users", &json!({"email": "v@example.org"})).await.status, 201, "it is invited");
    let refused = entering(&world.nobody, &token, "v@example.org").header("host", HOST).send().await;
    assert!(
        refused.status == 403 && refused.text().contains("No one in this account has confirmed this address"),
        "{}",
        refused.text()
    );
    assert_eq!(people(&world, &tenant).await, ["a@example.com", "v@example.org"]);
    let entered = entering(&world.nobody, &token, "a@example.com").header("host", HOST).send().await;
    assert_eq!((entered.status, entered.header("location")), (303, "/account"));
    as_first_start(&world).await;
    let token = link_to(&world, &tenant).await;
    let entered = entering(&world.nobody, &token, "ana@example.org").header("host", HOST).send().await;
    assert_eq!((entered.status, entered.header("location")), (303, "/account"), "{}", entered.text());
    assert_eq!(people(&world, &tenant).await, ["ana@example.org", "v@example.org"]);
}

/// A new member counts against the plan's limit of people; the link still works for those who are in the team.
#[tokio::test]
async fn a_plans_limit_of_people_holds() {
    let world = spawn_with(|config| config.enforce_quotas = true).await;
    let tenant = world.a.tenant.to_string();
    let limit = deeplink_core::plan::Tier::Free.limits().max_team_members.expect("a limit");
    let known = i64::try_from(people(&world, &tenant).await.len()).expect("a few");
    for number in known..limit {
        world.invite(&world.a, &format!("p{number}@example.com")).await;
    }
    let token = link_to(&world, &tenant).await;
    let refused = enter(&world.nobody, &token, "new@example.com").await;
    assert!(refused.status == 402 && refused.session().is_none(), "{} {}", refused.status, refused.text());
    let entered = enter(&world.nobody, &token, "a@example.com").await;
    assert_eq!(who(&world, &entered).await.0, tenant);
}

/// R11: while nobody has proved an address of the account, anyone may have made what is in it: keys, webhooks and
/// sources end when the operator lets a person in, and links stay.
#[tokio::test]
async fn r11_what_was_made_before_anyone_proved_an_address_ends() {
    let world = spawn_nodes(2).await;
    let (attacker, confirmation) = sign_up(&world, "v@example.org").await;
    attacker.make("stays").await;
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["click"]});
    assert_eq!(attacker.post("/v1/webhooks", &webhook).await.status, 201);
    let tenant = world.db.texts("SELECT tenant_id FROM users WHERE email = 'v@example.org'").await.remove(0);
    let token = link_to(&world, &tenant).await;
    let page = world.nobody.get(&format!("/signin/once?token={token}")).await;
    assert!(page.text().contains("webhooks and sources stop working") && !page.text().contains("v@example.org"));
    let entered = enter(&world.nobody, &token, "v@example.org").await;
    assert_eq!(who(&world, &entered).await, (tenant.clone(), "v@example.org".into(), true));
    for node in 0..2 {
        let attacker = world.at(node, &attacker);
        deeplink_testing::eventually("the key ends", Duration::from_secs(5), || async {
            attacker.get("/v1/links").await.outcome() == "401 invalid_key"
        })
        .await;
    }
    let count = async |table: &str| {
        world.db.number(format!("SELECT CAST(COUNT(*) AS BIGINT) FROM {table} WHERE tenant_id = '{tenant}'")).await
    };
    assert_eq!((count("webhooks").await, count("secret_keys").await, count("links").await), (0, 0, 1));
    let revoked = "SELECT actor_type || ': ' || detail FROM audit_log WHERE action = 'access.revoked'";
    assert_eq!(world.db.texts(revoked).await, ["service: keys: 1, webhooks: 1"]);
    assert!(crate::confirmations::confirms_nothing(&world.nobody.confirm(&confirmation).await), "its link has ended");
}

/// The account of a wallet has no people; the person that the operator lets in becomes its owner, and nothing ends.
#[tokio::test]
async fn an_account_without_people_gets_an_owner() {
    let world = spawn().await;
    let tenant = world.a.tenant.to_string();
    world.db.execute(format!("UPDATE secret_keys SET created_by = NULL WHERE tenant_id = '{tenant}'")).await;
    world.db.execute(format!("DELETE FROM users WHERE tenant_id = '{tenant}'")).await;
    let token = link_to(&world, &tenant).await;
    let entered = enter(&world.nobody, &token, "ana@example.com").await;
    assert_eq!(who(&world, &entered).await, (tenant, "ana@example.com".into(), true));
    assert_eq!(world.a.get("/v1/links").await.status, 200);
}

/// S3: opening a link changes nothing, however often scanners do. S4: then one of fifty requests with it is signed in,
/// whichever addresses they name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_s4_a_link_is_used_once_and_only_by_its_form() {
    let world = spawn_nodes(2).await;
    let tenant = as_first_start(&world).await;
    let token = link_to(&world, &tenant).await;
    world.at_rest().await;
    let before = world.db.dump().await;
    for _ in 0..25 {
        for method in [Method::GET, Method::HEAD] {
            let page = world.nobody.ask(method, &format!("/signin/once?token={token}")).send().await;
            assert_eq!((page.status, page.session()), (200, None));
        }
    }
    assert!(world.db.dump().await == before);
    let nodes = [0, 1].map(|node| world.at(node, &world.nobody));
    let replies = at_once(50, |number| {
        let (caller, token) = (nodes[number % 2].clone(), token.clone());
        async move { enter(&caller, &token, &format!("p{}@example.com", number % 5)).await }
    })
    .await;
    let entered: Vec<_> = replies.iter().filter(|reply| reply.session().is_some()).collect();
    let refused = replies.iter().filter(|reply| is_invalid(reply)).count();
    assert_eq!((entered.len(), refused), (1, 49));
    assert_eq!(who(&world, entered[0]).await.0, tenant);
    assert_eq!(people(&world, &tenant).await.len(), 1);
}

/// Of two people who are let in to different accounts with one address concurrently, one gets in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_uses_at_once_put_an_address_into_one_account() {
    let world = spawn_nodes(2).await;
    for round in 0..5 {
        let email = format!("p{round}@example.com");
        let tokens = [link_to(&world, world.a.tenant.as_str()).await, link_to(&world, world.b.tenant.as_str()).await];
        let replies = at_once(2, |number| {
            let (caller, token, email) = (world.at(number, &world.nobody), tokens[number].clone(), email.clone());
            async move { enter(&caller, &token, &email).await }
        })
        .await;
        let statuses: Vec<_> = replies.iter().map(|reply| reply.status).collect();
        assert!(statuses == [303, 409] || statuses == [409, 303], "{statuses:?}");
        let verified = format!("SELECT CAST(COUNT(*) AS BIGINT) FROM users WHERE email = '{email}'");
        assert_eq!(world.db.number(verified).await, 1);
    }
}

/// S5: the token works on its own page only, and no other token works there. S6: it works for a day.
#[tokio::test]
async fn s5_s6_a_link_has_one_purpose_and_a_day() {
    let world = spawn().await;
    let tenant = world.a.tenant.to_string();
    let token = link_to(&world, &tenant).await;
    let magic = world.magic_link("new@example.com").await;
    for other in [&*magic, "", "x", &"0".repeat(64), &"A".repeat(64)] {
        assert!(is_invalid(&enter(&world.nobody, other, "a@example.com").await), "{other}");
        assert!(is_invalid(&world.nobody.get(&format!("/signin/once?token={other}")).await), "{other}");
    }
    assert_eq!(world.nobody.use_link(&token).await.header("location"), "/signin?error=link_expired");
    assert!(world.nobody.accept(&token).await.header("location").ends_with("error=invite_invalid"));
    assert_eq!(world.nobody.me(&token).await.outcome(), "401 unauthorized");
    assert!(world.nobody.get(INVALID).await.text().contains("more than 24 hours old"));
    let late = link_to(&world, &tenant).await;
    world.clock.advance(Duration::from_secs(86_399));
    assert_eq!(who(&world, &enter(&world.nobody, &token, "a@example.com").await).await.0, tenant);
    world.clock.advance(Duration::from_secs(1));
    assert!(is_invalid(&enter(&world.nobody, &late, "a@example.com").await));
    assert!(is_invalid(&world.nobody.get(&format!("/signin/once?token={late}")).await));
}

/// S7: signing in ends the session that the browser had. S8: a form of another site does nothing. S2: attempts are
/// limited by address. S11 and the host: as on the other sign-in pages.
#[tokio::test]
async fn the_page_is_as_private_as_the_others() {
    let world = spawn().await;
    let token = link_to(&world, world.a.tenant.as_str()).await;
    let path = format!("/signin/once?token={token}");
    let page = world.nobody.get(&path).await;
    let told = ["cache-control", "referrer-policy", "x-robots-tag"].map(|name| page.header(name));
    assert_eq!(told, ["no-store", "same-origin", "noindex"]);
    assert!(page.text().contains(&format!("<input type=\"hidden\" name=\"token\" value=\"{token}\">")));
    assert_eq!(page.text().matches(token.as_str()).count(), 1);
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://other.example"), ("origin", "null")] {
        let refused = entering(&world.nobody, &token, "a@example.com").header(name, value).send().await;
        assert_eq!((refused.status, refused.header("location")), (303, "/signin?error=invalid_request"));
    }
    for method in [Method::GET, Method::POST] {
        let elsewhere = world.nobody.ask(method, &path).header("host", "unknown.example").send().await;
        assert_eq!((elsewhere.status, elsewhere.header("location")), (404, ""));
    }
    let before = world.session_of(&world.b).await;
    let entered = entering(&world.nobody, &token, "a@example.com").session(&before).send().await;
    assert_eq!(who(&world, &entered).await.0, world.a.tenant.as_str());
    assert_eq!(world.nobody.me(&before).await.outcome(), "401 unauthorized");
}

/// Attempts count as sign-ins of the client's address; and without sessions there is nothing to sign in to.
#[tokio::test]
async fn s2_attempts_are_limited_and_can_be_switched_off() {
    let world = spawn_with(|config| config.limits.signins_per_minute = 3).await;
    let token = link_to(&world, world.a.tenant.as_str()).await;
    for _ in 0..3 {
        assert_eq!(enter(&world.nobody, &token, "nobody").await.status, 400);
    }
    let limited = enter(&world.nobody, &token, "a@example.com").await;
    assert!(limited.status == 429 && !limited.header("retry-after").is_empty(), "{}", limited.status);
    let world = spawn_with(|config| config.sessions = false).await;
    let token = link_to(&world, world.a.tenant.as_str()).await;
    assert_eq!(enter(&world.nobody, &token, "a@example.com").await.status, 503);
}

/// While an account is suspended its people can sign in, and nobody joins; then the link still works.
#[tokio::test]
async fn a_suspended_account_takes_no_new_people() {
    let world = spawn().await;
    let tenant = world.a.tenant.to_string();
    suspend(&world, &tenant).await;
    let (one, two) = (link_to(&world, &tenant).await, link_to(&world, &tenant).await);
    let refused = enter(&world.nobody, &one, "new@example.com").await;
    assert!(refused.status == 403 && refused.session().is_none(), "{} {}", refused.status, refused.text());
    assert_eq!(who(&world, &enter(&world.nobody, &two, "a@example.com").await).await.0, tenant);
    resume(&world, &tenant).await;
    assert_eq!(who(&world, &enter(&world.nobody, &one, "new@example.com").await).await.0, tenant);
}
