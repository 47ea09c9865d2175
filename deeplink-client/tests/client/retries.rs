//! The retry table, row by row, through complete calls.

use std::time::Duration;

use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::{
    Client, CreateLink, Error, ErrorCode, Kind, Retry, SecretKey, Signin, SigninSent, Signup, UpdateAffiliate,
    UpdateLink,
};
use http::Method;

/// A call for each kind of repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Get,
    Put,
    Delete,
    Patch,
    Keyed,
    /// A keyed call with a session.
    Issue,
    Bare,
    Signin,
    Callback,
    Accept,
}

const HARMLESS: [Call; 6] = [Call::Get, Call::Put, Call::Delete, Call::Patch, Call::Keyed, Call::Issue];
const ALL: [Call; 10] = [
    Call::Get,
    Call::Put,
    Call::Delete,
    Call::Patch,
    Call::Keyed,
    Call::Issue,
    Call::Bare,
    Call::Signin,
    Call::Callback,
    Call::Accept,
];

impl Call {
    fn place(self) -> (Method, &'static str) {
        match self {
            Self::Get => (Method::GET, "/v1/links/{id}"),
            Self::Put => (Method::PUT, "/v1/links/{id}"),
            Self::Delete => (Method::DELETE, "/v1/links/{id}"),
            Self::Patch => (Method::PATCH, "/v1/affiliates/{id}"),
            Self::Keyed => (Method::POST, "/v1/links"),
            Self::Issue => (Method::POST, "/v1/auth/secret-keys/issue"),
            Self::Bare => (Method::POST, "/v1/auth/signup"),
            Self::Signin => (Method::POST, "/v1/auth/signin"),
            Self::Callback => (Method::POST, "/v1/auth/callback"),
            Self::Accept => (Method::POST, "/v1/auth/verify"),
        }
    }

    /// Prepares the reply to a successful call.
    fn success(self, mock: MockTransport) -> MockTransport {
        match self {
            Self::Get | Self::Put => mock.json(200, fixtures::link_detail("abc")),
            Self::Delete => mock.status(204),
            Self::Keyed => mock.json(201, fixtures::created_link("abc")),
            Self::Patch => mock.json(200, fixtures::affiliate_detail("partner")),
            Self::Issue => mock.json(201, fixtures::created_secret_key()),
            Self::Bare => mock.json(201, fixtures::signed_up()),
            Self::Signin => mock.json(200, SigninSent::new()),
            Self::Callback => {
                mock.status(303).header("location", "/account").header("set-cookie", &fixtures::session_cookie())
            }
            Self::Accept => mock.status(303).header("location", "/signin?invite=accepted"),
        }
    }

    async fn make(self, dl: &Client) -> Result<(), Error> {
        match self {
            Self::Get => dl.links().get("abc").await.map(drop),
            Self::Put => {
                let mut update = UpdateLink::new();
                update.web_url = deeplink_client::Patch::Clear;
                dl.links().update("abc", &update).await.map(drop)
            }
            Self::Delete => dl.links().delete("abc").await,
            Self::Keyed => dl.links().create(&CreateLink::new()).await.map(drop),
            Self::Patch => dl.affiliates().update("aff_0", &UpdateAffiliate::new().name("New")).await.map(drop),
            Self::Issue => dl.with_auth(fixtures::session_token())?.keys().issue().await.map(drop),
            Self::Bare => dl.sessions().signup(&Signup::new("you@example.com")).await.map(drop),
            Self::Signin => dl.sessions().signin(&Signin::new("you@example.com")).await.map(drop),
            Self::Callback => dl.sessions().callback(&fixtures::session_token()).await.map(drop),
            Self::Accept => dl.team().accept(&fixtures::session_token()).await.map(drop),
        }
    }
}

fn client(mock: &MockTransport) -> Client {
    Client::builder("https://api.example.com")
        .secret_key(SecretKey::new("dl_live_0123"))
        .transport(mock.clone())
        .build()
        .unwrap()
}

fn record(mock: MockTransport, status: u16, code: ErrorCode) -> MockTransport {
    mock.json(status, fixtures::error(code, "no"))
}

/// A failure, prepared on a mock.
type Failure = fn(MockTransport) -> MockTransport;

#[tokio::test(start_paused = true)]
async fn each_failure_is_repeated_as_the_table_says() {
    let harmless = HARMLESS.as_slice();
    let rows: Vec<(&str, Failure, &[Call])> = vec![
        ("connect", |mock| mock.unreachable(), &ALL),
        ("429", |mock| record(mock, 429, ErrorCode::RateLimited), &ALL),
        ("429 with Retry-After", |mock| record(mock, 429, ErrorCode::RateLimited).retry_after(2), &ALL),
        ("503 with Retry-After", |mock| record(mock, 503, ErrorCode::Overloaded).retry_after(1), &ALL),
        ("503", |mock| record(mock, 503, ErrorCode::DatabaseUnavailable), harmless),
        ("503 of a proxy", |mock| mock.bytes(503, "text/html", "<html>"), harmless),
        ("408", |mock| mock.status(408), harmless),
        ("500", |mock| record(mock, 500, ErrorCode::Internal), harmless),
        ("502", |mock| mock.bytes(502, "text/html", "<html>"), harmless),
        ("504", |mock| mock.status(504), harmless),
        ("reset", |mock| mock.reset(), harmless),
        ("attempt timeout", |mock| mock.silence(), harmless),
        ("timeout", |mock| mock.timeout(), harmless),
        ("not configured", |mock| record(mock, 503, ErrorCode::SessionsNotConfigured).retry_after(1), &[]),
        ("400", |mock| record(mock, 400, ErrorCode::BadRequest), &[]),
        ("401", |mock| record(mock, 401, ErrorCode::InvalidKey), &[]),
        ("402", |mock| record(mock, 402, ErrorCode::QuotaExceeded), &[]),
        ("404", |mock| record(mock, 404, ErrorCode::NotFound), &[]),
        ("409", |mock| record(mock, 409, ErrorCode::LinkIdTaken), &[]),
        ("409 with Retry-After", |mock| record(mock, 409, ErrorCode::EmailExists).retry_after(1), &[]),
        ("501", |mock| mock.status(501), &[]),
    ];
    for (name, failure, repeated) in rows {
        for call in ALL {
            let (method, path) = call.place();
            let mock = call.success(failure(MockTransport::new().on(method.clone(), path)));
            let result = call.make(&client(&mock)).await;
            let attempts = if repeated.contains(&call) { 2 } else { 1 };
            assert_eq!(result.is_ok(), attempts == 2, "{name} {call:?}: {result:?}");
            mock.assert_calls(&method, path, attempts);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_have_taken_effect_is_ambiguous() {
    let rows: Vec<(&str, Failure, bool)> = vec![
        ("connect", |mock| mock.unreachable(), false),
        ("timeout", |mock| mock.timeout(), true),
        ("reset", |mock| mock.reset(), true),
        ("500", |mock| record(mock, 500, ErrorCode::Internal), true),
        ("502 of a proxy", |mock| mock.bytes(502, "text/html", "<html>"), true),
        ("the service's own 503", |mock| record(mock, 503, ErrorCode::StorageFull), false),
        ("503 of a proxy", |mock| mock.bytes(503, "text/html", "<html>"), true),
        ("429", |mock| record(mock, 429, ErrorCode::RateLimited), false),
        ("400", |mock| record(mock, 400, ErrorCode::InvalidUrl), false),
        ("409", |mock| record(mock, 409, ErrorCode::LinkIdTaken), false),
        // An earlier attempt may have taken effect, and this reply does not say.
        ("500, then no connection", |mock| record(mock, 500, ErrorCode::Internal).unreachable(), true),
        ("timeout, then 429", |mock| record(mock.timeout(), 429, ErrorCode::RateLimited), true),
        ("timeout, then own 503", |mock| record(mock.timeout(), 503, ErrorCode::Overloaded), true),
        ("timeout, then 400", |mock| record(mock.timeout(), 400, ErrorCode::InvalidUrl), false),
        (
            "429, then the key is another's",
            |mock| record(record(mock, 429, ErrorCode::RateLimited), 409, ErrorCode::IdempotencyConflict),
            true,
        ),
        ("the key is another's at once", |mock| record(mock, 409, ErrorCode::IdempotencyConflict), false),
    ];
    for (name, failure, ambiguous) in rows {
        let mock = failure(MockTransport::new().on(Method::POST, "/v1/links"));
        let error = Call::Keyed.make(&client(&mock)).await.unwrap_err();
        assert_eq!(error.is_ambiguous(), ambiguous, "{name}: {error:?}");
        let mock = failure(MockTransport::new().on(Method::GET, "/v1/links/{id}"));
        let error = Call::Get.make(&client(&mock)).await.unwrap_err();
        assert!(!error.is_ambiguous(), "a read changes nothing: {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_conflict_is_not_repeated() {
    let mock = MockTransport::new().on(Method::POST, "/v1/links").timeout();
    let mock = record(mock, 409, ErrorCode::IdempotencyConflict);
    let error = Call::Keyed.make(&client(&mock)).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts(), error.is_ambiguous()), (Kind::Conflict, 2, true));
}

#[tokio::test(start_paused = true)]
async fn all_attempts_share_key_body_and_request_id() {
    let mock =
        MockTransport::new().on(Method::POST, "/v1/links").status(500).reset().json(201, fixtures::created_link("abc"));
    let dl = client(&mock);
    let link = CreateLink::new().web_url("https://example.com");
    let full = dl.links().create(&link).full().await.unwrap();
    assert!(!full.is_replayed());
    let calls = mock.calls();
    assert_eq!(calls.len(), 3);
    for call in &calls {
        assert_eq!(call.body, calls[0].body);
        for name in ["idempotency-key", "x-request-id"] {
            assert_eq!(call.header(name), calls[0].header(name));
            assert_eq!(call.header(name).len(), 32, "{name}");
        }
    }
    dl.links().create(&link).await.unwrap();
    let last = mock.calls().pop().unwrap();
    assert_ne!(last.header("idempotency-key"), calls[0].header("idempotency-key"));
    assert_ne!(last.header("x-request-id"), calls[0].header("x-request-id"));
}

#[tokio::test(start_paused = true)]
async fn keys_go_with_authenticated_posts_only() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    Call::Bare.make(&dl).await.unwrap();
    Call::Get.make(&dl).await.unwrap();
    Call::Put.make(&dl).await.unwrap();
    assert!(mock.calls().iter().all(|call| call.header("idempotency-key").is_empty()));
    dl.links().create(&CreateLink::new()).idempotency_key("mine").await.unwrap();
    assert_eq!(mock.calls().pop().unwrap().header("idempotency-key"), "mine");
    for bad in ["", "ä", "a\nb", &"x".repeat(256)] {
        let error = dl.links().create(&CreateLink::new()).idempotency_key(bad).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Validation);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_whose_reply_was_lost_is_a_success() {
    let gone = |mock| record(mock, 404, ErrorCode::NotFound);
    let lost: Vec<Failure> = vec![|mock| mock.timeout(), |mock| mock.reset(), |mock| mock.status(500)];
    for lost in lost {
        let mock = gone(lost(MockTransport::new().on(Method::DELETE, "/v1/links/{id}")));
        assert!(Call::Delete.make(&client(&mock)).await.is_ok());
    }
    // Nothing was sent, or the service has said that it did nothing.
    let kept: Vec<Failure> =
        vec![|mock| mock, |mock| mock.unreachable(), |mock| record(mock, 503, ErrorCode::Overloaded)];
    for kept in kept {
        let mock = gone(kept(MockTransport::new().on(Method::DELETE, "/v1/links/{id}")));
        assert_eq!(Call::Delete.make(&client(&mock)).await.unwrap_err().kind(), Kind::NotFound);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_a_floor_and_too_long_a_wait_is_an_error() {
    let slow = |seconds| {
        record(MockTransport::new().on(Method::GET, "/v1/links/{id}"), 429, ErrorCode::RateLimited).retry_after(seconds)
    };
    let started = tokio::time::Instant::now();
    let mock = slow(20).json(200, fixtures::link_detail("abc"));
    Call::Get.make(&client(&mock)).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(20));

    let started = tokio::time::Instant::now();
    let error = Call::Get.make(&client(&slow(61))).await.unwrap_err();
    assert_eq!((error.kind(), error.retry_after()), (Kind::RateLimited, Some(Duration::from_secs(61))));
    assert!(error.is_retryable() && error.attempts() == 1 && started.elapsed() < Duration::from_secs(1));

    let dl = client(&slow(30));
    let error = dl.links().get("abc").timeout(Duration::from_secs(10)).await.unwrap_err();
    assert_eq!((error.attempts(), error.retry_after()), (1, Some(Duration::from_secs(30))), "beyond the deadline");
}

#[tokio::test(start_paused = true)]
async fn other_calls_wait_with_the_one_that_was_told_to() {
    let mock = MockTransport::new().on(Method::GET, "/v1/links/one");
    let mock = record(mock, 429, ErrorCode::RateLimited).retry_after(30).json(200, fixtures::link_detail("one"));
    let mock = mock.on(Method::GET, "/v1/links/two").json(200, fixtures::link_detail("two"));
    let mock = mock.on(Method::GET, "/health").json(200, fixtures::health("ok"));
    let dl = client(&mock);
    let started = tokio::time::Instant::now();
    let first = tokio::spawn({
        let dl = dl.clone();
        async move { dl.links().get("one").await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    dl.public().health().await.unwrap();
    let other = dl.with_auth(SecretKey::new("dl_live_other")).unwrap();
    other.links().get("two").await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "a public call and another credential are not held up");
    dl.links().get("two").await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(30));
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn attempts_deadline_and_budget_end_a_call() {
    let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").status(500);
    let error = Call::Get.make(&client(&mock)).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Server, 3));
    let dl = client(&mock);
    assert_eq!(dl.links().get("abc").retry(Retry::none()).await.unwrap_err().attempts(), 1);
    assert_eq!(dl.links().get("abc").retry(Retry::attempts(5)).await.unwrap_err().attempts(), 5);

    // 90 s hold two attempts of 30 s that never end, their waits, and a remainder.
    let silent = MockTransport::new().on(Method::GET, "/v1/links/{id}").silence();
    let started = tokio::time::Instant::now();
    let error = client(&silent).links().get("abc").retry(Retry::attempts(9)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    let elapsed = started.elapsed();
    assert!(elapsed <= Duration::from_secs(90) && elapsed >= Duration::from_mins(1), "{elapsed:?}");

    // 500 tokens at 5 each: a hundred repeats, then none, for all clones together.
    let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").status(500);
    let dl = client(&mock);
    for _ in 0..60 {
        let _ = Call::Get.make(&dl.clone()).await;
    }
    mock.assert_calls(&Method::GET, "/v1/links/{id}", 60 + 100);
}

#[tokio::test(start_paused = true)]
async fn successes_fill_the_budget_again_and_timeouts_cost_double() {
    let mock = MockTransport::new().on(Method::GET, "/v1/links/slow").timeout();
    let mock = mock.on(Method::GET, "/v1/links/fine").json(200, fixtures::link_detail("fine"));
    let dl = client(&mock);
    for _ in 0..40 {
        let _ = dl.links().get("slow").await;
    }
    mock.assert_calls(&Method::GET, "/v1/links/slow", 40 + 50);
    for _ in 0..10 {
        dl.links().get("fine").await.unwrap();
    }
    let _ = dl.links().get("slow").await;
    mock.assert_calls(&Method::GET, "/v1/links/slow", 90 + 2);
}

#[tokio::test(start_paused = true)]
async fn waits_double_up_to_their_cap() {
    let mock = MockTransport::new().on(Method::GET, "/v1/links/{id}").status(500);
    let dl = client(&mock);
    let retry = Retry::attempts(12).backoff(Duration::from_secs(1), Duration::from_secs(4));
    let started = tokio::time::Instant::now();
    let _ = dl.links().get("abc").retry(retry).await;
    // At most 1 + 2 + 4 · 9 seconds; all eleven waits being short is beyond chance.
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(40) && elapsed > Duration::from_secs(3), "{elapsed:?}");
}
