//! The plan: what is sent, what is refused before sending, and what no text shows.

use deeplink_client::deeplink_core::error::ErrorCode;
use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::{BillingMethod, Client, Kind, SecretKey, SubscriptionStatus, Tier};
use http::Method;

fn client(mock: &MockTransport) -> Client {
    let key = SecretKey::new("dl_live_x");
    Client::builder("https://api.example.com").secret_key(key).transport(mock.clone()).build().unwrap()
}

#[tokio::test]
async fn each_plan_that_can_be_paid_for_has_a_page() {
    let mock = fixtures::every_operation();
    for tier in [Tier::Pro, Tier::Business, Tier::Scale] {
        client(&mock).billing().checkout(&tier).await.unwrap();
        let call = mock.calls().pop().unwrap();
        assert_eq!(call.path(), format!("/v1/billing/stripe/checkout?tier={tier}"));
        assert!(call.body.is_empty());
    }
    let sent = mock.calls().len();
    for tier in [Tier::Free, Tier::from("gold"), Tier::from("")] {
        let error = client(&mock).billing().checkout(&tier).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (Kind::Validation, Some(&ErrorCode::InvalidTier)), "{tier}");
        assert_eq!(error.field(), Some("tier"));
    }
    assert_eq!(mock.calls().len(), sent, "nothing is sent for a plan that cannot be paid for");
}

/// What a later service adds is accepted: a new word stays as it was sent.
#[tokio::test]
async fn a_status_of_a_later_service_can_be_read() {
    let mut status = serde_json::to_value(fixtures::billing_status(Tier::Scale)).unwrap();
    status["plan_tier"] = "enterprise".into();
    status["status"] = "paused".into();
    status["billing_method"] = "invoice".into();
    status["seats"] = 3.into();
    let mock = MockTransport::new().on(Method::GET, "/v1/billing/status").json(200, &status);
    let read = client(&mock).billing().status().await.unwrap();
    assert_eq!(read.plan_tier, Tier::Unknown("enterprise".into()));
    assert_eq!(read.status, SubscriptionStatus::Unknown("paused".into()));
    assert_eq!(read.billing_method, BillingMethod::Unknown("invoice".into()));
    assert_eq!((read.limits.max_domains, read.usage.links), (None, 42));
}

/// The reply of a service without a payment processor is not retried: asking again cannot help.
#[tokio::test]
async fn what_is_not_set_up_is_asked_for_once() {
    let refused = fixtures::error(ErrorCode::ProcessorNotConfigured, "this service takes no payments");
    for path in ["/v1/billing/cancel", "/v1/billing/stripe/checkout", "/v1/billing/stripe/portal"] {
        let mock = MockTransport::new().on(Method::POST, path).json(503, &refused);
        let dl = client(&mock);
        let error = match path {
            "/v1/billing/cancel" => dl.billing().cancel().await.map(drop),
            "/v1/billing/stripe/portal" => dl.billing().portal().await.map(drop),
            _ => dl.billing().checkout(&Tier::Pro).await.map(drop),
        };
        let error = error.unwrap_err();
        assert_eq!((error.kind(), mock.calls().len()), (Kind::Unavailable, 1), "{path}: {error}");
        assert!(!error.is_ambiguous() && !error.is_retryable(), "{path}");
    }
}

/// Anyone who has the URL of such a page can use it, so no debug output contains it.
#[tokio::test]
async fn nothing_shows_the_url_of_a_session() {
    let mock = fixtures::every_operation();
    let (checkout, portal) = (client(&mock).billing().checkout(&Tier::Pro), client(&mock).billing().portal());
    let (checkout, portal) = (checkout.full().await.unwrap(), portal.full().await.unwrap());
    assert!(checkout.value.checkout_url.contains("cs_test_") && portal.value.portal_url.contains("bps_"));
    let shown = format!("{checkout:?} {portal:?} {:?} {:?}", checkout.value, portal.value);
    assert!(!shown.contains("cs_test_") && !shown.contains("bps_"), "{shown}");
}
