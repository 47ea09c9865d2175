//! Building a client and calling with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::transport::BoxFuture;
use deeplink_client::{
    Auth, AuthKind, Client, CreateLink, CredentialProvider, Error, ErrorCode, Kind, LinkFilter, LinkSort, LinkStatus,
    Resolution, SecretKey, TimeseriesQuery, UpdateLink,
};
use futures_util::TryStreamExt;
use http::Method;

const KEY: &str = "dl_live_0123456789abcdef0123456789abcdef0123456789abcdef";

fn client(mock: &MockTransport) -> Client {
    Client::builder("https://api.example.com").secret_key(SecretKey::new(KEY)).transport(mock.clone()).build().unwrap()
}

#[test]
fn an_error_is_one_pointer() {
    fn shared<T: Send + Sync + 'static>() {}
    assert_eq!(size_of::<Error>(), size_of::<usize>());
    shared::<Error>();
    shared::<Client>();
}

#[test]
fn bad_settings_are_errors_of_build() {
    let with_key = |url: &str| Client::builder(url).secret_key(SecretKey::new(KEY)).build();
    for url in [
        "",
        "example.com",
        "ftp://example.com",
        "https://",
        "https://user@example.com",
        "https://user:pw@example.com",
        "https://example.com?x=1",
        "https://example.com/#x",
        "http://example.com",
        "http://10.0.0.1",
        "http://localhost.example.com",
    ] {
        let error = with_key(url).expect_err(url);
        assert_eq!(error.kind(), Kind::Builder, "{url}");
    }
    for url in [
        "https://example.com",
        "https://example.com/dl/",
        "http://localhost:8080",
        "http://127.0.0.1",
        "http://127.9.9.9:1",
        "http://[::1]:80",
    ] {
        with_key(url).expect(url);
    }
    Client::builder("http://example.com").build().expect("nothing secret goes over this");
    Client::builder("http://example.com").secret_key(SecretKey::new(KEY)).allow_insecure_http(true).build().unwrap();
    let public = Client::builder("http://example.com").build().unwrap();
    assert_eq!(public.with_auth(SecretKey::new(KEY)).unwrap_err().kind(), Kind::Builder);

    let build = |set: fn(deeplink_client::ClientBuilder) -> deeplink_client::ClientBuilder| {
        set(Client::builder("https://example.com")).build().map(drop).map_err(|error| error.kind())
    };
    assert_eq!(build(|b| b.proxy("not a url at all")), Err(Kind::Builder));
    assert_eq!(build(|b| b.proxy("http://proxy.example.com:3128")), Ok(()));
    assert_eq!(build(|b| b.user_agent("a\nb")), Err(Kind::Builder));
    assert_eq!(build(|b| b.timeout(Duration::ZERO)), Err(Kind::Builder));
    assert_eq!(build(|b| b.attempt_timeout(Duration::ZERO)), Err(Kind::Builder));
    assert_eq!(build(|b| b.root_certificate("no certificate")), Err(Kind::Builder));
    assert_eq!(build(|b| b.transport(MockTransport::new()).proxy("http://proxy.example.com")), Err(Kind::Builder));
    assert_eq!(
        build(|b| b.transport(MockTransport::new()).connect_timeout(Duration::from_secs(1))),
        Err(Kind::Builder)
    );
}

#[tokio::test]
async fn nothing_is_sent_before_a_call_is_awaited() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    let link = CreateLink::new().custom_id("spring-42");
    let call = dl.links().create(&link);
    let preview = call.preview().unwrap();
    assert_eq!((preview.method, preview.target), (&Method::POST, "/v1/links"));
    assert_eq!(preview.body, Some(br#"{"custom_id":"spring-42"}"#.as_slice()));
    drop(call);
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn the_whole_reply_is_there_when_wanted() {
    let body = r#"{"link_id":"abc","url":"https://go.example.com/abc","expires_at":null,"later":[1.50]}"#;
    let mock = MockTransport::new()
        .on(Method::POST, "/v1/links")
        .bytes(201, "application/json", body)
        .header("x-request-id", "req-1")
        .header("idempotency-replayed", "true");
    let full = client(&mock).links().create(&CreateLink::new()).full().await.unwrap();
    assert_eq!((full.value.link_id.as_str(), full.status.as_u16(), &full.raw[..]), ("abc", 201, body.as_bytes()));
    assert_eq!(full.request_id.as_deref(), Some("req-1"));
    assert!(full.is_replayed());
}

#[tokio::test]
async fn credentials_go_where_they_belong() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    dl.links().get("spring-42").await.unwrap();
    dl.public().health().await.unwrap();
    dl.public().resolve("spring-42").await.unwrap();
    dl.request(Method::GET, "/v1/links").await.unwrap();
    dl.request(Method::GET, "/v1/links").without_auth().await.unwrap();
    let sent: Vec<bool> =
        mock.calls().iter().map(|call| call.header("authorization") == format!("Bearer {KEY}")).collect();
    assert_eq!(sent, [true, false, false, true, false]);
    assert!(mock.calls()[0].headers["authorization"].is_sensitive());

    let nobody = dl.with_auth(Auth::None).unwrap();
    let error = nobody.links().get("spring-42").await.unwrap_err();
    assert_eq!(error.kind(), Kind::WrongCredential { needs: AuthKind::SecretKey, have: AuthKind::None });
    assert_eq!(error.attempts(), 0);
    assert_eq!(mock.calls().len(), 5);
    nobody.request(Method::GET, "/v1/links").await.unwrap();
}

/// Returns keys in turn and counts how often it was asked.
struct Turns(AtomicU32);

impl CredentialProvider for Turns {
    fn secret_key<'a>(
        &'a self,
        refused: Option<&'a SecretKey>,
    ) -> BoxFuture<'a, Result<SecretKey, Box<dyn std::error::Error + Send + Sync>>> {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        assert_eq!(refused.map(|key| key.expose().to_owned()), (turn % 2 == 1).then(|| format!("key-{}", turn - 1)));
        Box::pin(async move { Ok(SecretKey::new(format!("key-{turn}"))) })
    }
}

#[tokio::test]
async fn a_provider_is_asked_once_more_after_a_401() {
    let refused = fixtures::error(ErrorCode::InvalidKey, "no");
    let mock = MockTransport::new()
        .on(Method::GET, "/v1/links/{id}")
        .json(401, &refused)
        .json(200, fixtures::link_detail("abc"))
        .json(401, &refused);
    let dl = Client::builder("https://api.example.com")
        .auth(Auth::Provider(Arc::new(Turns(AtomicU32::new(0)))))
        .transport(mock.clone())
        .build()
        .unwrap();
    dl.links().get("abc").await.unwrap();
    assert_eq!(dl.links().get("abc").await.unwrap_err().kind(), Kind::Auth);
    let keys: Vec<String> = mock.calls().iter().map(|call| call.header("authorization").to_owned()).collect();
    assert_eq!(keys, ["Bearer key-0", "Bearer key-1", "Bearer key-2", "Bearer key-3"]);
}

#[tokio::test]
async fn rules_are_applied_before_anything_is_sent() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    let bad = CreateLink::new().web_url("ftp://example.com");
    let many: Vec<String> = (0..101).map(|n| format!("id-{n}")).collect();
    let errors = [
        dl.links().create(&bad).await.unwrap_err(),
        dl.links().update("abc", &UpdateLink::new()).await.unwrap_err(),
        dl.links().bulk_create(&CreateLink::new(), many).await.unwrap_err(),
        dl.links().bulk_create(&CreateLink::new(), ["abc", "abc"]).await.unwrap_err(),
        dl.links().bulk_create_links(&vec![CreateLink::new(); 101]).await.unwrap_err(),
        dl.links().get("").await.unwrap_err(),
        dl.links().delete("..").await.unwrap_err(),
        dl.links().list(&LinkFilter::new()).page_size(101).first_page().await.unwrap_err(),
        dl.links().list(&LinkFilter::new().status(LinkStatus::from("odd"))).first_page().await.unwrap_err(),
        dl.links().list(&LinkFilter::new().domain("go.example.com:443")).first_page().await.unwrap_err(),
        dl.sessions().signup(&deeplink_client::Signup::new("nobody")).await.unwrap_err(),
        dl.links().get("abc").header("authorization", "Bearer x").await.unwrap_err(),
        dl.links().get("abc").header("x-a", "b\nc").await.unwrap_err(),
        dl.request(Method::GET, "https://example.com/").await.unwrap_err(),
        dl.request(Method::GET, "/v1").header("Cookie", "a=b").await.unwrap_err(),
        dl.public().resolve("javascript://x").await.unwrap_err(),
    ];
    for error in &errors {
        assert_eq!(error.kind(), Kind::Validation, "{error}");
    }
    assert_eq!(errors[0].code(), Some(&ErrorCode::InvalidUrl));
    assert_eq!(errors[0].field(), Some("web_url"));
    assert_eq!(errors[2].code(), Some(&ErrorCode::BatchTooLarge));
    assert_eq!(errors[3].batch_errors()[0].index, 1);
    assert!(mock.calls().is_empty());

    dl.links().create(&bad).unchecked().await.unwrap();
    assert_eq!(mock.calls()[0].body, r#"{"web_url":"ftp://example.com"}"#);
}

#[tokio::test]
async fn errors_answer_questions() {
    let record = r#"{"error":"1 row failed","code":"invalid_batch","request_id":"req-9",
        "errors":[{"index":3,"code":"link_id_taken","message":"taken","custom_id":"b"},{"index":1,"code":"later_code","message":"x","custom_id":null}]}"#;
    let mock = MockTransport::new().on(Method::POST, "/v1/links/bulk").bytes(400, "application/json", record);
    let error = client(&mock).links().bulk_create(&CreateLink::new(), ["abc", "abd"]).await.unwrap_err();
    assert_eq!((error.kind(), error.status().unwrap().as_u16()), (Kind::BadRequest, 400));
    let indexes: Vec<u64> = error.batch_errors().iter().map(|row| row.index).collect();
    assert_eq!(indexes, [1, 3]);
    assert_eq!(error.batch_errors()[0].code.as_str(), "later_code");
    assert_eq!(error.request_id(), Some("req-9"));
    assert_eq!(error.to_string(), "1 row failed (invalid_batch, HTTP 400, request req-9)");
    assert_eq!(error.body().unwrap(), record.as_bytes());

    let quota = r#"{"error":"50 links","code":"quota_exceeded","resource":"links","limit":50,"current":50}"#;
    let mock = MockTransport::new()
        .on(Method::POST, "/v1/links")
        .bytes(402, "application/json", quota)
        .header("payment-required", "challenge");
    let error = client(&mock).links().create(&CreateLink::new()).await.unwrap_err();
    let payment = error.payment().unwrap();
    assert_eq!((payment.resource, payment.limit, payment.current), (Some("links"), Some(50), Some(50)));
    assert_eq!(payment.challenge, Some("challenge"));
    assert_eq!(error.kind(), Kind::PaymentRequired);
}

#[tokio::test]
async fn each_status_has_its_kind() {
    for (status, kind) in [
        (400, Kind::BadRequest),
        (401, Kind::Auth),
        (402, Kind::PaymentRequired),
        (403, Kind::Forbidden),
        (404, Kind::NotFound),
        (405, Kind::Api),
        (409, Kind::Conflict),
        (413, Kind::BadRequest),
        (415, Kind::BadRequest),
        (418, Kind::Api),
        (302, Kind::Api),
        (304, Kind::Api),
    ] {
        let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").status(status);
        assert_eq!(client(&mock).links().get("abc").await.unwrap_err().kind(), kind, "{status}");
    }
    for (status, kind) in [(429, Kind::RateLimited), (500, Kind::Server), (503, Kind::Unavailable), (507, Kind::Server)]
    {
        let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").status(status);
        let call = client(&mock).links().get("abc").retry(deeplink_client::Retry::none());
        assert_eq!(call.await.unwrap_err().kind(), kind, "{status}");
    }
}

#[tokio::test]
async fn a_page_that_is_not_the_services_is_not_decoded() {
    let page = format!("<html>{}</html>", "x".repeat(2_000));
    for status in [200, 502] {
        let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").bytes(status, "text/html", page.clone());
        let call = client(&mock).links().get("abc").retry(deeplink_client::Retry::none());
        let error = call.await.unwrap_err();
        assert_eq!(error.status().unwrap().as_u16(), status);
        assert_ne!(error.kind(), Kind::Decode);
        assert_eq!(error.body().unwrap(), &page.as_bytes()[..512]);
        assert!(format!("{error:?}").len() < 1_200);
    }
    let cut = r#"{"link_id":"abc","url":"#;
    let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").bytes(200, "application/json", cut);
    assert_eq!(client(&mock).links().get("abc").await.unwrap_err().kind(), Kind::Decode);
    let odd = serde_json::json!({"links": [{"link_id": 7}], "next_cursor": null});
    let mock = MockTransport::new().on(Method::GET, "/v1/links").json(200, odd);
    let error = client(&mock).links().list(&LinkFilter::new()).first_page().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Decode);
    assert!(error.message().contains("links[0].link_id"), "{error}");
}

#[tokio::test]
async fn no_text_of_an_error_shows_the_key() {
    let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").status(401);
    let dl = client(&mock);
    let error = dl.links().get("abc").await.unwrap_err();
    for text in [format!("{error}"), format!("{error:?}"), format!("{dl:?}"), format!("{:?}", dl.links())] {
        assert!(!text.contains(&KEY[18..]), "{text}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_an_error() {
    let mock =
        MockTransport::new().on(Method::GET, "/llms.txt").bytes(200, "text/plain", vec![b'x'; 16 * 1024 * 1024 + 1]);
    let error = client(&mock).public().llms().await.unwrap_err();
    assert!(error.message().contains("larger than 16 MiB"), "{error}");
    let mock = MockTransport::new().on(Method::GET, "/llms.txt").bytes(200, "text/plain", vec![b'x'; 16 * 1024 * 1024]);
    assert_eq!(client(&mock).public().llms().await.unwrap().len(), 16 * 1024 * 1024);
}

#[tokio::test]
async fn the_user_agent_names_caller_and_client() {
    let mock = fixtures::every_operation();
    client(&mock).public().health().await.unwrap();
    let named =
        Client::builder("https://api.example.com").user_agent("shop/2").transport(mock.clone()).build().unwrap();
    named.public().health().await.unwrap();
    let own = concat!("deeplink-client/", env!("CARGO_PKG_VERSION"));
    let agents: Vec<String> = mock.calls().iter().map(|call| call.header("user-agent").to_owned()).collect();
    assert_eq!(agents, [own.to_owned(), format!("shop/2 {own}")]);
}

#[tokio::test]
async fn a_path_prefix_of_the_base_is_kept() {
    let mock = MockTransport::new().on(Method::GET, "/dl/health").json(200, fixtures::health("ok"));
    let dl = Client::builder("https://example.com/dl/").transport(mock.clone()).build().unwrap();
    dl.public().health().await.unwrap();
    assert_eq!(mock.calls()[0].uri.to_string(), "https://example.com/dl/health");
}

#[tokio::test]
async fn resolving_has_three_answers() {
    let mock = MockTransport::new()
        .on(Method::GET, "/r/spring-42")
        .json(200, fixtures::resolved_link("spring-42"))
        .status(302)
        .header("location", "https://example.com/x")
        .bytes(410, "text/html", "<p>over</p>")
        .bytes(404, "text/html", "<p>nothing</p>")
        .on(Method::HEAD, "/r/spring-42")
        .status(302)
        .header("location", "https://example.com/x")
        .on(Method::HEAD, "/spring-42")
        .status(200)
        .on(Method::GET, "/other")
        .json(200, fixtures::resolved_link("other"));
    let dl = client(&mock);
    let public = dl.public();
    let Resolution::Json(link) = public.resolve("spring-42").await.unwrap() else { panic!("not JSON") };
    assert_eq!(link.link_id, "spring-42");
    let redirect = Resolution::Redirect { status: http::StatusCode::FOUND, location: "https://example.com/x".into() };
    assert_eq!(public.resolve("spring-42").as_visitor("Mozilla/5.0").await.unwrap(), redirect);
    let page = Resolution::Page { status: http::StatusCode::GONE, body: "<p>over</p>".into() };
    assert_eq!(public.resolve("spring-42").as_visitor("Mozilla/5.0").await.unwrap(), page);
    assert_eq!(public.resolve("spring-42").await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(public.resolve("spring-42").as_visitor("Mozilla/5.0").head().await.unwrap(), redirect);
    let asked = public.resolve("spring-42").as_visitor("Mozilla/5.0").head().on_host("go.example.com").await.unwrap();
    assert_eq!(asked, Resolution::Page { status: http::StatusCode::OK, body: String::new() });
    public.resolve("https://go.example.net/other#x").await.unwrap();
    let calls = mock.calls();
    assert_eq!(calls[0].header("accept"), "application/json");
    assert_eq!((calls[1].header("accept"), calls[1].header("user-agent")), ("text/html", "Mozilla/5.0"));
    assert_eq!(calls[5].header("host"), "go.example.com");
    assert_eq!(calls[6].uri.to_string(), "https://go.example.net/other");
    assert!(calls.iter().all(|call| call.header("authorization").is_empty()));
}

#[tokio::test]
async fn ids_and_queries_are_encoded() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    dl.links().get("a/b?c").await.unwrap();
    let query = serde_json::from_str::<TimeseriesQuery>(
        r#"{"from":"2026-11-01T00:00:00Z","to":"2026-11-02T00:00:00Z","granularity":"hourly"}"#,
    );
    dl.links().timeseries("abc", &query.unwrap()).await.unwrap();
    dl.links().list(&LinkFilter::new().q("a b&c")).cursor("x+/=").page_size(7).first_page().await.unwrap();
    let disabled = LinkFilter::new().enabled(false).domain("go.example.com").sort(LinkSort::Oldest);
    dl.links().list(&disabled).page_size(7).first_page().await.unwrap();
    dl.request(Method::GET, "/v1/links?limit=1").query("q", "ä=").await.unwrap();
    let paths: Vec<String> = mock.calls().iter().map(|call| call.path().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "/v1/links/a%2Fb%3Fc",
            "/v1/links/abc/timeseries?from=2026-11-01T00%3A00%3A00.000Z&granularity=hourly&to=2026-11-02T00%3A00%3A00.000Z",
            "/v1/links?q=a+b%26c&cursor=x%2B%2F%3D&limit=7",
            "/v1/links?domain=go.example.com&enabled=false&sort=oldest&limit=7",
            "/v1/links?limit=1&q=%C3%A4%3D",
        ]
    );
}

#[tokio::test]
async fn raw_calls_give_any_reply_and_keep_the_rules() {
    let mock = MockTransport::new()
        .on(Method::POST, "/v1/anything")
        .status(500)
        .bytes(418, "text/plain", "short and stout")
        .header("x-a", "b")
        .on(Method::DELETE, "/v1/anything")
        .status(204);
    let dl = client(&mock);
    let reply = dl.request(Method::POST, "/v1/anything").body("text/plain", "hello").header("X-B", "c").await.unwrap();
    assert_eq!((reply.status.as_u16(), &reply.body[..], reply.attempts), (418, &b"short and stout"[..], 2));
    assert_eq!(reply.headers["x-a"], "b");
    assert_eq!(reply.to_error().unwrap().kind(), Kind::Api);
    let call = &mock.calls()[1];
    assert_eq!((&call.body[..], call.header("content-type"), call.header("x-b")), (&b"hello"[..], "text/plain", "c"));
    assert_eq!(call.header("idempotency-key").len(), 32);
    assert!(dl.request(Method::DELETE, "/v1/anything").await.unwrap().to_error().is_none());
}

#[tokio::test]
async fn dropping_a_call_cancels_it() {
    let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").silence();
    let dl = client(&mock);
    let call = dl.links().get("abc").into_future();
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    mock.assert_calls(&Method::GET, "/v1/links/{id}", 1);
}

use std::future::IntoFuture as _;

fn cursors(pages: &[(&str, Option<&str>)]) -> MockTransport {
    let mut mock = MockTransport::new();
    for (asked, next) in pages {
        let query = if asked.is_empty() { String::new() } else { format!("cursor={asked}&") };
        let id = format!("after-{asked}");
        let ids = if *asked == "empty" { vec![] } else { vec![id.as_str()] };
        mock = mock.on(Method::GET, &format!("/v1/links?{query}limit=100")).json(200, fixtures::link_list(&ids, *next));
    }
    mock
}

#[tokio::test]
async fn lists_are_read_to_their_end() {
    let mock = cursors(&[("", Some("a")), ("a", Some("empty")), ("empty", Some("b")), ("b", None)]);
    let items: Vec<_> = client(&mock).links().list(&LinkFilter::new()).items().try_collect().await.unwrap();
    let ids: Vec<&str> = items.iter().map(|link| link.link_id.as_str()).collect();
    assert_eq!(ids, ["after-", "after-a", "after-b"]);
    mock.assert_used();
    assert_eq!(mock.calls().len(), 4);
}

#[tokio::test]
async fn a_repeated_cursor_is_an_error_and_not_a_loop() {
    for prefetch in [false, true] {
        let mock = cursors(&[("", Some("a")), ("a", Some("b")), ("b", Some("a"))]);
        let list = client(&mock).links().list(&LinkFilter::new());
        let mut pages = if prefetch { list.prefetch() } else { list }.pages();
        for _ in 0..3 {
            assert!(pages.try_next().await.unwrap().is_some());
        }
        assert_eq!(pages.try_next().await.unwrap_err().kind(), Kind::Decode);
        assert!(pages.try_next().await.unwrap().is_none(), "a stream ends with its error");
        assert_eq!(mock.calls().len(), 3);
    }
}

#[tokio::test]
async fn a_failed_list_is_resumed_at_its_cursor() {
    let mock = cursors(&[("", Some("a")), ("b", None)]);
    let mock = mock
        .on(Method::GET, "/v1/links?cursor=a&limit=100")
        .status(400)
        .json(200, fixtures::link_list(&["x"], Some("b")));
    let dl = client(&mock);
    let mut pages = dl.links().list(&LinkFilter::new()).pages();
    pages.try_next().await.unwrap();
    assert!(pages.try_next().await.is_err());
    assert!(pages.try_next().await.unwrap().is_none());
    let cursor = pages.cursor().unwrap().to_owned();
    assert_eq!(cursor, "a");
    let rest: Vec<_> = dl.links().list(&LinkFilter::new()).cursor(cursor).pages().try_collect().await.unwrap();
    assert_eq!(rest.len(), 2);
}

#[tokio::test]
async fn pages_are_fetched_as_they_are_wanted() {
    for (prefetch, asked) in [(false, 1), (true, 2)] {
        let mock = cursors(&[("", Some("a")), ("a", Some("b")), ("b", None)]);
        let list = client(&mock).links().list(&LinkFilter::new());
        let mut pages = if prefetch { list.prefetch() } else { list }.pages();
        assert!(mock.calls().is_empty(), "lazy");
        pages.try_next().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(mock.calls().len(), asked);
    }
}
