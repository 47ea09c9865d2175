//! Requesting a magic link, and the page and form behind it.

use std::time::{Duration, Instant};

use deeplink_server::config::MailTransport;
use http::Method;
use serde_json::json;

use deeplink_testing::{Ask, World, spawn, spawn_with};

const CALLBACK: &str = "/v1/auth/callback";

async fn sent(world: &World) -> i64 {
    world.db.number("SELECT CAST(count(*) AS BIGINT) FROM sign_ins").await
}

/// The base URL of a public service.
fn elsewhere() -> url::Url {
    "https://links.example.com".parse().expect("a URL")
}

/// A service without sessions, and a public one that cannot send mail.
pub(crate) async fn without_mail() -> [World; 2] {
    let without = spawn_with(|config| config.sessions = false).await;
    [without, spawn_with(|config| config.public_url = Some(elsewhere())).await]
}

/// S1: a sign-in never reveals whether an address has an account, nor whether it is at its mail limit for the hour: the
/// same bytes in the same time. The mail is sent after the reply.
#[tokio::test]
async fn s1_known_and_unknown_addresses_are_answered_alike() {
    const ASKED: usize = 500;
    let world = spawn().await;
    let (tenant, at) = (&world.a.tenant, world.clock.now().as_millis());
    let user = |number| format!("('usr_{number:024x}', '{tenant}', 'known-{number}@example.com', TRUE, FALSE, {at})");
    let users: Vec<_> = (0..ASKED).map(user).collect();
    let columns = "id, tenant_id, email, verified, is_owner, created_at";
    world.db.execute(format!("INSERT INTO users ({columns}) VALUES {}", users.join(", "))).await;
    let ask = async |email: String| {
        let began = Instant::now();
        let reply = world.nobody.post("/v1/auth/signin", &json!({"email": email})).await;
        (began.elapsed(), reply)
    };
    let known = ask("a@example.com".into()).await.1;
    assert_eq!((known.status, known.text().as_str()), (200, r#"{"status":"sent"}"#));
    let is_alike = |gap: Option<&(Duration, Duration)>| gap.is_some_and(|(gap, limit)| gap < limit);
    let mut gaps = Vec::new();
    for run in 0..5 {
        let mut times = [const { Vec::new() }; 3];
        for number in 0..ASKED {
            let each = [
                format!("known-{number}@example.com"),
                format!("unknown-{run}-{number}@example.com"),
                "a@example.com".to_owned(),
            ];
            for (times, email) in times.iter_mut().zip(each) {
                let (time, reply) = ask(email).await;
                assert_eq!(reply.without_request_id(), known.without_request_id());
                times.push(time);
            }
        }
        for times in &mut times {
            times.sort();
        }
        let medians = times.each_ref().map(|times| times[ASKED / 2]);
        let [least, most] = [medians.iter().min(), medians.iter().max()].map(|median| *median.expect("three"));
        // A busy machine scatters the times, and the medians of this many samples differ by a fraction of that by
        // chance.
        let middle =
            times.iter().map(|times| times[ASKED * 3 / 4].saturating_sub(times[ASKED / 4])).max().expect("three");
        gaps.push((most.saturating_sub(least), Duration::from_millis(2) + middle / 4));
        if is_alike(gaps.last()) {
            break;
        }
    }
    assert!(is_alike(gaps.last()), "differences of medians and their limits: {gaps:?}");
    // Five to the address that was used often, though it was used more than five hundred times.
    let often = "SELECT CAST(count(*) AS BIGINT) FROM sign_ins WHERE email = 'a@example.com'";
    assert_eq!(world.db.number(often).await, 5);
}

/// S2: ten sign-ins a minute from one address; a refusal comes before the body is read.
#[tokio::test]
async fn s2_one_client_may_begin_ten_a_minute() {
    let world = spawn_with(|config| config.limits.signins_per_minute = 10).await;
    for number in 0..10 {
        let body = json!({"email": format!("n{number}@example.com")});
        assert_eq!(world.nobody.post("/v1/auth/signin", &body).await.status, 200);
    }
    for ask in [Ask::json as fn(Ask, &_) -> Ask, |ask, _| ask.body_as("text/plain", "x".repeat(70_000))] {
        let reply =
            ask(world.nobody.ask(Method::POST, "/v1/auth/signin"), &json!({"email": "n@example.com"})).send().await;
        assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("429 rate_limited", "6"));
    }
    assert_eq!(sent(&world).await, 10);
    world.clock.advance(Duration::from_secs(6));
    let body = json!({"email": "later@example.com"});
    assert_eq!(world.nobody.post("/v1/auth/signin", &body).await.status, 200);
    assert_eq!(world.nobody.post("/v1/auth/signin", &body).await.status, 429);
}

/// S2: an address gets five links in an hour, from all requesters; the rest are silently not sent.
#[tokio::test]
async fn s2_one_address_gets_five_mails_an_hour() {
    let world = spawn_with(|config| {
        config.limits.signins_per_minute = 1;
        config.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
    })
    .await;
    let twenty = async |hour: usize| {
        for number in 0..20 {
            let ask = world.nobody.ask(Method::POST, "/v1/auth/signin");
            let ask = ask.header("x-forwarded-for", format!("198.51.100.{}", 20 * hour + number));
            // Another spelling is the same address.
            let email = if number % 2 == 0 { "new@example.com" } else { " New@Example.COM " };
            assert_eq!(ask.json(&json!({"email": email})).send().await.status, 200);
        }
    };
    twenty(1).await;
    assert_eq!(sent(&world).await, 5);
    assert_eq!(world.mails(5).await.len(), 5);
    world.clock.advance(Duration::from_secs(3_599));
    twenty(2).await;
    assert_eq!(sent(&world).await, 5, "the hour is not over");
    world.clock.advance(Duration::from_secs(1));
    twenty(3).await;
    assert_eq!(sent(&world).await, 10);
    assert_eq!(world.mails(10).await.len(), 10);
}

/// Headers as a browser sends them with a form of another site, and of this one.
fn origins(own: &str) -> Vec<(Vec<(&'static str, String)>, bool)> {
    let origin = |text: &str| ("origin", text.to_owned());
    let site = |text: &str| ("sec-fetch-site", text.to_owned());
    vec![
        (vec![site("cross-site")], false),
        (vec![site("same-site")], false),
        (vec![site("cross-site"), origin(own)], false),
        (vec![site("same-origin"), origin("https://other.example")], false),
        (vec![origin("https://other.example")], false),
        (vec![origin("null")], false),
        (vec![origin("")], false),
        (vec![origin(&format!("{own}.other.example"))], false),
        (vec![origin(&own.replace("127.0.0.1", "127.0.0.1.other.example"))], false),
        (vec![origin(own), origin("https://other.example")], false),
        (vec![], true),
        (vec![site("none")], true),
        (vec![site("same-origin"), origin(own)], true),
        (vec![origin(own)], true),
    ]
}

/// S8: a cross-site form or session request has no effect: forms redirect to the sign-in page, JSON is 403. A request
/// without an origin is not from a browser.
#[tokio::test]
async fn s8_other_sites_cannot_make_anybody_sign_in_or_out() {
    let world = spawn().await;
    let (link, invite) =
        (world.magic_link("new@example.com").await, world.invite(&world.a, "friend@example.com").await);
    let session = world.sign_in("a@example.com").await;
    let with =
        |ask: Ask, headers: &[(&str, String)]| headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
    let cases = origins(world.nobody.base());
    world.at_rest().await;
    let before = world.db.dump().await;
    for (headers, _) in cases.iter().filter(|(_, own)| !own) {
        for (path, token) in [(CALLBACK, &link), ("/v1/auth/verify", &invite)] {
            let ask = world.nobody.ask(Method::POST, path).form(&[("token", token)]).session(&session);
            let reply = with(ask, headers).send().await;
            let outcome = (reply.status, reply.header("location"), reply.header("set-cookie"));
            assert_eq!(outcome, (303, "/signin?error=invalid_request", ""), "{path} {headers:?}");
        }
        let signout = with(world.nobody.ask(Method::POST, "/v1/auth/signout").session(&session), headers).send().await;
        assert_eq!(
            (signout.outcome().as_str(), signout.header("set-cookie")),
            ("403 csrf_rejected", ""),
            "{headers:?}"
        );
    }
    assert_eq!(world.db.dump().await, before, "nothing is consumed");
    assert_eq!(world.nobody.me(&session).await.status, 200);
    // A form that is sent as text is not a form.
    let trick = world.nobody.ask(Method::POST, CALLBACK).body_as("text/plain", format!("token={link}"));
    assert_eq!(trick.send().await.outcome(), "415 unsupported_media_type");
    for (number, (headers, _)) in cases.iter().filter(|(_, own)| *own).enumerate() {
        let email = format!("n{number}@example.com");
        let link = world.magic_link(&email).await;
        let reply = with(world.nobody.ask(Method::POST, CALLBACK).form(&[("token", &link)]), headers).send().await;
        let session = reply.session().expect("a session");
        let invite = world.invite(&world.a, &format!("friend-{email}")).await;
        let ask = world.nobody.ask(Method::POST, "/v1/auth/verify").form(&[("token", &invite)]);
        assert!(with(ask, headers).send().await.header("location").ends_with("?invite=accepted"));
        let signout = with(world.nobody.ask(Method::POST, "/v1/auth/signout").session(&session), headers);
        assert_eq!(signout.send().await.status, 204, "{headers:?}");
    }
}

/// S10: the redirect after a sign-in stays on the origin, whether `next` came with the mail request, the link or the
/// form. The one stored with the mail comes first.
#[tokio::test]
async fn s10_a_sign_in_leads_nowhere_else() {
    let world = spawn().await;
    for (number, hostile) in [
        "//e.example",
        "/\\e.example",
        "\\\\e.example",
        "/%09/e.example",
        "/%0d%0aX: y",
        "https:e.example",
        "https://e.example/",
        "/..//e.example",
        "/.//e.example",
        "@e.example",
        "/\u{ff0f}e.example",
        "javascript:alert(1)",
    ]
    .into_iter()
    .enumerate()
    {
        let (stored, typed) = (format!("stored-{number}@example.com"), format!("typed-{number}@example.com"));
        let token = world
            .mailed_token(&stored, world.nobody.post("/v1/auth/signin", &json!({"email": stored, "next": hostile})))
            .await;
        assert_eq!(world.nobody.use_link(&token).await.header("location"), "/account", "{hostile}");
        let token = world.magic_link(&typed).await;
        let form = world.nobody.ask(Method::POST, CALLBACK).form(&[("token", &token), ("next", hostile)]);
        assert_eq!(form.send().await.header("location"), "/account", "{hostile}");
    }
    for (number, (stored, typed, leads_to)) in [
        (Some("/account/links?x=//ok"), None, "/account/links?x=//ok"),
        (Some("/account/links"), Some("/account/keys"), "/account/links"),
        (None, Some("/account/keys"), "/account/keys"),
        (None, Some(""), "/account"),
        (None, None, "/account"),
    ]
    .into_iter()
    .enumerate()
    {
        let email = format!("n{number}@example.com");
        let mut body = json!({"email": email});
        if let Some(stored) = stored {
            body["next"] = stored.into();
        }
        let token = world.mailed_token(&email, world.nobody.post("/v1/auth/signin", &body)).await;
        let fields: Vec<_> = [("token", &*token)].into_iter().chain(typed.map(|typed| ("next", typed))).collect();
        let reply = world.nobody.ask(Method::POST, CALLBACK).form(&fields).send().await;
        assert_eq!(reply.header("location"), leads_to, "{stored:?} {typed:?}");
    }
}

/// S11: the pages behind mailed links fetch nothing, send no referrer, and contain the token only in their form,
/// escaped. They are on the service's own host only.
#[tokio::test]
async fn s11_token_pages_keep_the_token_to_themselves() {
    let world =
        spawn_with(|config| config.marketing_url = Some("https://www.example.com".parse().expect("a URL"))).await;
    world.own_domain(&world.a, "go.example.com", deeplink_testing::Role::Primary).await;
    let link = world.magic_link("new@example.com").await;
    let invite = world.invite(&world.a, "friend@example.com").await;
    for (path, token) in [(CALLBACK, &link), ("/v1/auth/verify", &invite)] {
        let hostile = world.nobody.get(&format!("{path}?token=%22%3E%3Csvg%20onload%3D1%3E")).await;
        assert!(hostile.status == 303 && !hostile.header("location").contains("svg"), "{}", hostile.header("location"));
        let page = world.nobody.get(&format!("{path}?token={token}&next=%2F%22%3E%3Cb%3E")).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
        // The namespace of pictures in the style is no address.
        let text = page.text().replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("<b>") && text.matches(token.as_str()).count() == 1, "{text}");
        assert_eq!(text.contains("name=\"next\" value=\"/%22%3E%3Cb%3E\""), path == CALLBACK, "{text}");
        assert!(!text.contains("http") && !text.contains("<script"), "{text}");
        let told = ["cache-control", "referrer-policy", "x-robots-tag"].map(|name| page.header(name));
        assert_eq!(told, ["no-store", "same-origin", "noindex"]);
        let policy = page.header("content-security-policy");
        for part in ["default-src 'none'", "form-action 'self' https://www.example.com;", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{policy}");
        }
        for (query, expected) in [("", "400 bad_request token"), ("?token=a&token=b", "400 bad_request token")] {
            assert_eq!(world.nobody.get(&format!("{path}{query}")).await.outcome(), expected);
        }
        for host in ["go.example.com", "unknown.example"] {
            let elsewhere = world.nobody.ask(Method::GET, &format!("{path}?token=t")).header("host", host);
            assert_eq!(elsewhere.header("accept", "application/json").send().await.status, 404, "{host}");
        }
    }
}

#[tokio::test]
async fn bodies_are_judged_and_mail_must_be_set_up() {
    let world = spawn().await;
    for (body, expected) in [
        (json!({}), "400 bad_request email"),
        (json!({"email": 1}), "400 bad_request email"),
        (json!({"email": "a@b"}), "400 invalid_email email"),
        (json!({"email": "a@example.com\r\nBcc: b@example.com"}), "400 invalid_email email"),
        (json!({"email": "a@example.com", "next": 1}), "400 bad_request next"),
        (json!({"email": "a@example.com", "next": null}), "200"),
    ] {
        assert_eq!(world.nobody.post("/v1/auth/signin", &body).await.outcome(), expected, "{body}");
    }
    let body = json!({"email": "a@example.com"});
    for silent in without_mail().await {
        for (caller, path) in [(&silent.nobody, "/v1/auth/signin"), (&silent.a, "/v1/auth/users")] {
            let reply = caller.post(path, &body).await;
            assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("503 sessions_not_configured", ""));
        }
    }
    let told = spawn_with(|config| {
        config.public_url = Some(elsewhere());
        config.mail = Some(MailTransport::Directory(config.data_dir.join("mail")));
    })
    .await;
    let link = told.magic_link("a@example.com").await;
    assert!(
        told.mails_to("a@example.com")[0].contains(&format!("https://links.example.com{CALLBACK}?token={link}\r\n"))
    );
}
