//! A double of an identity provider: it checks requests as a real one does, and gives scripted answers.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Form, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Our client id.
pub const CLIENT_ID: &str = "client-of-tests";
/// Our client secret.
pub const CLIENT_SECRET: &str = "5d1c90f3-client-secret-of-tests";
/// The access token for a code.
pub const ACCESS_TOKEN: &str = "3f0c9a-access-token-of-tests";

/// What goes wrong at an endpoint.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Answers with this status.
    Status(u16),
    /// Does not answer.
    Hangs,
    /// Answers with this text.
    Says(&'static str),
    /// Redirects elsewhere.
    Redirects,
    /// Answers with a MiB of padding.
    Endless,
}

/// A provider at its own address.
pub struct Provider {
    address: SocketAddr,
    said: Arc<Said>,
}

#[derive(Default)]
struct Said {
    /// The code challenges by code.
    codes: Mutex<HashMap<String, String>>,
    /// The answer of the userinfo endpoint.
    user: Mutex<Value>,
    token_fault: Mutex<Option<Fault>>,
    user_fault: Mutex<Option<Fault>>,
    /// The statuses of the exchanges of codes.
    exchanges: Mutex<Vec<u16>>,
}

impl Provider {
    /// Listens on a free port of this machine, with these answers about people.
    pub async fn start(user: Value) -> Self {
        let said = Arc::new(Said { user: Mutex::new(user), ..Said::default() });
        let router = Router::new()
            .route("/token", post(exchange))
            .route("/login/oauth/access_token", post(exchange))
            .route("/userinfo", get(somebody))
            .route("/user", get(somebody))
            .route("/user/emails", get(somebody))
            .with_state(Arc::clone(&said));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, said }
    }

    /// Where its endpoints are.
    pub fn base(&self) -> url::Url {
        format!("http://{}", self.address).parse().expect("a URL")
    }

    /// Sets its answers about people.
    pub fn says(&self, user: Value) {
        *self.said.user.lock().expect("a lock") = user;
    }

    /// Sets how it fails to exchange codes.
    pub fn token_fails(&self, fault: Option<Fault>) {
        *self.said.token_fault.lock().expect("a lock") = fault;
    }

    /// Sets how its userinfo endpoint fails.
    pub fn user_fails(&self, fault: Option<Fault>) {
        *self.said.user_fault.lock().expect("a lock") = fault;
    }

    /// The statuses of all exchanges so far.
    pub fn exchanges(&self) -> Vec<u16> {
        self.said.exchanges.lock().expect("a lock").clone()
    }

    /// Consents as a person: checks the URL that the service sent them to, and returns a code for it and the state.
    pub fn consent(&self, sent_to: &str, callback: &str, scope: &str) -> (String, String) {
        let url: url::Url = sent_to.parse().expect("a URL");
        assert_eq!(url.origin(), self.base().origin(), "{sent_to}");
        let asked: HashMap<_, _> = url.query_pairs().into_owned().collect();
        let is = |name: &str, value: &str| assert_eq!(asked.get(name).map(String::as_str), Some(value), "{sent_to}");
        is("response_type", "code");
        is("client_id", CLIENT_ID);
        is("redirect_uri", callback);
        is("scope", scope);
        is("code_challenge_method", "S256");
        assert!(!sent_to.contains(CLIENT_SECRET));
        let mut codes = self.said.codes.lock().expect("a lock");
        let code = format!("code-{}-of-tests", codes.len());
        codes.insert(code.clone(), asked["code_challenge"].clone());
        (code, asked["state"].clone())
    }
}

async fn fails(fault: Option<Fault>) -> Option<Response> {
    Some(match fault? {
        Fault::Status(status) => StatusCode::from_u16(status).expect("a status").into_response(),
        Fault::Hangs => {
            tokio::time::sleep(Duration::from_mins(2)).await;
            ().into_response()
        }
        Fault::Says(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Fault::Redirects => (StatusCode::FOUND, [(header::LOCATION, "/token")]).into_response(),
        Fault::Endless => Body::from(vec![b' '; 1 << 20]).into_response(),
    })
}

async fn exchange(State(said): State<Arc<Said>>, Form(form): Form<HashMap<String, String>>) -> Response {
    let fault = said.token_fault.lock().expect("a lock").clone();
    if let Some(failed) = fails(fault).await {
        return failed;
    }
    let is = |name: &str, value: &str| form.get(name).map(String::as_str) == Some(value);
    // A code works once, with the verifier of its challenge.
    let challenge = form.get("code").and_then(|code| said.codes.lock().expect("a lock").remove(code));
    let made_of = form.get("code_verifier").map(|verifier| URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)));
    let right = challenge.is_some()
        && challenge == made_of
        && form.get("code_verifier").is_some_and(|verifier| (43..=128).contains(&verifier.len()))
        && is("grant_type", "authorization_code")
        && is("client_id", CLIENT_ID)
        && is("client_secret", CLIENT_SECRET);
    let (status, answer) = if right {
        (StatusCode::OK, json!({"access_token": ACCESS_TOKEN, "token_type": "bearer", "scope": ""}))
    } else {
        (StatusCode::BAD_REQUEST, json!({"error": "invalid_grant", "error_description": "no such code"}))
    };
    said.exchanges.lock().expect("a lock").push(status.as_u16());
    (status, axum::Json(answer)).into_response()
}

async fn somebody(State(said): State<Arc<Said>>, headers: HeaderMap) -> Response {
    let fault = said.user_fault.lock().expect("a lock").clone();
    if let Some(failed) = fails(fault).await {
        return failed;
    }
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !bearer.eq_ignore_ascii_case(&format!("Bearer {ACCESS_TOKEN}")) || !headers.contains_key(header::USER_AGENT) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    axum::Json(said.user.lock().expect("a lock").clone()).into_response()
}
