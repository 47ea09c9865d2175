//! What is reported, to whom and with what: clicks, installs, users, conversions, sources and their addresses.

use deeplink_client::deeplink_core::time::Timestamp;
use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::{
    Attribute, Client, Convert, CreateSource, Credit, FunnelQuery, GroupBy, GroupOrder, Identify, InstallContext, Kind,
    Retry, SecretKey, SourceUrl, TrackClick,
};
use http::Method;

fn client(mock: &MockTransport) -> Client {
    let key = SecretKey::new("dl_live_x");
    Client::builder("https://api.example.com").secret_key(key).transport(mock.clone()).build().unwrap()
}

fn sale() -> Convert {
    Convert::new("user-7", "purchase")
}

#[tokio::test]
async fn rules_are_applied_before_anything_is_sent() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    let (lifecycle, far) = (dl.lifecycle(), Timestamp::from_millis(i64::MAX));
    let ids: Vec<String> = (0..101).map(|n| format!("link-{n}")).collect();
    let context = InstallContext::new().locale("l".repeat(256));
    let plain = |url: &str| SourceUrl::new(url);
    let errors = [
        lifecycle.click(&TrackClick::new(" ")).await.unwrap_err(),
        lifecycle.attribute(&Attribute::new("spring-42", "", "1")).await.unwrap_err(),
        lifecycle.attribute(&Attribute::new("spring-42", "i", "1").context(context)).await.unwrap_err(),
        lifecycle.identify(&Identify::new("i", "u\u{0}")).await.unwrap_err(),
        lifecycle.convert(&sale().amount(5, "usd")).await.unwrap_err(),
        lifecycle.convert(&sale().occurred_at(far)).await.unwrap_err(),
        lifecycle.legacy().click(&TrackClick::new("")).await.unwrap_err(),
        lifecycle.legacy().report(&Attribute::new("", "i", "1")).await.unwrap_err(),
        lifecycle.legacy().link(&Identify::new("", "u")).await.unwrap_err(),
        dl.sources().create(&CreateSource::custom(" ")).await.unwrap_err(),
        dl.sources().get("..").await.unwrap_err(),
        dl.sources()
            .send(&fixtures::source_detail("Shop").webhook_url.unwrap(), &Convert::new("", "t"))
            .await
            .unwrap_err(),
        dl.sources().send(&plain("not an address"), &sale()).await.unwrap_err(),
        dl.sources().send(&plain("ftp://api.example.com/in/5ec4e7"), &sale()).await.unwrap_err(),
        dl.sources().send(&plain("https://user:pw@api.example.com/in/5ec4e7"), &sale()).await.unwrap_err(),
        dl.sources().send(&plain("http://api.example.com/in/5ec4e7"), &sale()).await.unwrap_err(),
        dl.analytics().funnel(&FunnelQuery::new(&ids)).await.unwrap_err(),
        dl.analytics().funnel(&FunnelQuery::new(["a"]).group_by(GroupBy::from("week"))).await.unwrap_err(),
        dl.links().stats("").await.unwrap_err(),
    ];
    for error in &errors {
        assert_eq!(error.kind(), Kind::Validation, "{error}");
        assert!(!format!("{error} {error:?}").contains("5ec4e7"), "{error:?}");
    }
    assert!(mock.calls().is_empty());
}

#[tokio::test]
async fn a_report_is_asked_for_as_it_is_wanted() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    let at = |text: &str| Some(text.parse().unwrap());
    let query = FunnelQuery::new(["spring-42", "a b"])
        .window(at("2026-11-01T00:00:00+02:00"), at("2026-11-20T00:00:00Z"))
        .credit(Credit::Touched);
    dl.analytics().funnel(&query).await.unwrap();
    let by_day = FunnelQuery::new(["spring-42"]).group_by(GroupBy::Day);
    assert!(dl.analytics().funnel(&by_day).csv().await.unwrap().ends_with("2026-11-20,120,31,12,2,1,9,3,2,1\r\n"));
    let top = FunnelQuery::account().group_by(GroupBy::Link).limit(10_u32).order(GroupOrder::KeyDescending);
    dl.analytics().funnel(&top).await.unwrap();
    let asked: Vec<String> = mock.calls().iter().map(|call| call.path().to_owned()).collect();
    assert_eq!(
        asked,
        [
            "/v1/analytics/stats?credit=touched&from=2026-10-31T22%3A00%3A00.000Z&link_ids=spring-42%2Ca+b\
             &to=2026-11-20T00%3A00%3A00.000Z",
            "/v1/analytics/stats?group_by=day&link_ids=spring-42&format=csv",
            "/v1/analytics/stats?group_by=link&limit=10&order=-key",
        ]
    );
    // A captive portal's page is not a report.
    let page = MockTransport::new().on(Method::GET, "/v1/analytics/stats").bytes(200, "text/html", "<html>");
    assert!(client(&page).analytics().funnel(&by_day).csv().await.is_err());
}

/// Goes to exactly the address of the source, wherever that is, with nothing else that identifies the caller.
#[tokio::test]
async fn a_source_is_posted_to_without_a_key() {
    let mock = fixtures::every_operation();
    let url = "https://links.example.net:8443/prefix/in/5ec4e7?a=b";
    let mock = mock.on(Method::POST, "/prefix/in/{token}").json(200, fixtures::converted());
    client(&mock).sources().send(&SourceUrl::new(url), &sale()).await.unwrap();
    let calls = mock.calls();
    let [call] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!(call.uri.to_string(), url);
    for name in ["authorization", "cookie", "idempotency-key"] {
        assert!(!call.headers.contains_key(name), "{name}");
    }
    assert_eq!(call.body, r#"{"user_id":"user-7","type":"purchase"}"#);
    // Traffic on this machine cannot be read by others.
    let local = SourceUrl::new("http://127.0.0.1:8080/in/5ec4e7");
    client(&mock).sources().send(&local, &sale()).await.unwrap();
}

/// A conversion that may have been stored is sent again only when its own key makes the service store it once.
#[tokio::test]
async fn a_source_is_asked_again_only_where_that_is_harmless() {
    let url = fixtures::source_detail("Shop").webhook_url.unwrap();
    let asked = async |mock: MockTransport, sale: Convert| {
        let call = client(&mock)
            .sources()
            .send(&url, &sale)
            .retry(Retry::attempts(2).backoff(std::time::Duration::ZERO, std::time::Duration::ZERO));
        (call.await.map_err(|error| error.is_ambiguous()), mock.calls().len())
    };
    let broken = || MockTransport::new().on(Method::POST, "/in/{token}").reset().json(200, fixtures::converted());
    let (outcome, attempts) = asked(broken(), sale()).await;
    assert_eq!((outcome.unwrap_err(), attempts), (true, 1));
    let (outcome, attempts) = asked(broken(), sale().idempotency_key("order-1001")).await;
    assert_eq!((outcome.unwrap().accepted, attempts), (1, 2));
    let busy = MockTransport::new().on(Method::POST, "/in/{token}").status(429).retry_after(0);
    let (outcome, attempts) = asked(busy.json(200, fixtures::converted()), sale()).await;
    assert_eq!((outcome.unwrap().accepted, attempts), (1, 2));
}

/// Debug output does not contain the address of a source.
#[tokio::test]
async fn nothing_shows_the_address_of_a_source() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    let url = fixtures::source_detail("Shop").webhook_url.unwrap();
    let call = dl.sources().send(&url, &sale());
    let lost = MockTransport::new().on(Method::POST, "/in/{token}").reset();
    let error = client(&lost).sources().send(&url, &sale()).await.unwrap_err();
    let refused = MockTransport::new().on(Method::POST, "/in/{token}").bytes(404, "text/html", "<html>");
    let refusal = client(&refused).sources().send(&url, &sale()).await.unwrap_err();
    let shown = [
        format!("{call:?} {:?} {url:?} {url}", call.preview()),
        format!("{error:?} {error} {refusal:?} {refusal}"),
        format!("{:?}", dl.sources().get("src_0123456789abcdef01234567").full().await.unwrap()),
        format!("{:?}", dl.sources().list().first_page().full().await.unwrap()),
    ]
    .concat();
    assert_eq!(call.preview().unwrap().target, url.expose(), "callers who ask for it get it");
    assert!(!shown.contains(&url.expose()[30..]), "{shown}");
}
