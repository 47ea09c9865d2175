//! Apps, and the association files that make links open in them.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, Role, World, at_once, eventually, spawn, spawn_nodes};

const PRINT: &str = "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";
const OTHER_PRINT: &str =
    "00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF";
const APPLE: &str = "/.well-known/apple-app-site-association";
const GOOGLE: &str = "/.well-known/assetlinks.json";

fn ios(bundle: &str) -> Value {
    json!({"platform": "ios", "bundle_id": bundle, "team_id": "ABCDE12345"})
}

fn android(package: &str) -> Value {
    json!({"platform": "android", "package_name": package, "sha256_fingerprints": [PRINT]})
}

async fn register(caller: &Caller, body: &Value) -> Value {
    let reply = caller.post("/v1/apps", body).await;
    assert_eq!(reply.status, 201, "{body} {}", reply.text());
    reply.json()
}

async fn file(world: &World, host: &str, path: &str) -> Reply {
    world.nobody.ask(Method::GET, path).header("host", host).send().await
}

#[tokio::test]
async fn an_app_is_registered_listed_replaced_and_removed() {
    let world = spawn().await;
    let mut body = ios("com.example.App");
    body["platform"] = "iOS".into();
    // X10: fields that the service owns cannot be set, and the other platform's fields are ignored.
    body["id"] = "app_0123456789abcdef01234567".into();
    body["created_at"] = "2001-01-01T00:00:00Z".into();
    body["package_name"] = "no package".into();
    let reply = world.a.post("/v1/apps", &body).await;
    let first = reply.json();
    assert_eq!(reply.header("location"), format!("/v1/apps/{}", first["id"].as_str().expect("an id")));
    assert_ne!(first["id"], body["id"]);
    let expected = json!({
        "id": first["id"], "platform": "ios", "app_name": null, "bundle_id": "com.example.App", "package_name": null,
        "team_id": "ABCDE12345", "sha256_fingerprints": null, "icon_url": null, "theme_color": null,
        "created_at": world.clock.now().to_string(),
    });
    assert_eq!(first, expected);

    world.clock.advance(Duration::from_secs(1));
    let mut second = android("com.example.app");
    second["sha256_fingerprints"] = json!([PRINT.replace(':', "").to_lowercase(), OTHER_PRINT, PRINT]);
    second["app_name"] = "Example".into();
    second["icon_url"] = "https://example.com".into();
    second["theme_color"] = "#0a7CFF".into();
    let second = register(&world.a, &second).await;
    assert_eq!(second["sha256_fingerprints"], json!([PRINT, OTHER_PRINT]));
    assert_eq!((&second["icon_url"], &second["theme_color"]), (&json!("https://example.com/"), &json!("#0a7CFF")));
    assert_eq!(world.a.get("/v1/apps").await.json(), json!([second, first]), "newest first");
    assert_eq!(world.b.get("/v1/apps").await.json(), json!([]));

    // The same bundle again replaces the earlier app; another spelling is another app.
    world.clock.advance(Duration::from_secs(1));
    let mut again = ios("com.example.App");
    again["team_id"] = "ZZZZZ99999".into();
    again["app_name"] = "Renamed".into();
    let replaced = register(&world.a, &again).await;
    assert_eq!((&replaced["id"], &replaced["created_at"]), (&first["id"], &first["created_at"]));
    assert_eq!((&replaced["team_id"], &replaced["app_name"]), (&json!("ZZZZZ99999"), &json!("Renamed")));
    let spelling = register(&world.a, &ios("com.example.app")).await;
    assert_eq!(world.a.get("/v1/apps").await.json(), json!([spelling, second, replaced]));
    // The same package in another account is another app.
    let of_b = register(&world.b, &android("com.example.app")).await;

    let id = |app: &Value| app["id"].as_str().expect("an id").to_owned();
    let path = |id: &str| format!("/v1/apps/{id}");
    for gone in [id(&of_b), "app_0123456789abcdef01234567".into(), "nonsense".into()] {
        assert_eq!(world.a.delete(&path(&gone)).await.outcome(), "404 not_found", "{gone}");
    }
    assert_eq!(world.a.delete(&path(&id(&second))).await.status, 204);
    assert_eq!(world.a.delete(&path(&id(&second))).await.outcome(), "404 not_found");
    assert_eq!(world.a.get("/v1/apps").await.json(), json!([spelling, replaced]));
    assert_eq!(world.b.get("/v1/apps").await.json(), json!([of_b]));
}

#[tokio::test]
async fn each_bad_field_has_its_code_and_nothing_is_stored() {
    let world = spawn().await;
    let with = |mut body: Value, field: &str, value: Value| {
        body[field] = value;
        body
    };
    let (apple, google) = (ios("com.example.app"), android("com.example.app"));
    for (body, expected) in [
        (json!({}), "400 invalid_platform platform"),
        (json!({"platform": null}), "400 invalid_platform platform"),
        (json!({"platform": "web"}), "400 invalid_platform platform"),
        (json!({"platform": 1}), "400 bad_request platform"),
        (with(apple.clone(), "bundle_id", json!(null)), "400 missing_fields bundle_id"),
        (with(apple.clone(), "team_id", json!("  ")), "400 missing_fields team_id"),
        (with(google.clone(), "package_name", json!("")), "400 missing_fields package_name"),
        (with(google.clone(), "sha256_fingerprints", json!([])), "400 missing_fields sha256_fingerprints"),
        (with(google.clone(), "sha256_fingerprints", json!("x")), "400 bad_request sha256_fingerprints"),
        (with(google.clone(), "sha256_fingerprints", json!([1])), "400 bad_request sha256_fingerprints[0]"),
        (with(apple.clone(), "bundle_id", json!("com.example.*")), "400 invalid_bundle_id bundle_id"),
        (with(apple.clone(), "team_id", json!("abcde12345")), "400 invalid_team_id team_id"),
        (with(google.clone(), "package_name", json!("com.1st")), "400 invalid_package_name package_name"),
        (
            with(google.clone(), "sha256_fingerprints", json!([PRINT, "AA"])),
            "400 invalid_fingerprint sha256_fingerprints",
        ),
        (with(apple.clone(), "app_name", json!("a\u{1b}b")), "400 invalid_name app_name"),
        (with(apple.clone(), "app_name", json!("x".repeat(101))), "400 invalid_name app_name"),
        (with(apple.clone(), "icon_url", json!("https://127.0.0.1/x")), "400 invalid_icon_url icon_url"),
        (with(apple.clone(), "icon_url", json!("javascript:alert(1)")), "400 invalid_icon_url icon_url"),
        (with(apple.clone(), "theme_color", json!("#fff\"/><script>")), "400 invalid_theme_color theme_color"),
        (with(apple.clone(), "theme_color", json!("red;}body{")), "400 invalid_theme_color theme_color"),
    ] {
        assert_eq!(world.a.post("/v1/apps", &body).await.outcome(), expected, "{body}");
    }
    let sha1 = with(google, "sha256_fingerprints", json!([&PRINT[..59]]));
    assert!(world.a.post("/v1/apps", &sha1).await.member("error").contains("SHA-1"));
    assert_eq!(world.a.get("/v1/apps").await.json(), json!([]));
}

#[tokio::test]
async fn a_repeated_registration_is_one() {
    let world = spawn().await;
    let once = |body: Value| world.a.ask(Method::POST, "/v1/apps").header("idempotency-key", "one").json(&body).send();
    let first = once(ios("com.example.app")).await;
    world.clock.advance(Duration::from_secs(5));
    let second = once(ios("com.example.app")).await;
    assert_eq!((second.status, second.header("idempotency-replayed")), (201, "true"));
    assert_eq!(first.text(), second.text());
    assert_eq!(once(ios("com.example.other")).await.outcome(), "409 idempotency_conflict Idempotency-Key");
}

/// L13, A1–A4: a host's files name only the apps of its own tenant, as Apple and Google document them, without a
/// redirect; the service's own host and unknown ones have none.
#[tokio::test]
async fn l13_association_files_go_by_host() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    world.own_domain(&world.a, "open.example.com", Role::Alternate).await;
    world.own_domain(&world.b, "b.example.com", Role::Primary).await;
    for path in [APPLE, GOOGLE] {
        assert_eq!(file(&world, "go.example.com", path).await.outcome(), "404 not_found", "no app yet");
    }
    register(&world.a, &ios("com.example.One")).await;
    assert_eq!(file(&world, "go.example.com", GOOGLE).await.outcome(), "404 not_found", "no app of this platform");
    world.clock.advance(Duration::from_millis(5));
    register(&world.a, &ios("com.example.two")).await;
    register(&world.a, &android("com.example.one")).await;
    register(&world.b, &android("com.example.of_b")).await;
    let entry = |id: &str| json!({"appIDs": [id], "components": [{"/": "/*"}], "appID": id, "paths": ["*"]});
    let (one, two) = ("ABCDE12345.com.example.One", "ABCDE12345.com.example.two");
    let apple = json!({
        "applinks": {"apps": [], "details": [entry(one), entry(two)]},
        "webcredentials": {"apps": [one, two]},
    });
    let google = |package: &str| {
        json!([{
            "relation": ["delegate_permission/common.handle_all_urls"],
            "target": {"namespace": "android_app", "package_name": package, "sha256_cert_fingerprints": [PRINT]},
        }])
    };
    for (host, path, expected) in [
        ("go.example.com", APPLE, Some(apple.clone())),
        ("go.example.com", GOOGLE, Some(google("com.example.one"))),
        ("GO.example.com.:8080", APPLE, Some(apple.clone())),
        ("open.example.com", APPLE, Some(apple)),
        ("b.example.com", GOOGLE, Some(google("com.example.of_b"))),
        ("b.example.com", APPLE, None),
        ("localhost", APPLE, None),
        ("localhost", GOOGLE, None),
        ("c.example.com", APPLE, None),
        ("sub.go.example.com", APPLE, None),
        // No system asks there any more, so it is read as a link id.
        ("go.example.com", "/apple-app-site-association", None),
        ("go.example.com", "/.well-known/apple-app-site-association/", None),
        ("go.example.com", "/.well-known/openid-configuration", None),
    ] {
        let reply = file(&world, host, path).await;
        match expected {
            None => assert_eq!(reply.outcome(), "404 not_found", "{host}{path}"),
            Some(body) => {
                assert_eq!((reply.status, reply.json()), (200, body), "{host}{path}");
                assert_eq!(reply.header("content-type"), "application/json");
                assert_eq!(reply.header("cache-control"), "public, max-age=3600");
                assert_eq!(reply.header("set-cookie"), "");
            }
        }
    }
    // Every client gets the same bytes, or with the tag a 304.
    let first = file(&world, "go.example.com", APPLE).await;
    let ask = |method, name: &str, value: &str| {
        world.nobody.ask(method, APPLE).header("host", "go.example.com").header(name, value).send()
    };
    for (name, value) in [
        ("user-agent", "AASA-Bot/1.0.0"),
        ("accept", "text/html"),
        ("authorization", "Bearer nonsense"),
        ("x-forwarded-proto", "http"),
    ] {
        assert_eq!(ask(Method::GET, name, value).await.text(), first.text(), "{name}");
    }
    let unchanged = ask(Method::GET, "if-none-match", first.header("etag")).await;
    assert_eq!((unchanged.status, unchanged.text().as_str()), (304, ""));
    let google = file(&world, "go.example.com", GOOGLE).await;
    let again = world.nobody.ask(Method::GET, GOOGLE).header("host", "go.example.com");
    let again = again.header("if-none-match", format!("W/{}, \"x\"", google.header("etag"))).send().await;
    assert_eq!((again.status, again.header("etag")), (304, google.header("etag")));
    let head = ask(Method::HEAD, "accept", "*/*").await;
    assert_eq!((head.status, head.text().as_str(), head.header("etag")), (200, "", first.header("etag")));
    assert_eq!(ask(Method::POST, "accept", "*/*").await.outcome(), "405 method_not_allowed");
    // A3: a change takes effect in the next request.
    let apps = world.a.get("/v1/apps").await.json();
    for app in apps.as_array().expect("apps").iter().filter(|app| app["platform"] == "ios") {
        assert_eq!(world.a.delete(&format!("/v1/apps/{}", app["id"].as_str().expect("an id"))).await.status, 204);
    }
    assert_eq!(ask(Method::GET, "if-none-match", first.header("etag")).await.outcome(), "404 not_found");
}

/// A2: an account has at most 50 apps of each platform, however many are created concurrently, and the largest files
/// they can make stay within 128 KiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_stay_small() {
    let world = spawn().await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    let prints: Vec<_> = (0..20).map(|number| format!("{number:064X}")).collect();
    let google = |number: usize| json!({"platform": "android", "package_name": format!("a.{number:03}{}", "b".repeat(249)).replacen("a.", "a.b", 1), "sha256_fingerprints": prints});
    let apple = |number: usize| ios(&format!("{number:03}.{}", "b".repeat(151)));
    for number in 0..47 {
        register(&world.a, &google(number)).await;
        register(&world.a, &apple(number)).await;
    }
    for (of, replaced) in [(&google as &(dyn Fn(usize) -> Value + Sync), google(0)), (&apple, apple(0))] {
        let bodies: Vec<_> = (100..110).map(of).collect();
        let caller = world.a.clone();
        let replies = at_once(bodies.len(), |number| {
            let (caller, body) = (caller.clone(), bodies[number].clone());
            async move { caller.post("/v1/apps", &body).await }
        })
        .await;
        let refused: Vec<_> = replies.iter().filter(|reply| reply.status != 201).collect();
        assert_eq!(refused.len(), 7, "three fitted");
        for reply in refused {
            assert_eq!(reply.outcome(), "402 quota_exceeded");
            assert_eq!((&reply.json()["resource"], &reply.json()["limit"]), (&json!("apps"), &json!(50)));
        }
        assert_eq!(
            register(&world.a, &replaced).await["bundle_id"],
            replaced["bundle_id"],
            "a replacement does not count"
        );
    }
    for (path, before, after) in [(APPLE, ".", ".b"), (GOOGLE, "\"a.b", "b")] {
        let file = file(&world, "go.example.com", path).await;
        let length = file.body.len();
        assert!((20_000..=128 << 10).contains(&length), "{path}: {length}");
        let text = file.text();
        let missing: Vec<_> = (0..47).filter(|number| !text.contains(&format!("{before}{number:03}{after}"))).collect();
        assert!(missing.is_empty(), "{path} names every app: {missing:?}");
    }
}

/// A tenant's apps appear on the pages of its links at once.
#[tokio::test]
async fn pages_take_the_face_of_the_visitors_app() {
    let world = spawn().await;
    let link = json!({"custom_id": "spring-42", "ios_deep_link": "myapp://a", "android_deep_link": "myapp://b", "web_url": "https://example.com/"});
    world.a.make_of(&link).await;
    let page = async |agent: &str| {
        let ask =
            world.nobody.ask(Method::GET, "/r/spring-42").header("accept", "text/html").header("user-agent", agent);
        ask.send().await.text()
    };
    const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1";
    const PIXEL: &str = "Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36";
    const LINUX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0";
    assert!(!page(IPHONE).await.contains("Apple edition"));
    let mut apple = ios("com.example.app");
    apple["app_name"] = "Apple edition".into();
    apple["theme_color"] = "#102030".into();
    let mut google = android("com.example.app");
    google["app_name"] = "Robot edition".into();
    google["icon_url"] = "https://example.com/icon.png".into();
    register(&world.a, &google).await;
    let only_google = page(IPHONE).await;
    assert!(only_google.contains("Robot edition"), "the only app represents the tenant");
    world.clock.advance(Duration::from_millis(5));
    register(&world.a, &apple).await;
    let iphone = page(IPHONE).await;
    assert!(iphone.contains("Apple edition") && iphone.contains("#102030"), "{iphone}");
    assert!(iphone.contains("icon.png"), "what the app lacks is the other's: {iphone}");
    let pixel = page(PIXEL).await;
    assert!(pixel.contains("icon.png") && pixel.contains("Robot edition"), "{pixel}");
    // The package of the only Android app makes the intent that opens it.
    assert!(pixel.contains("package=com.example.app;"), "{pixel}");
    assert!(page(LINUX).await.contains("icon.png"), "the oldest app");
    world.clock.advance(Duration::from_millis(5));
    register(&world.a, &android("com.example.second")).await;
    assert!(!page(PIXEL).await.contains("package="), "with two packages it is unknown which one is the link's");
}

/// L24, A3: on another node within five seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn l24_apps_reach_the_other_node() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    world.a.make_of(&json!({"custom_id": "spring-42", "ios_deep_link": "myapp://a"})).await;
    let there = world.at(1, &world.nobody);
    let titled = async || {
        let page = there.browse(Method::GET, "/spring-42").header("host", "go.example.com").send().await;
        page.text().contains("Example app")
    };
    let file = async || there.ask(Method::GET, APPLE).header("host", "go.example.com").send().await.status;
    eventually("the host is known", Duration::from_secs(5), || async { file().await == 404 }).await;
    assert!(!titled().await);
    let mut app = ios("com.example.app");
    app["app_name"] = "Example app".into();
    register(&world.at(0, &world.a), &app).await;
    eventually("the file is there", Duration::from_secs(5), || async { file().await == 200 }).await;
    eventually("the page has the name", Duration::from_secs(5), titled).await;
}
