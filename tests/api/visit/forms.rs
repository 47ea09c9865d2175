//! JSON or a page: what `Accept` chooses, and the headers of each form.

use http::Method;
use serde_json::{Value, json};

use deeplink_testing::{Role, spawn};

/// L16: `Accept` with its q-values. JSON is chosen only if it is named and no page has a higher q-value.
#[tokio::test]
async fn l16_what_accept_chooses() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for (accept, form) in [
        (Some("application/json"), "json"),
        (Some("application/json, text/plain, */*"), "json"),
        (Some("application/vnd.api+json"), "json"),
        (Some("TEXT/JSON;charset=utf-8"), "json"),
        (Some("application/json;q=0.5, text/html;q=0.5"), "json"),
        (Some("text/html;q=0.4, application/json;q=0.5"), "json"),
        (Some("application/json;q=0.001"), "json"),
        (Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), "page"),
        (Some("text/html, application/json;q=0.9"), "page"),
        (Some("application/xhtml+xml, application/json;q=0.9"), "page"),
        (None, "page"),
        (Some(""), "page"),
        (Some("*/*"), "page"),
        (Some("application/*"), "page"),
        (Some("application/json;q=0"), "page"),
        (Some("application/json;q=x"), "page"),
        (Some("application/json;q=1.5"), "page"),
        (Some("application/json;q=-1"), "page"),
        (Some("image/png"), "page"),
        (Some("garbage"), "page"),
        (Some(",,;;=/"), "page"),
        (Some("application/jsonp"), "page"),
    ] {
        let mut ask = world.nobody.ask(Method::GET, "/r/spring-42");
        if let Some(accept) = accept {
            ask = ask.header("accept", accept);
        } else {
            ask = ask.header("accept-language", "en");
        }
        let reply = ask.send().await;
        let got = if reply.header("content-type") == "application/json" { "json" } else { "page" };
        let expected = if accept.is_none() && got == "json" { "the client must not add Accept" } else { form };
        assert_eq!(got, expected, "{accept:?}");
        assert_eq!(reply.status, if form == "json" { 200 } else { 302 }, "{accept:?}");
    }
    let lines = world
        .nobody
        .ask(Method::GET, "/r/spring-42")
        .header("accept", "text/html;q=0.5")
        .header("accept", "application/json");
    assert_eq!(lines.send().await.status, 200, "several lines are one list");
}

/// L15: every negotiated answer has `Vary` and is not cached.
#[tokio::test]
async fn l15_negotiated_answers_say_so() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.a.make("redirected").await;
    world.b.make("hosted").await;
    world.a.make_of(&json!({"custom_id": "landing", "ios_deep_link": "myapp://x"})).await;
    world.a.make("flagged").await;
    world.db.execute("UPDATE links SET status = 'flagged' WHERE link_id = 'flagged'").await;
    for (host, path) in [
        ("localhost", "/r/redirected"),
        ("localhost", "/r/landing"),
        ("localhost", "/r/flagged"),
        ("localhost", "/r/nowhere"),
        ("localhost", "/r/x"),
        ("localhost", "/r/"),
        ("localhost", "/r/a/b"),
        ("go.example.com", "/hosted"),
        ("go.example.com", "/r/hosted"),
        ("go.example.com", "/nowhere"),
        ("go.example.com", "/hosted/"),
        ("go.example.com", "/a/b"),
        ("other.example.com", "/r/hosted"),
    ] {
        for accept in ["application/json", "text/html", "*/*"] {
            for method in [Method::GET, Method::HEAD] {
                let reply = world.nobody.ask(method, path).header("host", host).header("accept", accept).send().await;
                let what = format!("{host} {path} {accept} {}", reply.status);
                let is_page = reply.header("content-type").starts_with("text/html");
                let vary = if is_page {
                    "Accept, Accept-Language, User-Agent, Sec-CH-UA-Platform"
                } else {
                    "Accept, User-Agent, Sec-CH-UA-Platform"
                };
                assert_eq!(reply.header("vary"), vary, "{what}");
                assert_eq!(reply.header("cache-control"), "no-store", "{what}");
            }
        }
    }
}

/// Pages are in the visitor's language. What programs get, and where people are sent, does not depend on it.
#[tokio::test]
async fn only_pages_have_a_language() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.a.make("redirected").await;
    world.a.make_of(&json!({"custom_id": "landing", "ios_deep_link": "myapp://x"})).await;
    for (id, status) in [("flagged", "flagged"), ("disabled", "disabled")] {
        world.a.make(id).await;
        world.db.execute(format!("UPDATE links SET status = '{status}' WHERE link_id = '{id}'")).await;
    }
    for (host, path, words) in [
        ("localhost", "/r/landing", "Der Ersteller dieses Links ist nicht verifiziert."),
        ("localhost", "/r/flagged", "Dieser Link wurde als unsicher gemeldet"),
        ("localhost", "/r/disabled", "Dieser Link ist nicht mehr verfügbar"),
        ("localhost", "/r/nowhere", "Link nicht gefunden"),
        ("go.example.com", "/", "Link nicht gefunden"),
    ] {
        let page = world
            .nobody
            .browse(Method::GET, path)
            .header("host", host)
            .header("accept-language", "sv, de-CH;q=0.9, en;q=0.8")
            .send()
            .await;
        assert_eq!(page.header("content-language"), "de", "{path}");
        let text = page.text();
        assert!(text.contains(r#"<html lang="de">"#) && text.contains(words), "{path}: {text}");
        let page = world.nobody.browse(Method::GET, path).header("host", host).send().await;
        assert_eq!(page.header("content-language"), "en", "{path}: English if nothing is preferred");
    }
    for (path, accept) in
        [("/r/redirected", "text/html"), ("/r/redirected", "application/json"), ("/r/flagged", "application/json")]
    {
        let ask = || world.nobody.ask(Method::GET, path).header("accept", accept);
        let (plain, german) = (ask().send().await, ask().header("accept-language", "de").send().await);
        assert!(german.header("content-language").is_empty(), "{path}");
        assert_eq!((german.status, german.text()), (plain.status, plain.text()), "{path}");
    }
}

/// R4, R5: for a path that cannot be a link, a person gets the small page, on either kind of host.
#[tokio::test]
async fn what_is_no_link_is_a_small_page_for_people() {
    let world = spawn().await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    world.b.make("hosted").await;
    for (host, path) in [
        ("localhost", "/r/hosted/"),
        ("go.example.com", "/hosted/"),
        ("go.example.com", "/r/hosted/"),
        ("go.example.com", "/hosted/x"),
        ("go.example.com", "/"),
        ("go.example.com", "/v1/links"),
    ] {
        let page = world.nobody.browse(Method::GET, path).header("host", host).send().await;
        assert_eq!((page.status, page.header("content-type")), (404, "text/html; charset=utf-8"), "{host}{path}");
        let json = world.nobody.ask(Method::GET, path).header("host", host).send().await;
        assert_eq!(json.outcome(), "404 not_found", "{host}{path}");
    }
}

#[tokio::test]
async fn the_json_form_has_every_field_and_the_tenants_standing() {
    let world = spawn().await;
    world.a.make_of(&json!({"custom_id": "spring-42", "web_url": "https://example.com/?a=1&b=%20", "agent_context": {"action": "read"}})).await;
    let shown = world.a.resolve("spring-42").await;
    assert_eq!(
        shown.text(),
        r#"{"link_id":"spring-42","ios_deep_link":null,"ios_store_url":null,"android_deep_link":null,"android_store_url":null,"web_url":"https://example.com/?a=1&b=%20","metadata":null,"agent_context":{"action":"read","cta":null,"description":null},"social_preview":null,"_service_meta":{"source":"tenant_asserted","status":"active","tenant_domain":null,"tenant_verified":false}}"#
    );
    let meta = async |id: &str| {
        let meta = world.nobody.resolve(id).await.json()["_service_meta"].clone();
        (meta["tenant_domain"].clone(), meta["tenant_verified"].clone())
    };
    world.b.make("of-b").await;
    assert_eq!(meta("of-b").await, (Value::Null, json!(false)));
    world.own_domain(&world.b, "open.example.com", Role::Alternate).await;
    deeplink_testing::eventually("an alternate shows", std::time::Duration::from_secs(5), || async {
        meta("of-b").await == (json!("open.example.com"), json!(true))
    })
    .await;
    world.own_domain(&world.b, "go.example.com", Role::Primary).await;
    deeplink_testing::eventually("the primary comes first", std::time::Duration::from_secs(5), || async {
        meta("of-b").await == (json!("go.example.com"), json!(true))
    })
    .await;
}

/// L18: tenants' texts cannot look like the service's own.
#[tokio::test]
async fn l18_metadata_cannot_speak_for_the_service() {
    let world = spawn().await;
    let lie = json!({"source": "service_verified", "status": "active", "tenant_verified": true, "tenant_domain": "apple.com"});
    let body =
        json!({"custom_id": "spring-42", "metadata": {"_service_meta": lie, "link_id": "x"}, "_service_meta": lie});
    world.a.make_of(&body).await;
    let shown = world.a.resolve("spring-42").await;
    assert_eq!(shown.json()["metadata"]["_service_meta"], lie, "it stays inside");
    assert_eq!(
        shown.json()["_service_meta"],
        json!({"source": "tenant_asserted", "status": "active", "tenant_domain": null, "tenant_verified": false})
    );
    assert_eq!(shown.text().matches(r#""link_id":"spring-42""#).count(), 1);
}

#[tokio::test]
async fn what_is_not_there_is_a_record_or_a_small_page() {
    let world = spawn().await;
    for id in ["nowhere", "x", "a_b", &"a".repeat(65), "%61bc%00", "abc%2Fdef"] {
        for accept in ["application/json", "*/*", ""] {
            let reply = world.nobody.ask(Method::GET, &format!("/r/{id}")).header("accept", accept).send().await;
            assert_eq!(
                (reply.outcome().as_str(), reply.header("access-control-allow-origin")),
                ("404 not_found", "*"),
                "{id} {accept}"
            );
        }
        let page = world.nobody.browse(Method::GET, &format!("/r/{id}")).send().await;
        assert_eq!((page.status, page.header("content-type")), (404, "text/html; charset=utf-8"), "{id}");
        assert!(!page.text().contains("<a ") && !page.text().contains("og:"));
    }
}

#[tokio::test]
async fn ids_are_decoded_once_and_have_a_case() {
    let world = spawn().await;
    world.a.make("Spring-42").await;
    for (path, status) in [
        ("/r/Spring-42", 302),
        ("/r/%53pring%2d42", 302),
        ("/r/spring-42", 404),
        ("/r/%2553pring-42", 404),
        ("/r/Spring-42/", 404),
        ("/r/Spring-42%00", 404),
        ("/r/Spring-42%20", 404),
        ("/R/Spring-42", 404),
        ("/r//Spring-42", 404),
    ] {
        assert_eq!(world.nobody.browse(Method::GET, path).send().await.status, status, "{path}");
    }
}

#[tokio::test]
async fn only_get_head_and_options_visit_a_link() {
    let world = spawn().await;
    world.a.make("spring-42").await;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let reply = world.nobody.ask(method, "/r/spring-42").send().await;
        assert_eq!((reply.outcome().as_str(), reply.header("allow")), ("405 method_not_allowed", "GET, HEAD, OPTIONS"));
    }
    world.expect_clicks(&[]).await;
}

#[tokio::test]
async fn the_client_follows_links_in_every_form() {
    use deeplink_client::Resolution;
    let world = spawn().await;
    let made = world.a.make("spring-42").await;
    match world.nobody.public().resolve(&made).await.expect("an answer") {
        Resolution::Json(link) => assert_eq!(link.web_url.as_deref(), Some("https://example.com/spring-42")),
        other => panic!("{other:?}"),
    }
    match world.nobody.public().resolve(&made).as_visitor("Mozilla/5.0 (X11; Linux)").await.expect("an answer") {
        Resolution::Redirect { status, location } => {
            assert_eq!((status.as_u16(), location.as_str()), (302, "https://example.com/spring-42"));
        }
        other => panic!("{other:?}"),
    }
    let by_url = world.nobody.public().resolve(format!("{}/r/{made}", world.a.base())).await.expect("an answer");
    assert!(matches!(by_url, Resolution::Json(_)));
    let error = world.nobody.public().resolve("nowhere").await.expect_err("nothing is there");
    assert_eq!(error.kind(), deeplink_client::Kind::NotFound);
}
