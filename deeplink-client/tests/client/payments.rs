//! Paying for single requests: who is asked, what is sent, and that it is sent only once.

use std::error::Error as StdError;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deeplink_client::bulk::{Concurrency, MemorySource};
use deeplink_client::deeplink_core::x402::{
    CHALLENGE, ChallengeV2, PAYMENT_V1, PAYMENT_V2, Payment, RECEIPT_V1, RECEIPT_V2, Resource, Version, to_header,
};
use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::transport::BoxFuture;
use deeplink_client::{
    Auth, AuthKind, Client, CreateLink, CredentialProvider, ErrorCode, Kind, Payer, PublishableKey, Receipt,
    Requirement, Retry, SecretKey, SentPayment, Token,
};
use futures_util::StreamExt;
use http::Method;
use serde_json::{Value, json};

/// Signs payments up to this amount, and records what it signed.
#[derive(Clone)]
struct Wallet {
    most: u64,
    signed: Arc<Mutex<Vec<Requirement>>>,
}

impl Wallet {
    fn new(most: u64) -> Self {
        Self { most, signed: Arc::default() }
    }

    fn signed(&self) -> Vec<Requirement> {
        self.signed.lock().unwrap().clone()
    }
}

impl Payer for Wallet {
    fn pay<'a>(
        &'a self,
        requirement: &'a Requirement,
    ) -> BoxFuture<'a, Result<Value, Box<dyn StdError + Send + Sync>>> {
        Box::pin(async move {
            if requirement.amount.parse::<u64>()? > self.most {
                return Err("too expensive".into());
            }
            let mut signed = self.signed.lock().unwrap();
            signed.push(requirement.clone());
            Ok(json!({"signature": format!("0x{}", signed.len())}))
        })
    }
}

fn client(mock: &MockTransport, wallet: &Wallet) -> Client {
    Client::builder("https://api.example.com").payer(wallet.clone()).transport(mock.clone()).build().unwrap()
}

fn receipt(success: bool) -> Receipt {
    let error_reason = (!success).then(|| "insufficient_funds".to_owned());
    let transaction = if success { "0xabc".into() } else { String::new() };
    Receipt { success, transaction, network: "eip155:84532".into(), payer: "0x1".into(), error_reason }
}

fn requirement(amount: &str) -> Requirement {
    fixtures::payment_required(amount).accepts.remove(0).into()
}

/// A reply that asks for a payment in version 2 only.
fn asks_in_a_header(mock: MockTransport, amount: &str) -> MockTransport {
    let resource = Resource { url: "https://api.example.com/v1/links".into(), description: None, mime_type: None };
    let accepts = vec![requirement(amount)];
    let challenge = ChallengeV2 { version: 2, error: None, resource, accepts };
    mock.json(402, fixtures::error(ErrorCode::PaymentRequired, "send a payment"))
        .header(CHALLENGE, &to_header(&challenge).unwrap())
}

#[tokio::test]
async fn a_request_is_paid_for_in_the_version_that_it_is_asked_in() {
    for version in [Version::V1, Version::V2] {
        let mock = MockTransport::new().on(Method::POST, "/v1/links");
        let (mock, name, receipt_header) = match version {
            Version::V1 => (mock.json(402, fixtures::payment_required("10000")), PAYMENT_V1, RECEIPT_V1),
            Version::V2 => (asks_in_a_header(mock, "10000"), PAYMENT_V2, RECEIPT_V2),
        };
        let receipt = receipt(true);
        let mock = mock.json(201, fixtures::created_link("a")).header(receipt_header, &to_header(&receipt).unwrap());
        let wallet = Wallet::new(10_000);
        let made = client(&mock, &wallet).links().create(&CreateLink::new()).full().await.unwrap();
        assert_eq!((made.value.link_id.as_str(), made.receipt()), ("a", Some(receipt)));
        assert_eq!(wallet.signed(), [requirement("10000")]);
        let calls = mock.calls();
        assert_eq!(calls.len(), 2);
        assert!(!calls[0].headers.contains_key(name) && !calls[1].headers.contains_key("authorization"));
        assert_eq!(calls[0].header("idempotency-key"), calls[1].header("idempotency-key"));
        let sent = Payment::read(version, calls[1].header(name).as_bytes()).unwrap();
        assert_eq!(sent.payload(), &json!({"signature": "0x1"}));
        assert!(calls[1].headers[name].is_sensitive());
    }
}

/// A payment is signed once; further attempts carry it again. Asking while the first one is still being settled does
/// not count as an attempt.
#[tokio::test(start_paused = true)]
async fn the_same_payment_is_sent_again() {
    let mock = MockTransport::new()
        .on(Method::GET, "/v1/links/{link_id}")
        .json(402, fixtures::payment_required("10000"))
        .timeout()
        .json(409, fixtures::error(ErrorCode::PaymentInProgress, "wait"))
        .retry_after(1)
        .json(409, fixtures::error(ErrorCode::PaymentInProgress, "wait"))
        .retry_after(1)
        .json(200, fixtures::link_detail("a"));
    let wallet = Wallet::new(10_000);
    let dl = client(&mock, &wallet);
    dl.links().get("a").retry(Retry::attempts(2)).await.unwrap();
    let calls = mock.calls();
    let payments: Vec<_> = calls[1..].iter().map(|call| call.header(PAYMENT_V1).to_owned()).collect();
    assert_eq!((payments.len(), wallet.signed().len()), (4, 1));
    assert!(payments.iter().all(|payment| !payment.is_empty() && *payment == payments[0]));
    assert!(calls.iter().all(|call| call.header("idempotency-key") == calls[0].header("idempotency-key")));
}

#[tokio::test]
async fn what_is_asked_for_is_in_the_error_where_nobody_pays() {
    let asks = || MockTransport::new().on(Method::POST, "/v1/links").json(402, fixtures::payment_required("10000"));
    let create = |dl: Client| async move { dl.links().create(&CreateLink::new()).await.unwrap_err() };
    // A key is never exchanged for a payment, a payer may refuse, and a payment is asked for once.
    let mock = asks();
    let key = SecretKey::new("dl_live_0123456789abcdef0123456789abcdef0123456789abcdef");
    let keyed = Client::builder("https://api.example.com").secret_key(key).payer(Wallet::new(u64::MAX));
    let error = create(keyed.transport(mock.clone()).build().unwrap()).await;
    assert_eq!((error.kind(), mock.calls().len()), (Kind::PaymentRequired, 1));
    let asked = error.payment().unwrap().asked.unwrap().clone();
    assert_eq!((asked.version, &*asked.accepts), (Version::V1, &[requirement("10000")][..]));

    let (mock, wallet) = (asks(), Wallet::new(9_999));
    let error = create(client(&mock, &wallet)).await;
    assert_eq!(
        (error.kind(), error.message(), mock.calls().len()),
        (Kind::PaymentRequired, "the payer did not sign the payment", 1)
    );
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("too expensive"));
    assert_eq!((error.payment().unwrap().asked, error.attempts()), (Some(&asked), 1));

    let mock =
        asks().json(402, fixtures::payment_required("10000")).header(RECEIPT_V1, &to_header(&receipt(false)).unwrap());
    let wallet = Wallet::new(10_000);
    let error = create(client(&mock, &wallet)).await;
    assert_eq!((mock.calls().len(), wallet.signed().len()), (2, 1));
    assert_eq!(error.receipt(), Some(&receipt(false)));
}

#[tokio::test]
async fn a_payer_pays_for_what_can_be_paid_for_only() {
    let wallet = Wallet::new(10_000);
    let dl = client(&MockTransport::new(), &wallet);
    let error = dl.affiliates().list().await.unwrap_err();
    assert!(matches!(error.kind(), Kind::WrongCredential { .. }), "{error}");
    let error = Client::builder("http://links.example.com").payer(wallet).build().unwrap_err();
    assert_eq!(error.kind(), Kind::Builder);
}

/// A call that failed after it was paid for returns its payment, even if no answer came; the same call with that
/// payment sends it again under the same key, and nothing else is signed.
#[tokio::test(start_paused = true)]
async fn what_was_paid_with_is_taken_again() {
    for lost in [true, false] {
        let mock = MockTransport::new().on(Method::POST, "/v1/links").json(402, fixtures::payment_required("10000"));
        let mock = if lost {
            mock.timeout()
        } else {
            mock.json(503, fixtures::error(ErrorCode::FacilitatorUnavailable, "not known yet"))
        };
        let mock = mock.json(402, fixtures::payment_required("10000")).json(201, fixtures::created_link("a"));
        let wallet = Wallet::new(10_000);
        let dl = client(&mock, &wallet);
        let create = || dl.links().create(&CreateLink::new());
        let error = create().retry(Retry::none()).await.unwrap_err();
        let sent = error.sent_payment().unwrap();
        assert!(!format!("{error:?} {sent:?}").contains(sent.value()));
        // As if restored from a file.
        let sent = SentPayment::new(sent.header(), sent.value(), sent.idempotency_key()).unwrap();
        let refused = create().pay_with(&sent).retry(Retry::none()).await.unwrap_err();
        assert_eq!((refused.kind(), refused.sent_payment()), (Kind::PaymentRequired, Some(&sent)));
        create().pay_with(&sent).await.unwrap();
        assert_eq!(wallet.signed().len(), 1);
        for call in &mock.calls()[1..] {
            assert_eq!(call.header(PAYMENT_V1), sent.value());
            assert_eq!(call.header("idempotency-key"), sent.idempotency_key());
        }
    }
    for (header, value, key) in
        [("authorization", "x", "k"), (PAYMENT_V1, "x", ""), (PAYMENT_V1, "", "k"), (PAYMENT_V1, "ü", "k")]
    {
        assert!(SentPayment::new(header, value, key).is_err(), "{header} {value} {key}");
    }
}

/// Nothing needs to be signed then, so no payer is needed. A lost reply is requested again.
#[tokio::test(start_paused = true)]
async fn a_client_without_a_payer_sends_a_payment_again() {
    let mock = MockTransport::new().on(Method::POST, "/v1/links").timeout().json(201, fixtures::created_link("a"));
    let dl = Client::builder("https://api.example.com").transport(mock.clone()).build().unwrap();
    let sent = SentPayment::new(PAYMENT_V2, "e30=", "k").unwrap();
    dl.links().create(&CreateLink::new()).pay_with(&sent).await.unwrap();
    dl.request(Method::POST, "/v1/links").json(&json!({})).pay_with(&sent).await.unwrap();
    let calls = mock.calls();
    assert_eq!(calls.len(), 3);
    for call in calls {
        assert_eq!((call.header(PAYMENT_V2), call.header("idempotency-key")), ("e30=", "k"));
        assert!(!call.headers.contains_key("authorization"));
    }
}

/// A key that must not be requested.
struct Unasked;

impl CredentialProvider for Unasked {
    fn secret_key<'a>(
        &'a self,
        _: Option<&'a SecretKey>,
    ) -> BoxFuture<'a, Result<SecretKey, Box<dyn StdError + Send + Sync>>> {
        panic!("nothing is to be sent")
    }
}

#[tokio::test]
async fn a_payment_that_would_not_be_sent_is_refused_before() {
    let mock = MockTransport::new();
    let sent = SentPayment::new(PAYMENT_V1, "e30=", "k").unwrap();
    for (auth, have) in [
        (Auth::from(SecretKey::new("dl_live_x")), AuthKind::SecretKey),
        (PublishableKey::new("dl_pk_x").into(), AuthKind::PublishableKey),
        (Token::new("t").into(), AuthKind::Session),
        (Auth::Provider(Arc::new(Unasked)), AuthKind::SecretKey),
    ] {
        let dl = client(&mock, &Wallet::new(10_000)).with_auth(auth).unwrap();
        let error = dl.links().create(&CreateLink::new()).pay_with(&sent).await.unwrap_err();
        assert_eq!(error.kind(), Kind::WrongCredential { needs: AuthKind::None, have });
        assert!(error.message().starts_with("only a client without a credential can send payments"), "{error}");
        let error = dl.request(Method::POST, "/v1/links").pay_with(&sent).await.unwrap_err();
        assert!(matches!(error.kind(), Kind::WrongCredential { .. }), "{error}");
    }
    let dl = Client::builder("https://api.example.com").transport(mock.clone()).build().unwrap();
    for (error, needs) in [
        (dl.affiliates().list().first_page().pay_with(&sent).await.unwrap_err(), AuthKind::SecretKey),
        (dl.public().health().pay_with(&sent).await.unwrap_err(), AuthKind::None),
    ] {
        assert_eq!(error.kind(), Kind::WrongCredential { needs, have: AuthKind::None });
        assert_eq!(error.message(), "this operation cannot be paid for");
    }
    let open = |allow| {
        let builder = Client::builder("http://links.example.com").allow_insecure_http(allow);
        builder.transport(MockTransport::new().on(Method::DELETE, "/v1/links/a").status(204)).build().unwrap()
    };
    let error = open(false).links().delete("a").pay_with(&sent).await.unwrap_err();
    assert_eq!((error.kind(), error.field()), (Kind::Validation, Some("payment")));
    open(true).links().delete("a").pay_with(&sent).await.unwrap();
    assert!(mock.calls().is_empty());
}

/// Asking for a payment's outcome costs no retry: the 500 tokens are left for failures.
#[tokio::test(start_paused = true)]
async fn asking_for_a_payment_leaves_the_budget() {
    let mut mock = MockTransport::new().on(Method::GET, "/v1/links/a").json(402, fixtures::payment_required("10000"));
    for _ in 0..150 {
        mock = mock.json(409, fixtures::error(ErrorCode::PaymentInProgress, "wait")).retry_after(0);
    }
    let mock = mock.json(200, fixtures::link_detail("a")).on(Method::GET, "/v1/links/b").status(500);
    let dl = client(&mock, &Wallet::new(10_000));
    let started = tokio::time::Instant::now();
    dl.links().get("a").timeout(Duration::from_mins(10)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(150), "{:?}", started.elapsed());
    for _ in 0..60 {
        dl.links().get("b").await.unwrap_err();
    }
    mock.assert_calls(&Method::GET, "/v1/links/b", 60 + 100);
}

/// A request that waits for a payment may still take effect.
#[tokio::test(start_paused = true)]
async fn a_write_whose_payment_is_not_settled_yet_is_ambiguous() {
    let mock = MockTransport::new().on(Method::POST, "/v1/links");
    let mock = mock.json(409, fixtures::error(ErrorCode::PaymentInProgress, "wait")).retry_after(1);
    let dl = Client::builder("https://api.example.com").transport(mock).build().unwrap();
    let sent = SentPayment::new(PAYMENT_V1, "e30=", "k").unwrap();
    let error = dl.links().create(&CreateLink::new()).pay_with(&sent).await.unwrap_err();
    assert_eq!((error.kind(), error.is_ambiguous(), error.is_retryable()), (Kind::Conflict, true, true));
}

/// A wallet that never answers.
struct Waiting;

impl Payer for Waiting {
    fn pay<'a>(&'a self, _: &'a Requirement) -> BoxFuture<'a, Result<Value, Box<dyn StdError + Send + Sync>>> {
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_payer_has_the_time_of_the_call() {
    let mock = MockTransport::new().on(Method::POST, "/v1/links").json(402, fixtures::payment_required("10000"));
    let dl = Client::builder("https://api.example.com").payer(Waiting).transport(mock.clone()).build().unwrap();
    let started = tokio::time::Instant::now();
    let error = dl.links().create(&CreateLink::new()).timeout(Duration::from_secs(5)).await.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), 5);
    assert_eq!((error.kind(), error.is_ambiguous(), error.is_retryable()), (Kind::Timeout, false, true));
    assert_eq!((error.sent_payment(), error.attempts(), mock.calls().len()), (None, 1, 1));
    assert!(error.request_id().is_some() && error.message().contains("the payer"), "{error}");
}

/// The attempt before the one that was asked to pay had no effect, whether or not it was answered.
#[tokio::test(start_paused = true)]
async fn what_came_before_the_price_is_not_ambiguous() {
    let mock = MockTransport::new()
        .on(Method::POST, "/v1/links")
        .timeout()
        .json(402, fixtures::payment_required("10000"))
        .json(503, fixtures::error(ErrorCode::FacilitatorUnavailable, "not now"));
    let dl = client(&mock, &Wallet::new(10_000));
    let error = dl.links().create(&CreateLink::new()).retry(Retry::attempts(2)).await.unwrap_err();
    assert_eq!((error.kind(), error.is_ambiguous(), mock.calls().len()), (Kind::Unavailable, false, 3));
}

/// The request was paid for, even if the reply cannot be read.
#[tokio::test]
async fn an_unreadable_reply_tells_what_was_paid_with() {
    let receipt = to_header(&receipt(true)).unwrap();
    let mock = MockTransport::new()
        .on(Method::POST, "/v1/links")
        .json(402, fixtures::payment_required("10000"))
        .json(201, json!({"link_id": 1}))
        .header(RECEIPT_V1, &receipt)
        .bytes(200, "text/html", "<html>")
        .header(RECEIPT_V1, &receipt);
    let dl = client(&mock, &Wallet::new(10_000));
    let error = dl.links().create(&CreateLink::new()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Decode);
    let sent = error.sent_payment().unwrap();
    assert!(error.receipt().unwrap().success);
    let error = dl.links().create(&CreateLink::new()).pay_with(sent).full().await.unwrap_err();
    assert_eq!((error.sent_payment(), error.receipt().map(|receipt| receipt.success)), (Some(sent), Some(true)));
}

#[tokio::test]
async fn any_request_tells_what_it_was_paid_with() {
    let mock = MockTransport::new().on(Method::POST, "/v1/links").json(402, fixtures::payment_required("10000"));
    let mock = mock.json(400, fixtures::error(ErrorCode::BadRequest, "no"));
    let dl = client(&mock, &Wallet::new(10_000));
    let reply = dl.request(Method::POST, "/v1/links").json(&json!({})).await.unwrap();
    let sent = reply.sent_payment().unwrap();
    assert_eq!(reply.to_error().unwrap().sent_payment(), Some(sent));
    assert_eq!(mock.calls()[1].header(PAYMENT_V1), sent.value());
    assert!(!format!("{reply:?}").contains(sent.value()));
}

#[tokio::test]
async fn a_payment_in_a_header_of_the_caller_is_not_shown() {
    let mock = MockTransport::new().on(Method::GET, "/v1/links/a").json(200, fixtures::link_detail("a"));
    let dl = client(&mock, &Wallet::new(10_000));
    for name in [PAYMENT_V1, PAYMENT_V2] {
        let call = dl.links().get("a").header(name, "c2lnbmVk");
        assert!(!format!("{call:?}").contains("c2lnbmVk"));
        call.await.unwrap();
    }
    assert!(!format!("{:?}", mock.calls()).contains("c2lnbmVk"));
}

/// A batch that is sent again carries its first payment.
#[tokio::test(start_paused = true)]
async fn a_batch_is_paid_for_once() {
    let url = "https://go.example.com/a";
    let mock = MockTransport::new()
        .on(Method::POST, "/v1/links/bulk")
        .json(402, fixtures::payment_required("10000"))
        .timeout()
        .json(409, fixtures::error(ErrorCode::PaymentInProgress, "wait"))
        .retry_after(40)
        .json(201, json!({"links": [{"link_id": "promo-a", "url": url}, {"link_id": "promo-b", "url": url}]}));
    let wallet = Wallet::new(10_000);
    let template = CreateLink::new().web_url("https://example.com");
    let rows = MemorySource::same("rows", template, ["promo-a", "promo-b"].map(|id| Some(id.to_owned())));
    let import = client(&mock, &wallet).bulk_import(rows).concurrency(Concurrency::Fixed(1));
    let mut run = import.start().await.unwrap();
    while run.next().await.is_some() {}
    assert_eq!((run.summary().counts.created, wallet.signed().len(), mock.calls().len()), (2, 1, 4));
    let calls = mock.calls();
    assert!(calls[1..].iter().all(|call| call.header(PAYMENT_V1) == calls[1].header(PAYMENT_V1)));
}
