//! Signing in with an identity provider: the redirects, and everything that can go wrong on the way.

use std::time::Duration;

use deeplink_server::config::{Config, OauthProvider};
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::provider::{ACCESS_TOKEN, CLIENT_ID, CLIENT_SECRET, Fault, Provider};
use deeplink_testing::{Reply, World, at_once, spawn_with};

/// A world with both providers, which are one double.
struct Scene {
    world: World,
    provider: Provider,
}

fn user(email: &str) -> Value {
    json!({"sub": "1", "email": email, "email_verified": true})
}

fn emails(email: &str) -> Value {
    json!([{"email": "old@example.com", "primary": false, "verified": true}, {"email": email, "primary": true, "verified": true}])
}

async fn scene_with(says: Value, adjust: impl Fn(&mut Config)) -> Scene {
    let provider = Provider::start(says).await;
    let world = spawn_with(|config| {
        let ours = || Some(OauthProvider::new(CLIENT_ID, CLIENT_SECRET, provider.base()));
        (config.oauth.google, config.oauth.github) = (ours(), ours());
        adjust(config);
    })
    .await;
    world.note_secret(CLIENT_SECRET);
    world.note_secret(ACCESS_TOKEN);
    Scene { world, provider }
}

async fn scene(says: Value) -> Scene {
    scene_with(says, |_| {}).await
}

/// The provider's redirect back, and the browser's cookie.
#[derive(Clone)]
struct Back {
    code: String,
    state: String,
    cookie: String,
}

impl Scene {
    /// Starts a sign-in, and consents at the provider.
    async fn consented(&self, name: &str, next: &str) -> Back {
        let started = self.start(name, next).await;
        assert_eq!(started.status, 302, "{}", started.text());
        let cookie = started.header("set-cookie").split(';').next().expect("a cookie").to_owned();
        let callback = format!("{}/v1/auth/oauth/{name}/callback", self.world.a.base());
        let scope = if name == "google" { "openid email" } else { "user:email" };
        let (code, state) = self.provider.consent(started.header("location"), &callback, scope);
        for secret in [&code, &state, cookie.split('=').nth(1).expect("a value")] {
            self.world.note_secret(secret);
        }
        Back { code, state, cookie }
    }

    async fn start(&self, name: &str, next: &str) -> Reply {
        self.world.nobody.get(&format!("/v1/auth/oauth/{name}/start{next}")).await
    }

    /// Comes back as the browser does.
    async fn back(&self, name: &str, query: &str, cookie: &str) -> Reply {
        let ask = self.world.nobody.ask(Method::GET, &format!("/v1/auth/oauth/{name}/callback?{query}"));
        if cookie.is_empty() { ask.send().await } else { ask.header("cookie", cookie).send().await }
    }

    async fn returned(&self, name: &str, back: &Back) -> Reply {
        self.back(name, &format!("code={}&state={}", back.code, back.state), &back.cookie).await
    }

    /// A whole sign-in that fails at the end; returns the error word.
    async fn fails(&self, name: &str) -> String {
        let back = self.consented(name, "").await;
        refused(&self.returned(name, &back).await)
    }

    async fn sessions(&self) -> i64 {
        self.world.db.number("SELECT CAST(count(*) AS BIGINT) FROM sessions").await
    }
}

/// The error word of a refusal: a redirect to the sign-in page without a session.
fn refused(reply: &Reply) -> String {
    assert_eq!(reply.status, 303, "{}", reply.text());
    assert!(session_of(reply).is_none(), "no session was started");
    let word = reply.header("location").strip_prefix("/signin?error=").expect("the sign-in page");
    word.to_owned()
}

/// The session that an answer starts.
fn session_of(reply: &Reply) -> Option<String> {
    let cookies = reply.headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
    let mut sessions = cookies.filter_map(|cookie| cookie.strip_prefix("session_token="));
    let session = sessions.next()?.split(';').next()?.to_owned();
    (session.len() == 64).then_some(session)
}

async fn me(world: &World, session: &str) -> Reply {
    world.note_secret(session);
    let ask = world.nobody.ask(Method::GET, "/v1/auth/me").header("cookie", format!("session_token={session}"));
    ask.send().await
}

#[tokio::test]
async fn a_new_person_signs_in_with_each_provider() {
    for (name, says) in [("google", user("New@Example.com")), ("github", emails("new@example.com"))] {
        let scene = scene(says).await;
        let back = scene.consented(name, "?next=/account/links").await;
        let reply = scene.returned(name, &back).await;
        assert_eq!((reply.status, reply.header("location")), (303, "/account/links"), "{name}: {}", reply.text());
        let session = session_of(&reply).expect("a session");
        let first = me(&scene.world, &session).await.json();
        assert_eq!(
            (&first["user"]["email"], &first["user"]["verified"], &first["user"]["is_owner"]),
            (&json!("new@example.com"), &json!(true), &json!(true)),
            "{name}"
        );
        // The same person gets into the same account again, with a new session.
        let back = scene.consented(name, "").await;
        let reply = scene.returned(name, &back).await;
        assert_eq!(reply.header("location"), "/account");
        let again = me(&scene.world, &session_of(&reply).expect("a session")).await.json();
        assert_eq!(again["tenant"], first["tenant"]);
        assert_eq!(me(&scene.world, &session).await.status, 200);
        assert_eq!(scene.provider.exchanges(), [200, 200]);
    }
}

#[tokio::test]
async fn somebody_known_comes_into_their_account() {
    let scene = scene(user("a@example.com")).await;
    let back = scene.consented("google", "").await;
    let session = session_of(&scene.returned("google", &back).await).expect("a session");
    let tenant = me(&scene.world, &session).await.json()["tenant"]["id"].clone();
    assert_eq!(tenant, scene.world.a.tenant.as_str());
}

#[tokio::test]
async fn the_way_there_is_bound_to_the_browser_and_stays_short() {
    let scene = scene(user("new@example.com")).await;
    let started = scene.start("google", "?next=https://example.com/").await;
    let cookie = started.header("set-cookie").to_owned();
    let (name, rest) = cookie.split_once('=').expect("a cookie");
    let (value, attributes) = rest.split_once(';').expect("attributes");
    assert!(name.starts_with("oauth_") && value.len() == 64, "{name}");
    assert_eq!(attributes, " Path=/v1/auth/oauth; HttpOnly; SameSite=Lax; Max-Age=600");
    assert_eq!(started.header("cache-control"), "no-store");
    assert_eq!(scene.world.db.texts("SELECT next FROM oauth_states").await, ["/account"], "it never leaves the site");
    let stored = scene.world.db.dump().await["oauth_states"].join("\n");
    assert!(!stored.contains(value), "{stored}");
    for (path, outcome) in [
        ("/v1/auth/oauth/nobody/start", "404 unknown_provider"),
        ("/v1/auth/oauth/Google/start", "404 unknown_provider"),
        ("/v1/auth/oauth/nobody/callback", "404 unknown_provider"),
        ("/v1/auth/oauth/google/start?next=/a&next=/b", "400 bad_request next"),
        ("/v1/auth/oauth/google/callback?state=a&state=b", "400 bad_request state"),
        ("/v1/auth/oauth/google/callback?code=a&code=b", "400 bad_request code"),
    ] {
        assert_eq!(scene.world.nobody.get(path).await.outcome(), outcome, "{path}");
    }
}

#[tokio::test]
async fn a_provider_that_is_not_set_up_says_so() {
    let world = deeplink_testing::spawn().await;
    for name in ["google", "github"] {
        let reply = world.nobody.get(&format!("/v1/auth/oauth/{name}/start")).await;
        assert_eq!((reply.outcome().as_str(), reply.header("retry-after")), ("503 oauth_not_configured", ""));
        let reply = world.nobody.get(&format!("/v1/auth/oauth/{name}/callback?state={}", "0".repeat(64))).await;
        assert_eq!(refused(&reply), "oauth_state_invalid");
    }
    // An old button leads to a page.
    for name in ["google", "nobody"] {
        let reply = world.nobody.browse(Method::GET, &format!("/v1/auth/oauth/{name}/start")).send().await;
        assert_eq!((reply.status, reply.header("location")), (303, "/signin?error=oauth_not_configured"));
    }
    let page = world.nobody.browse(Method::GET, "/signin?error=oauth_not_configured").send().await.text();
    assert!(page.contains("That provider is not available here."), "{page}");
}

/// S18: if sign-up is closed, a provider opens no account either; and if sign-in is off, so are the providers.
#[tokio::test]
async fn s18_closed_is_closed_for_providers_too() {
    let scene = scene_with(user("new@example.com"), |config| config.signup_open = false).await;
    assert_eq!(scene.fails("google").await, "signup_closed");
    scene.provider.says(user("a@example.com"));
    let back = scene.consented("google", "").await;
    assert!(session_of(&scene.returned("google", &back).await).is_some(), "a person with an account can sign in");
    let off = scene_with(user("a@example.com"), |config| config.sessions = false).await;
    assert_eq!(off.start("google", "").await.outcome(), "503 oauth_not_configured");
}

/// A local service has several host names. The provider redirects to one of them, so everything happens there.
#[tokio::test]
async fn a_sign_in_happens_at_the_public_url() {
    let scene = scene(user("new@example.com")).await;
    let ask = scene.world.nobody.ask(Method::GET, "/v1/auth/oauth/google/start?next=/account/keys");
    let sent = ask.header("host", "localhost:1").send().await;
    let there = format!("{}/v1/auth/oauth/google/start?next=%2Faccount%2Fkeys", scene.world.a.base());
    assert_eq!((sent.status, sent.header("location"), sent.header("set-cookie")), (302, there.as_str(), ""));
}

#[tokio::test]
async fn beginning_is_limited_like_any_sign_in() {
    let scene = scene_with(user("new@example.com"), |config| config.limits.signins_per_minute = 2).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(scene.start("google", "").await.status);
    }
    assert_eq!(statuses, [302, 302, 429, 429]);
}

/// S12: a state works once, in the browser that started, for the provider it was made for, and for ten minutes.
#[tokio::test]
async fn s12_a_state_works_once_in_its_browser_for_its_provider() {
    let scene = scene(user("new@example.com")).await;
    let invalid = "oauth_state_invalid";
    // Without a state, with another one, with a malformed one.
    for query in [
        "code=x".to_owned(),
        format!("code=x&state={}", "0".repeat(64)),
        "code=x&state=short".into(),
        "state=".into(),
        String::new(),
        format!("code=x&state={}", "G".repeat(64)),
    ] {
        assert_eq!(refused(&scene.back("google", &query, "").await), invalid, "{query}");
    }
    // In another browser: without the cookie, with another browser's, with two.
    for cookie in ["none", "other", "several"] {
        let back = scene.consented("google", "").await;
        let other = scene.consented("google", "").await;
        let (name, value) = back.cookie.split_once('=').expect("a cookie");
        let cookie = match cookie {
            "none" => String::new(),
            "other" => format!("{name}={}", other.cookie.split('=').nth(1).expect("a value")),
            _ => format!("{name}={value}; {name}={value}"),
        };
        let query = format!("code={}&state={}", back.code, back.state);
        assert_eq!(refused(&scene.back("google", &query, &cookie).await), invalid);
        assert_eq!(refused(&scene.returned("google", &back).await), invalid, "it is used up");
    }
    // At another provider.
    let back = scene.consented("google", "").await;
    assert_eq!(refused(&scene.returned("github", &back).await), invalid);
    // Too late by a millisecond, and just in time.
    let back = scene.consented("google", "").await;
    scene.world.clock.advance(Duration::from_mins(10));
    assert_eq!(refused(&scene.returned("google", &back).await), invalid);
    assert_eq!(
        (scene.sessions().await, scene.provider.exchanges().len()),
        (0, 0),
        "no provider was asked, no session was made"
    );
    let back = scene.consented("google", "").await;
    scene.world.clock.advance(Duration::from_millis(10 * 60_000 - 1));
    assert!(session_of(&scene.returned("google", &back).await).is_some());
    // A second time.
    assert_eq!(refused(&scene.returned("google", &back).await), invalid);
    // Two sign-ins that were started in one browser do not interfere.
    let (first, second) = (scene.consented("google", "").await, scene.consented("github", "").await);
    let both = format!("{}; {}", first.cookie, second.cookie);
    let query = format!("code={}&state={}", first.code, first.state);
    assert!(session_of(&scene.back("google", &query, &both).await).is_some());
    scene.provider.says(emails("new@example.com"));
    let query = format!("code={}&state={}", second.code, second.state);
    assert!(session_of(&scene.back("github", &query, &both).await).is_some());
}

/// S12: of many requests with the same answer of the provider, one is signed in.
#[tokio::test]
async fn s12_one_of_fifty_wins() {
    let scene = scene(user("new@example.com")).await;
    let back = scene.consented("google", "").await;
    let (asked, path) =
        (&scene.world.nobody, format!("/v1/auth/oauth/google/callback?code={}&state={}", back.code, back.state));
    let replies = at_once(50, |_| {
        let ask = asked.ask(Method::GET, &path).header("cookie", &back.cookie);
        async move { ask.send().await }
    })
    .await;
    let signed_in = replies.iter().filter(|reply| session_of(reply).is_some()).count();
    assert_eq!((signed_in, scene.sessions().await, scene.provider.exchanges().len()), (1, 1, 1));
    assert!(
        replies.iter().filter(|reply| session_of(reply).is_none()).all(|reply| refused(reply) == "oauth_state_invalid")
    );
}

/// S12: the PKCE verifier is sent along, so a code that someone else obtained is useless.
#[tokio::test]
async fn s12_a_code_of_another_sign_in_is_refused() {
    let scene = scene(user("new@example.com")).await;
    let (mine, other) = (scene.consented("google", "").await, scene.consented("google", "").await);
    let injected = Back { code: other.code, ..mine };
    assert_eq!(refused(&scene.returned("google", &injected).await), "oauth_provider_error");
    assert_eq!(scene.provider.exchanges(), [400]);
}

/// S12: only an address that the provider has verified counts.
#[tokio::test]
async fn s12_only_a_verified_address_counts() {
    let scene = scene(Value::Null).await;
    for (name, says, expected) in [
        ("google", json!({"email": "a@example.com", "email_verified": false}), "oauth_email_unverified"),
        ("google", json!({"email": "a@example.com"}), "oauth_email_unverified"),
        ("google", json!({"sub": "1"}), "oauth_no_email"),
        ("google", json!({"email": "", "email_verified": true}), "oauth_no_email"),
        ("google", json!({"email": "a\r\nb@example.com", "email_verified": true}), "oauth_no_email"),
        ("github", json!([{"email": "a@example.com", "primary": true, "verified": false}]), "oauth_email_unverified"),
        ("github", json!([]), "oauth_no_email"),
    ] {
        scene.provider.says(says.clone());
        assert_eq!(scene.fails(name).await, expected, "{name}: {says}");
    }
    assert_eq!(scene.sessions().await, 0);
}

/// S12: a provider's error becomes one of our error words, and its text is not repeated anywhere.
#[tokio::test]
async fn s12_a_providers_words_are_not_repeated() {
    let scene = scene(user("new@example.com")).await;
    for (error, expected) in [
        ("access_denied", "oauth_denied"),
        ("server_error", "oauth_provider_error"),
        ("%3Csvg%20onload%3D1%3E", "oauth_provider_error"),
        ("", "oauth_provider_error"),
    ] {
        let back = scene.consented("google", "").await;
        let query = format!("error={error}&error_description=%3Cb%3Emarkup&state={}", back.state);
        let reply = scene.back("google", &query, &back.cookie).await;
        assert_eq!(refused(&reply), expected);
        assert!(!reply.text().contains("markup"));
        // A code beside it changes nothing, and the state is used up.
        assert_eq!(refused(&scene.returned("google", &back).await), "oauth_state_invalid");
    }
    let back = scene.consented("google", "").await;
    assert_eq!(
        refused(&scene.back("google", &format!("state={}", back.state), &back.cookie).await),
        "oauth_provider_error"
    );
    assert_eq!(scene.provider.exchanges().len(), 0);
}

#[tokio::test]
async fn a_provider_that_fails_lets_nobody_in() {
    let scene = scene(user("new@example.com")).await;
    let faults = [
        Fault::Status(500),
        Fault::Status(403),
        Fault::Says("{"),
        Fault::Says("7"),
        Fault::Says(r#"{"error":"bad_verification_code","error_description":"<b>expired</b>"}"#),
        Fault::Says(r#"{"access_token":"a\nb","token_type":"bearer"}"#),
        Fault::Redirects,
        Fault::Endless,
    ];
    for fault in faults {
        scene.provider.token_fails(Some(fault.clone()));
        assert_eq!(scene.fails("google").await, "oauth_provider_error", "token: {fault:?}");
        scene.provider.token_fails(None);
        if matches!(fault, Fault::Says(text) if text.starts_with("{\"")) {
            continue;
        }
        scene.provider.user_fails(Some(fault.clone()));
        for name in ["google", "github"] {
            assert_eq!(scene.fails(name).await, "oauth_provider_error", "{name}: {fault:?}");
        }
        scene.provider.user_fails(None);
    }
    assert_eq!(scene.sessions().await, 0);
}

#[tokio::test]
async fn a_provider_that_hangs_is_not_waited_for_long() {
    let scene = scene(user("new@example.com")).await;
    scene.provider.token_fails(Some(Fault::Hangs));
    let began = std::time::Instant::now();
    assert_eq!(scene.fails("google").await, "oauth_provider_error");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// S7: a sign-in makes a new session and ends the one that the browser sends.
#[tokio::test]
async fn s7_the_session_that_was_shown_ends() {
    let scene = scene(user("new@example.com")).await;
    let back = scene.consented("google", "").await;
    let first = session_of(&scene.returned("google", &back).await).expect("a session");
    let back = scene.consented("google", "").await;
    let query = format!("code={}&state={}", back.code, back.state);
    let cookies = format!("{}; session_token={first}", back.cookie);
    let second = session_of(&scene.back("google", &query, &cookies).await).expect("a session");
    assert_ne!(first, second);
    assert_eq!((me(&scene.world, &first).await.status, me(&scene.world, &second).await.status), (401, 200));
}

/// S18: a sign-up by another person does not capture the owner of an address when they sign in with a provider.
#[tokio::test]
async fn s18_a_sign_up_by_another_does_not_catch_the_owner() {
    let scene = scene(user("v@example.org")).await;
    let signed_up = scene.world.nobody.post("/v1/auth/signup", &json!({"email": "v@example.org"})).await;
    let (tenant, key) = (signed_up.member("tenant_id"), signed_up.member("api_key"));
    let back = scene.consented("google", "").await;
    let session = session_of(&scene.returned("google", &back).await).expect("a session");
    let me = me(&scene.world, &session).await.json();
    assert_ne!(me["tenant"]["id"], tenant.as_str(), "a new account");
    assert_eq!(me["user"]["is_owner"], true);
    let attacker = scene.world.somebody_with(&key);
    assert_eq!(attacker.get("/v1/links").await.json()["links"], json!([]));
    let mails = scene.world.mails(1).await;
    let token = deeplink_testing::token_in(&mails[0]).expect("a token");
    let confirmed = scene.world.nobody.confirm(&token).await;
    assert!(crate::confirmations::confirms_nothing(&confirmed), "the mailed link is dead");
}
