//! Signing in, and the secrets that are shown once.

use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::{
    Acceptance, Auth, Client, ConfirmSecretKey, CreateAffiliate, CreatePublishableKey, InviteUser, Kind,
    PublishableKey, RequestSecretKey, SecretKey, SignIn, Signin, Token, UpdateAffiliate,
};
use http::Method;

fn client(mock: &MockTransport) -> Client {
    let key = SecretKey::new("dl_live_0123456789abcdef0123456789abcdef0123456789abcdef");
    Client::builder("https://api.example.com").secret_key(key).transport(mock.clone()).build().unwrap()
}

/// The reply to the form of a mailed link.
fn answers(path: &str, location: &str, cookies: &[&str]) -> MockTransport {
    let mock = MockTransport::new().on(Method::POST, path).status(303).header("location", location);
    cookies.iter().fold(mock, |mock, cookie| mock.header("set-cookie", cookie))
}

#[tokio::test]
async fn a_sign_in_is_a_value() {
    let token = fixtures::session_token();
    let cookie = fixtures::session_cookie();
    let sign_in = async |location: &str, cookies: &[&str]| {
        client(&answers("/v1/auth/callback", location, cookies)).sessions().callback(&token).await
    };
    for place in ["/account", "/signin?error=link_expired", "https://api.example.com/account"] {
        let SignIn::SignedIn { session, location } = sign_in(place, &[&cookie]).await.unwrap() else {
            panic!("{place}: not signed in")
        };
        assert_eq!((session.expose(), location.as_str()), (token.expose(), place));
    }
    for place in [
        "/signin?error=link_expired",
        "https://example.com/signin?x=1&error=link_expired",
        "/dl/signin?error=link_expired",
    ] {
        for cookies in [&[][..], &["session_token=; Max-Age=0"], &["other=1"]] {
            let SignIn::Refused { code, location } = sign_in(place, cookies).await.unwrap() else {
                panic!("{place}: signed in")
            };
            assert_eq!((code.as_str(), location.as_str()), ("link_expired", place));
        }
    }
    for place in ["/account", "/account?error=link_expired"] {
        let error = sign_in(place, &[]).await.unwrap_err();
        assert_eq!((error.kind(), error.status().map(|status| status.as_u16())), (Kind::Api, Some(303)), "{place}");
    }
    let mock = MockTransport::new().on(Method::POST, "/v1/auth/callback").bytes(200, "text/html", "<html>");
    let error = client(&mock).sessions().callback(&token).await.unwrap_err();
    assert!(error.message().starts_with("the response is not from the service"), "{error}");
}

/// As a program sends it: a form with the token, no cookie, no origin, no credential.
#[tokio::test]
async fn the_form_of_a_link_is_sent_as_a_browser_would_but_by_nobody() {
    let mock = fixtures::every_operation();
    let dl = Client::builder("https://api.example.com").session(fixtures::session_token()).transport(mock.clone());
    let dl = dl.build().unwrap();
    dl.sessions().callback(&Token::new("a&b=c d")).next("/account/links?a=b&c").await.unwrap();
    dl.team().accept(&Token::new("0123")).await.unwrap();
    let calls = mock.calls();
    assert_eq!(calls[0].body, "token=a%26b%3Dc+d&next=%2Faccount%2Flinks%3Fa%3Db%26c");
    assert_eq!((calls[1].path(), &calls[1].body[..]), ("/v1/auth/verify", &b"token=0123"[..]));
    for call in calls {
        assert_eq!(call.header("content-type"), "application/x-www-form-urlencoded");
        for name in ["authorization", "cookie", "origin", "idempotency-key"] {
            assert!(!call.headers.contains_key(name), "{name}");
        }
    }
}

#[tokio::test]
async fn an_invitation_is_a_value() {
    let token = fixtures::session_token();
    let accept = async |location: &str| client(&answers("/v1/auth/verify", location, &[])).team().accept(&token).await;
    for place in ["https://example.com/signin?invite=accepted", "/signin?invite=accepted"] {
        assert_eq!(accept(place).await.unwrap(), Acceptance::Accepted { location: place.into() });
    }
    let place = "https://example.com/signin?error=invite_invalid";
    assert_eq!(
        accept(place).await.unwrap(),
        Acceptance::Refused { code: "invite_invalid".into(), location: place.into() }
    );
    // A proxy that redirects elsewhere has not used the invitation.
    for place in ["/login", "/signin", "/signin?invite=later", "/login?invite=accepted", "https://sso.example.com/"] {
        let error = accept(place).await.unwrap_err();
        assert_eq!((error.kind(), error.status().map(|status| status.as_u16())), (Kind::Api, Some(303)), "{place}");
    }
}

#[tokio::test]
async fn a_session_is_a_cookie_and_a_publishable_key_a_bearer() {
    let mock = fixtures::every_operation();
    let session = fixtures::session_token();
    let dl = client(&mock).with_auth(session.clone()).unwrap();
    dl.sessions().me().await.unwrap();
    let call = &mock.calls()[0];
    assert_eq!(call.header("cookie"), format!("session_token={}", session.expose()));
    assert!(call.headers["cookie"].is_sensitive() && !call.headers.contains_key("authorization"));

    let publishable = client(&mock).with_auth(PublishableKey::new("pk_live_x")).unwrap();
    publishable.request(Method::GET, "/v1/links").await.unwrap();
    let call = &mock.calls()[1];
    assert_eq!((call.header("authorization"), call.uri.query()), ("Bearer pk_live_x", None));
    assert!(call.headers["authorization"].is_sensitive());

    for text in ["a; other=b", "a b", "a\"b", "a,b", "a\\b", "a\nb", "é"] {
        let dl = client(&mock).with_auth(Token::new(text)).unwrap();
        assert_eq!(dl.sessions().me().await.unwrap_err().kind(), Kind::Validation, "{text:?}");
    }
    assert_eq!(mock.calls().len(), 2);
    let plain = Client::builder("http://example.com").session(session).build().unwrap_err();
    assert_eq!(plain.kind(), Kind::Builder, "a session is not sent over plain http either");
}

/// A sign-out whose reply was lost has ended the session: the service no longer knowing it proves that.
#[tokio::test(start_paused = true)]
async fn a_sign_out_is_done_once_the_session_is_not_known() {
    let on = || MockTransport::new().on(Method::POST, "/v1/auth/signout");
    let unknown = serde_json::json!({"error": "no session", "code": "unauthorized", "request_id": "req-1"});
    let end = async |mock: MockTransport| {
        client(&mock).with_auth(fixtures::session_token()).unwrap().sessions().signout().await
    };
    end(on().timeout().json(401, &unknown)).await.unwrap();
    // No reply was lost before, or the refusal is not the service's.
    assert_eq!(end(on().json(401, &unknown)).await.unwrap_err().kind(), Kind::Auth);
    assert_eq!(end(on().timeout().bytes(401, "text/html", "<html>")).await.unwrap_err().kind(), Kind::Auth);
    let issue = MockTransport::new().on(Method::POST, "/v1/auth/secret-keys/issue").timeout().json(401, &unknown);
    let issued = client(&issue).with_auth(fixtures::session_token()).unwrap().keys().issue().await;
    assert_eq!(issued.unwrap_err().kind(), Kind::Auth);
}

#[tokio::test]
async fn rules_are_applied_before_anything_is_sent() {
    let mock = fixtures::every_operation();
    let dl = client(&mock);
    let errors = [
        dl.sessions().signin(&Signin::new("nobody")).await.unwrap_err(),
        dl.team().invite(&InviteUser::new("nobody@")).await.unwrap_err(),
        dl.team().remove("").await.unwrap_err(),
        dl.keys().request(&RequestSecretKey::new("")).await.unwrap_err(),
        dl.keys().confirm(&ConfirmSecretKey::new("you@example.com", "12345")).await.unwrap_err(),
        dl.keys().delete("..").await.unwrap_err(),
        dl.publishable_keys().create(&CreatePublishableKey::new("not a domain")).await.unwrap_err(),
        dl.affiliates().create(&CreateAffiliate::new("Partner", "P")).await.unwrap_err(),
        dl.affiliates().create(&CreateAffiliate::new(" ", "partner")).await.unwrap_err(),
        dl.affiliates().update("aff_0", &UpdateAffiliate::new()).await.unwrap_err(),
        dl.affiliates().credentials("").list().await.unwrap_err(),
    ];
    for error in &errors {
        assert_eq!(error.kind(), Kind::Validation, "{error}");
    }
    assert!(mock.calls().is_empty());
}

/// Debug output contains no secret, whether sent or received.
#[tokio::test]
async fn nothing_shows_a_secret() {
    let mock = fixtures::every_operation();
    let session = fixtures::session_token();
    let dl = client(&mock);
    let signed_in = dl.with_auth(session.clone()).unwrap();
    let shown = [
        format!("{:?}", Auth::from(session.clone())),
        format!("{:?}", Auth::from(fixtures::created_publishable_key("go.example.com").key)),
        format!("{signed_in:?}"),
        format!("{:?}", dl.sessions().callback(&session)),
        format!("{:?}", dl.sessions().callback(&session).preview()),
        format!("{:?}", dl.sessions().callback(&session).full().await.unwrap()),
        format!("{:?}", dl.sessions().signup(&deeplink_client::Signup::new("you@example.com")).full().await.unwrap()),
        format!("{:?}", signed_in.keys().issue().full().await.unwrap()),
        format!(
            "{:?}",
            dl.publishable_keys().create(&CreatePublishableKey::new("go.example.com")).full().await.unwrap()
        ),
        format!("{:?}", dl.affiliates().credentials("aff_0").create().full().await.unwrap()),
        format!("{:?}", dl.request(Method::POST, "/v1/auth/callback").await.unwrap()),
    ]
    .concat();
    // A reply that cannot be decoded may still contain the key.
    let key = fixtures::created_secret_key().key;
    let odd = MockTransport::new().on(Method::POST, "/v1/auth/secret-keys/issue").bytes(
        201,
        "application/json",
        format!("{{\"key\":\"{}\"}}", key.expose()),
    );
    let odd = client(&odd).with_auth(session.clone()).unwrap();
    let error = odd.keys().issue().await.unwrap_err();
    assert!(error.kind() == Kind::Decode && error.is_ambiguous(), "{error}");
    let shown = format!("{shown}{error:?}{error}");
    let secrets = [
        session.expose(),
        key.expose(),
        fixtures::signed_up().api_key.expose(),
        fixtures::created_credential().api_key.expose(),
        fixtures::created_publishable_key("go.example.com").key.expose(),
    ]
    .map(|secret| secret[20..].to_owned());
    for secret in secrets {
        assert!(!shown.contains(&secret), "{shown}");
    }
}
