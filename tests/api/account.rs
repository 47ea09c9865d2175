//! The account's settings: what it is called, whose days its reports show, and the branding of its links.

use std::time::Duration;

use futures_util::TryStreamExt;
use http::{Method, Request, Response};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use deeplink_client::{ExportRecord, Patch, RecordType, UpdateAccount};
use deeplink_testing::{Role, spawn};

const ACCOUNT: &str = "/v1/account";

#[tokio::test]
async fn settings_are_shown_and_changed_one_by_one() {
    let world = spawn().await;
    let a = &world.a;
    let shown = a.get(ACCOUNT).await.json();
    let created = shown["created_at"].clone();
    let none = json!({
        "id": a.tenant, "name": null, "time_zone": null, "icon_url": null, "theme_color": null, "created_at": created,
        "deletes_at": null,
    });
    assert_eq!(shown, none);

    let update = UpdateAccount::new().name("Example").time_zone("asia/tokyo").icon_url("https://example.com/icon.png");
    let changed = a.client.account().update(&update.theme_color("#2e7d4f")).await.expect("an account");
    assert_eq!(changed, a.client.account().get().await.expect("an account"));
    let all = json!({
        "id": a.tenant, "name": "Example", "time_zone": "Asia/Tokyo", "icon_url": "https://example.com/icon.png",
        "theme_color": "#2e7d4f", "created_at": created, "deletes_at": null,
    });
    assert_eq!(a.get(ACCOUNT).await.json(), all);
    let mut cleared = UpdateAccount::new();
    cleared.icon_url = Patch::Clear;
    let changed = a.client.account().update(&cleared).await.expect("an account");
    assert_eq!((changed.icon_url, changed.name.as_deref()), (None, Some("Example")), "the others stay");

    let with = |name: &str, value: Value| {
        let mut body = json!({"name": "New"});
        body[name] = value;
        body
    };
    for (body, outcome) in [
        (json!({}), "400 empty_update"),
        (json!({"title": "x"}), "400 empty_update"),
        (json!({"name": 5}), "400 bad_request name"),
        (with("name", json!("x".repeat(101))), "400 invalid_name name"),
        (with("time_zone", json!("Mars/Olympus")), "400 bad_request time_zone"),
        (with("icon_url", json!("javascript:alert(1)")), "400 invalid_icon_url icon_url"),
        (with("theme_color", json!("red;}body{")), "400 invalid_theme_color theme_color"),
    ] {
        assert_eq!(a.patch(ACCOUNT, &body).await.outcome(), outcome, "{body}");
    }
    assert_eq!(a.get(ACCOUNT).await.json()["name"], "Example", "a refusal changes nothing");
    assert_eq!(world.b.get(ACCOUNT).await.json()["name"], Value::Null, "nor does it reach another account");
}

/// Whoever asks who they are is told the account's name; an affiliate is not.
#[tokio::test]
async fn the_name_is_for_its_people() {
    let world = spawn().await;
    world.a.client.account().update(&UpdateAccount::new().name("Example")).await.expect("an account");
    let name = |who: &Value| who["tenant"]["name"].clone();
    assert_eq!(name(&world.a.get("/v1/auth/whoami").await.json()), "Example");
    assert_eq!(name(&world.a1.get("/v1/auth/whoami").await.json()), Value::Null);
    let session = world.session_of(&world.a).await;
    let me = world.nobody.ask(Method::GET, "/v1/auth/me").session(&session).send().await;
    assert_eq!(name(&me.json()), "Example");
}

/// Landing pages have the icon and the color at once, until an app has its own.
#[tokio::test]
async fn landing_pages_have_the_accounts_branding_where_the_app_has_none() {
    const LINUX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0";
    let world = spawn().await;
    let a = &world.a;
    let link = a.make_of(&json!({"ios_deep_link": "example://x", "agent_context": {"cta": "Open"}})).await;
    let page = async || {
        let path = format!("/r/{link}");
        let ask = world.nobody.browse(Method::GET, &path).header("user-agent", LINUX);
        ask.send().await.text()
    };
    assert!(!page().await.contains("account.png"));
    let branding =
        UpdateAccount::new().icon_url("https://example.com/account.png").theme_color("#102030").name("Example");
    a.client.account().update(&branding).await.expect("an account");
    let branded = page().await;
    assert!(branded.contains("account.png") && branded.contains("#102030"), "{branded}");
    assert!(!branded.contains("Example"), "the name is for its people: {branded}");
    let app = json!({
        "platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345", "theme_color": "#405060",
    });
    assert_eq!(a.post("/v1/apps", &app).await.status, 201);
    let of_app = page().await;
    assert!(of_app.contains("#405060") && !of_app.contains("#102030") && of_app.contains("account.png"), "{of_app}");
}

/// When a key was last used is stored after the replies.
fn without_last_use(data: &mut Value) {
    if let Some(last_use) = data.get_mut("last_used_at") {
        *last_use = Value::Null;
    }
}

/// An export has each thing of each list once, whatever the length of its pages, without what is secret; the page's file has the
/// same lines.
#[tokio::test]
async fn an_export_has_everything_but_secrets() {
    let world = spawn().await;
    let a = &world.a;
    world.own_domain(a, "go.example.com", Role::Primary).await;
    for number in 0..130 {
        a.make(&format!("export-{number:03}")).await;
    }
    a.put("/v1/links/export-005", &json!({"tags": ["Spring sale"]})).await;
    crate::qr_logos::upload(a, "acme", crate::outbound::png()).await;
    let hook = a.post("/v1/webhooks", &json!({"url": "https://1.1.1.1/hook", "events": ["conversion"]})).await;
    let source = a.post("/v1/sources", &json!({"name": "Shop", "source_type": "custom"})).await;
    let page_key = a.post("/v1/auth/publishable-keys", &json!({"domain": "go.example.com"})).await;
    let app = json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"});
    assert_eq!(a.post("/v1/apps", &app).await.status, 201);
    for _ in 0..3 {
        assert_eq!(world.nobody.tap("export-007").await.status, 302);
    }
    world.folded().await;

    let export = async |length: u32| -> Vec<ExportRecord> {
        let pages = a.client.account().export().page_size(length);
        let mut records: Vec<ExportRecord> = pages.items().try_collect().await.expect("an export");
        for record in &mut records {
            without_last_use(&mut record.data);
        }
        records
    };
    let all = export(1_000).await;
    let of = |kind: RecordType| all.iter().filter(|record| record.r#type == kind).count();
    for (kind, count) in [
        (RecordType::Account, 1),
        (RecordType::User, 1),
        (RecordType::SecretKey, 1),
        (RecordType::PublishableKey, 1),
        (RecordType::Domain, 1),
        (RecordType::App, 1),
        (RecordType::Affiliate, 2),
        (RecordType::Source, 1),
        (RecordType::Webhook, 1),
        (RecordType::QrLogo, 1),
        (RecordType::Link, 130),
        (RecordType::Event, 3),
    ] {
        assert_eq!(of(kind.clone()), count, "{kind}");
    }
    assert!(of(RecordType::AuditEntry) > 5);
    assert_eq!(all[0].data, a.get(ACCOUNT).await.json());
    assert!(all.iter().any(|record| record.data["tags"] == json!(["Spring sale"])));
    let text = serde_json::to_string(&all).expect("JSON");
    let token = source.member("webhook_url").rsplit('/').next().expect("a token").to_owned();
    for secret in [hook.member("secret"), token, page_key.member("key"), a.key().expect("a key").to_owned()] {
        assert!(!text.contains(&secret), "a secret");
    }
    for length in [1, 7, 100] {
        assert_eq!(export(length).await, all, "in pages of {length}");
    }

    let session = world.session_of(a).await;
    let file = world.nobody.browse(Method::GET, "/account/settings/export").session(&session).send().await;
    assert_eq!((file.status, file.header("content-type")), (200, "application/x-ndjson"));
    assert!(file.header("content-disposition").starts_with("attachment; filename=\"deeplink-20"));
    let mut lines: Vec<Value> = file.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for line in &mut lines {
        without_last_use(&mut line["data"]);
    }
    assert_eq!(lines, all.iter().map(|record| json!(record)).collect::<Vec<_>>());

    for (query, outcome) in [
        ("?limit=0", "400 bad_request limit"),
        ("?limit=1001", "400 bad_request limit"),
        ("?cursor=x", "400 invalid_cursor cursor"),
    ] {
        assert_eq!(a.get(&format!("/v1/account/export{query}")).await.outcome(), outcome);
    }
    let first = a.get("/v1/account/export?limit=1").await.member("next_cursor");
    let foreign = world.b.get(&format!("/v1/account/export?cursor={first}")).await;
    assert_eq!(foreign.outcome(), "400 invalid_cursor cursor");
}

/// A download that its reader takes little of.
async fn begin_export(base: &str, session: &str) -> Response<Incoming> {
    let address = base.trim_start_matches("http://");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1)
        .handshake(TokioIo::new(stream))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::get(format!("{base}/account/settings/export"))
        .header("accept", "text/html")
        .header("cookie", format!("session_token={session}"));
    sender.send_request(request.body(Empty::<Bytes>::new()).expect("a request")).await.expect("a response")
}

/// R9: an account has two exports at a time; another account's is not affected, and the next begins when one of them is
/// left.
#[tokio::test]
async fn an_account_has_two_exports_at_a_time() {
    let world = spawn().await;
    let (mine, other) = (world.session_of(&world.a).await, world.session_of(&world.b).await);
    // Enough for several pages, of which the server prepares one while nobody reads.
    let links: Vec<Value> = (0..100).map(|_| json!({"web_url": "https://example.com/page"})).collect();
    for _ in 0..8 {
        assert_eq!(world.a.post("/v1/links/bulk", &json!({"links": links})).await.status, 201);
    }
    let base = world.nobody.base();
    let first = begin_export(base, &mine).await;
    let second = begin_export(base, &mine).await;
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));

    let export =
        async |session| world.nobody.browse(Method::GET, "/account/settings/export").session(session).send().await;
    let refused = export(&mine).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "1"));
    assert!(refused.text().contains("one of your downloads is in progress"), "{}", refused.text());
    let list = world.nobody.browse(Method::GET, "/account/links.csv").session(&mine).send().await;
    assert_eq!((list.status, list.header("retry-after")), (503, "1"), "the links are such a download, too");
    assert_eq!(export(&other).await.status, 200);

    drop(first);
    while export(&mine).await.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(export(&mine).await.status, 200, "a finished export keeps its place");
    drop(second);
}
