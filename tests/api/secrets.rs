//! Secrets: shown once, kept only as hashes or sealed, never logged. The end of every test checks that no secret it
//! issued or sent is in the logs or the database (`World` of `deeplink_testing`); the tests here prove that check, and
//! test what it does not cover.

use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use deeplink_core::secret::{Random, sha256_hex};
use deeplink_server::clock::Clock;
use deeplink_server::config::{Config, X402};
use deeplink_server::start::start;
use deeplink_server::vault::MasterKey;
use http::Method;
use serde_json::{Value, json};

use deeplink_testing::facilitator::{Facilitator, PAY_TO, Payer, decoded};
use deeplink_testing::{Role, World, code_in, log_everything, logged_since, operations, spawn, spawn_with};

/// X17: credentials of every kind, sent in every place where a client might send them, with every crate's lines at
/// TRACE. The log is searched when the world ends; this test checks that it contains these requests.
#[tokio::test]
async fn x17_no_secret_in_the_logs() {
    let mark = log_everything();
    let facilitator = Facilitator::start().await;
    let world = spawn_with(|config| config.x402 = Some(X402::new(facilitator.base(), PAY_TO, "10000"))).await;
    world.a.make("spring-42").await;
    let asked = world.nobody.post("/v1/links", &json!({})).await;
    let accepted = decoded(asked.header("payment-required"))["accepts"][0].clone();
    let payer = Payer::new("alice");
    for version in [1, 2] {
        let signed = payer.sign(&accepted, world.clock.now().as_millis() / 1_000);
        world.note_secret(signed.signature());
        let (name, value) = if version == 1 { signed.v1() } else { signed.v2() };
        let paid = world.nobody.ask(Method::POST, "/v1/links").header(name, value).json(&json!({})).send().await;
        assert_eq!(paid.status, 201, "{}", paid.text());
    }
    assert_eq!(world.nobody.post("/v1/auth/signup", &json!({"email": "new@example.com"})).await.status, 201);
    let session = world.sign_in("a@example.com").await;
    let issue = world.nobody.ask(Method::POST, "/v1/auth/secret-keys/issue").session(&session).body("{}");
    assert_eq!(issue.send().await.status, 201);
    let hook = json!({"url": "https://hooks.example.com/", "events": ["click"]});
    let hook = world.a.post("/v1/webhooks", &hook).await;
    let rotate = format!("/v1/webhooks/{}/rotate-secret", hook.member("id"));
    assert_eq!((hook.status, world.a.post_nothing(&rotate).await.status), (201, 200));
    let secret = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0";
    world.note_secret(secret);
    for (method, path) in [
        (Method::GET, format!("/v1/links?key={secret}")),
        (Method::GET, format!("/v1/auth/callback?token={secret}")),
        (Method::POST, format!("/v1/auth/verify?token={secret}")),
        (Method::GET, format!("/account/confirm?token={secret}")),
        (Method::GET, format!("/signin/once?token={secret}")),
        (Method::GET, format!("/in/{secret}")),
        (Method::POST, format!("/in/{secret}")),
        (Method::GET, format!("/r/spring-42?token={secret}")),
        (Method::GET, format!("/r/{secret}")),
        (Method::GET, format!("/{secret}")),
        (Method::GET, format!("/v1/links/{secret}")),
        (Method::GET, format!("/v1/links?cursor={secret}")),
        (Method::POST, format!("/v1/links?q={secret}")),
    ] {
        for host in ["localhost", "go.example.com"] {
            let ask = world
                .a
                .ask(method.clone(), &path)
                .header("host", host)
                .header("cookie", format!("session_token={secret}"));
            let ask =
                ask.header("x-payment", secret).header("payment-signature", secret).header("idempotency-key", secret);
            ask.json(&json!({})).send().await;
            for name in ["x-payment", "payment-signature"] {
                world.nobody.ask(method.clone(), &path).header(name, secret).json(&json!({})).send().await;
            }
        }
    }
    let log = logged_since(&mark);
    assert!(log.matches("responded").count() >= 10, "the requests are logged");
    assert!(log.contains("TRACE hyper"), "and other crates' lines about them");
}

/// X17, X18: the search at the end of every test does find secrets in a log or in the database, and sealed values where
/// a rotation of the master key would not find them.
#[tokio::test]
async fn x17_the_search_finds_planted_secrets() {
    let ends_well = |world: World| catch_unwind(AssertUnwindSafe(|| drop(world))).is_ok();
    let planted = "3b1f8a40c6d2e97551aa03cc4de7f86b";
    let world = spawn().await;
    world.note_secret(planted);
    assert!(ends_well(world), "nothing was planted");

    let world = spawn().await;
    world.note_secret(planted);
    // A request's id is logged.
    world.nobody.ask(Method::GET, "/health").header("x-request-id", planted).send().await;
    assert!(!ends_well(world), "a secret in the log went unnoticed");

    let world = spawn().await;
    world.note_secret(planted);
    world.db.execute(format!("INSERT INTO service (name, value) VALUES ('planted', '{planted}')")).await;
    assert!(!ends_well(world), "a secret in the database went unnoticed");

    let world = spawn().await;
    world.a.make("spring-42").await;
    // A column that a rotation of the master key does not know.
    world.db.execute(format!("UPDATE links SET web_url = '1a2b3c4d.{}'", "A".repeat(54))).await;
    assert!(!ends_well(world), "a sealed value in another column went unnoticed");

    let world = spawn().await;
    let keys = world.db.dump().await["secret_keys"].join("\n");
    let key = world.a.key().expect("a key");
    assert!(keys.contains(&sha256_hex(key)) && !keys.contains(&key[20..]), "a key is stored as a hash");
}

/// X18: waiting mails are sealed, with the id of the key; after the master key has changed they are still sent, and the
/// old key is no longer needed.
#[tokio::test]
async fn x18_the_server_key_can_be_changed() {
    let mut world = spawn().await;
    // A directory that cannot be created keeps the mail waiting.
    std::fs::write(world.home().join("mail"), "in the way").expect("a file");
    assert_eq!(world.nobody.post("/v1/auth/signup", &json!({"email": "new@example.com"})).await.status, 201);
    let sealed = world.db.texts("SELECT sealed FROM mails").await;
    assert!(!sealed[0].contains("example.com") && !sealed[0].contains("token"), "{}", sealed[0]);
    let [first, second] = [1, 2].map(|seed| MasterKey::generate(&mut Random::seeded(seed)));
    world.restart(|config| config.master_keys.insert(0, first.clone())).await;
    let resealed = world.db.texts("SELECT sealed FROM mails").await;
    assert_ne!(resealed, sealed, "the first key has resealed what waits");
    assert_ne!(resealed[0].split('.').next(), sealed[0].split('.').next(), "and says so");
    world.restart(|config| config.master_keys = vec![second.clone(), first.clone()]).await;
    std::fs::remove_file(world.home().join("mail")).expect("out of the way");
    world.clock.advance(Duration::from_hours(1));
    world.restart(|config| config.master_keys = vec![second.clone()]).await;
    assert!(world.mails(1).await[0].contains("new@example.com"));
}

/// X18: a key file that others can read stops the start.
#[tokio::test]
async fn x18_a_key_file_that_others_can_read_stops_the_start() {
    let home = tempfile::tempdir().expect("a directory");
    let config = Config::for_tests(home.path());
    let running = start(config.clone(), Clock::system()).await.expect("the first start makes the key");
    running.ask_to_stop(deeplink_server::http::listen::Stop::AtOnce);
    running.stopped().await;
    let file = config.key_file();
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("the key file").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    for wide in [0o644, 0o640, 0o604, 0o666] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(wide)).expect("a mode");
        let error = start(config.clone(), Clock::system()).await.err().expect("a refusal").to_string();
        assert!(error.contains("chmod 600") && error.contains("master.key"), "{error}");
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    let running = start(config.clone(), Clock::system()).await.expect("it starts again");
    running.ask_to_stop(deeplink_server::http::listen::Stop::AtOnce);
    running.stopped().await;

    let mut other = config;
    other.master_keys = vec![MasterKey::generate(&mut Random::system())];
    let error = start(other, Clock::system()).await.err().expect("a refusal").to_string();
    assert!(error.contains("do not match this database"), "{error}");
}

/// X19: no answer to a GET documents or contains a member that is a secret. (That no issued secret is in any other
/// answer is checked where answers are received.)
#[tokio::test]
async fn x19_secrets_are_in_the_one_answer_that_issues_them() {
    let document: Value = serde_json::from_str(deeplink_server::openapi::text()).expect("JSON");
    let schemas = &document["components"]["schemas"];
    for operation in operations::all() {
        let item = &document["paths"][&operation.path][operation.method.as_str().to_lowercase()];
        let mut names = Vec::new();
        members(&item["responses"], schemas, &mut names, 0);
        // The value that a report's groups are grouped by.
        names.retain(|name| !(operation.id == "funnel" && name == "key"));
        let shows = ["api_key", "secret", "key", "token", "password"]
            .iter()
            .find(|word| names.iter().any(|name| name == **word));
        let issues = [
            "signup",
            "issue_secret_key",
            "confirm_secret_key",
            "create_publishable_key",
            "create_credential",
            "create_webhook",
            "rotate_webhook_secret",
        ];
        assert_eq!(shows.is_some(), issues.contains(&&*operation.id), "{} shows {shows:?}", operation.id);
    }
    let world = spawn().await;
    let opened = world.nobody.post("/v1/auth/signup", &json!({"email": "new@example.com"})).await;
    let owner = world.somebody_with(&opened.member("api_key"));
    owner.make("mine").await;
    for path in ["/v1/links", "/v1/links/mine", "/v1/links/mine/timeseries", "/r/mine"] {
        let text = owner.get(path).await.text();
        assert!(!text.contains("dl_live_"), "{path}: {text}");
    }
}

/// X19: a reply with a secret is stored sealed for a repeat of its request: the repeat gets the same bytes, for the
/// same account only and also after the master key was changed, and the stored form reveals nothing.
#[tokio::test]
async fn x19_kept_replies_open_for_who_made_them() {
    let mut world = spawn().await;
    for (caller, domain) in [(&world.a, "a.example.com"), (&world.b, "b.example.com")] {
        world.own_domain(caller, domain, Role::Primary).await;
    }
    let sessions = [world.session_of(&world.a).await, world.session_of(&world.b).await];
    assert_eq!(world.a.post("/v1/auth/secret-keys", &json!({"email": "a@example.com"})).await.status, 200);
    let code = world.mails(1).await.iter().find_map(|mail| code_in(mail)).expect("a code");
    let credentials = format!("/v1/affiliates/{}/credentials", world.a1.affiliate_id());
    let ask = |world: &World, number: usize, of_b: bool| {
        let caller = if of_b { &world.b } else { &world.a };
        let ask = match number {
            0 => {
                let domain = if of_b { "b.example.com" } else { "a.example.com" };
                let body = json!({"domain": domain});
                caller.ask(Method::POST, "/v1/auth/publishable-keys").json(&body)
            }
            1 => caller.ask(Method::POST, &credentials),
            2 => {
                let body = json!({"email": "a@example.com", "token": code});
                caller.ask(Method::POST, "/v1/auth/secret-keys/confirm").json(&body)
            }
            _ => {
                let ask = world.nobody.ask(Method::POST, "/v1/auth/secret-keys/issue");
                ask.session(&sessions[usize::from(of_b)]).body("{}")
            }
        };
        ask.header("idempotency-key", "key")
    };
    let mut first = Vec::new();
    for number in 0..4 {
        let made = ask(&world, number, false).send().await;
        assert_eq!((made.status, made.header("idempotency-replayed")), (201, ""), "{number} {}", made.text());
        first.push(made);
    }
    let repeats = async |world: &World| {
        for (number, made) in first.iter().enumerate() {
            let again = ask(world, number, false).send().await;
            assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true"), "{number}");
            assert_eq!((&again.body, again.header("location")), (&made.body, made.header("location")), "{number}");
            assert_eq!(again.header("cache-control"), "no-store");
        }
    };
    repeats(&world).await;
    let kept = world.db.texts("SELECT body FROM replies").await;
    assert!(kept.len() == 4 && kept.iter().all(|body| body.starts_with("sealed ") && !body.contains("live_")));
    // For B the same Idempotency-Key is a different one.
    for (number, expected) in [(0, "201"), (1, "404 not_found"), (2, "400 invalid_code token"), (3, "201")] {
        let of_b = ask(&world, number, true).send().await;
        assert_eq!((of_b.outcome().as_str(), of_b.header("idempotency-replayed")), (expected, ""), "{number}");
        assert!(first.iter().all(|made| made.body != of_b.body));
    }
    // A refusal leaves the Idempotency-Key free although a try of a code is counted.
    let wrong = ask(&world, 2, true).json(&json!({"email": "b@example.com", "token": "000000"}));
    assert_eq!(wrong.clone().send().await.outcome(), "400 invalid_code token");
    assert_eq!(wrong.send().await.outcome(), "400 invalid_code token");

    let new = MasterKey::generate(&mut Random::seeded(7));
    world.restart(|config| config.master_keys.insert(0, new.clone())).await;
    repeats(&world).await;
    world.restart(|config| config.master_keys = vec![new.clone()]).await;
    repeats(&world).await;
    assert_ne!(world.db.texts("SELECT body FROM replies").await, kept, "the new key has resealed them");
}

fn members(value: &Value, schemas: &Value, names: &mut Vec<String>, depth: usize) {
    if depth > 12 {
        return;
    }
    match value {
        Value::Object(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next()) {
                members(&schemas[name], schemas, names, depth + 1);
            }
            for (key, inner) in map {
                if key == "properties" {
                    names.extend(inner.as_object().into_iter().flat_map(|map| map.keys().cloned()));
                }
                members(inner, schemas, names, depth + 1);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, schemas, names, depth + 1)),
        _ => {}
    }
}

/// X20: GET and HEAD write only clicks.
#[tokio::test]
async fn x20_reading_changes_nothing() {
    let world = spawn_with(|config| config.limits.misses_per_minute = 600).await;
    world.a.make("spring-42").await;
    world.a1.make("of-one").await;
    let before = world.db.dump_without_clicks().await;
    for caller in [&world.a, &world.a1, &world.b, &world.nobody] {
        for operation in operations::all().iter().filter(|operation| operation.method == Method::GET) {
            for id in ["spring-42", "of-one", "nowhere"] {
                let path = operation.at(id);
                for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
                    caller.ask(method, &path).header("idempotency-key", "key").send().await;
                }
            }
        }
        for path in ["/docs", "/robots.txt", "/.well-known/security.txt", "/v1/links?limit=1&q=s", "/nowhere"] {
            caller.get(path).await;
        }
    }
    assert_eq!(world.db.dump_without_clicks().await, before);
}
