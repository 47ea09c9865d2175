//! What is traced: the route's template and numbers, never an address, a body or a credential.
//!
//! A separate process: `tracing` caches which call sites are enabled for all threads, whatever each of them subscribes
//! to.
#![cfg(all(feature = "mock", feature = "tracing"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::{Client, ConfirmSecretKey, Convert, CreateLink, SecretKey, SignIn, Token};
use http::Method;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Writes down everything that is ever traced.
#[derive(Clone, Default)]
struct All(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl All {
    fn note(&self, what: &str, visit: impl FnOnce(&mut Fields<'_>)) {
        let mut text = self.0.lock().unwrap();
        text.push_str(what);
        visit(&mut Fields(&mut text));
        text.push('\n');
    }
}

impl Subscriber for All {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata().name(), |fields| span.record(fields));
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note("record", |fields| values.record(fields));
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.note("event", |fields| event.record(fields));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn traces_hold_templates_and_no_secrets() {
    let all = All::default();
    let seen = Arc::clone(&all.0);
    let key = "dl_live_5ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e75ec4e7";
    let (mailed, session) = ("5ec4e7".repeat(10) + "0123", fixtures::session_token());
    let made = fixtures::created_secret_key().key;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(all, || {
        runtime.block_on(async {
            let mock = MockTransport::new()
                .on(Method::GET, "/v1/links/{id}")
                .status(503)
                .retry_after(0)
                .json(200, fixtures::link_detail("abc"))
                .on(Method::POST, "/v1/links")
                .json(201, fixtures::created_link("abc"))
                .on(Method::POST, "/v1/auth/callback")
                .status(303)
                .header("location", "/account")
                .header("set-cookie", &fixtures::session_cookie())
                .on(Method::POST, "/v1/auth/secret-keys/issue")
                .json(201, fixtures::created_secret_key())
                .on(Method::POST, "/v1/auth/secret-keys/confirm")
                .json(201, fixtures::created_secret_key())
                .on(Method::GET, "/v1/sources/{id}")
                .json(200, fixtures::source_detail("Shop"))
                .on(Method::POST, "/v1/lifecycle/convert")
                .json(200, fixtures::converted())
                .on(Method::POST, "/in/{token}")
                .status(503)
                .retry_after(0)
                .json(200, fixtures::converted());
            let dl = Client::builder("https://api.example.com")
                .secret_key(SecretKey::new(key))
                .transport(mock)
                .build()
                .unwrap();
            dl.links().get("secret-link-id").await.unwrap();
            let link = CreateLink::new().web_url("https://example.com/secret-target");
            dl.links().create(&link).header("x-a", "secret-header").await.unwrap();
            let token = Token::new(&mailed);
            let SignIn::SignedIn { session, .. } = dl.sessions().callback(&token).await.unwrap() else {
                panic!("not signed in")
            };
            dl.with_auth(session).unwrap().keys().issue().await.unwrap();
            dl.keys().confirm(&ConfirmSecretKey::new("you@example.com", "5EC4E7")).await.unwrap();
            let app = dl.with_auth(fixtures::created_publishable_key("go.example.com").key).unwrap();
            let sale = Convert::new("secret-user", "purchase").idempotency_key("secret-order");
            app.lifecycle().convert(&sale).await.unwrap();
            let url = dl.sources().get("src_0123456789abcdef01234567").await.unwrap().webhook_url.unwrap();
            dl.sources().send(&url, &sale).await.unwrap();
        });
    });
    let seen = seen.lock().unwrap();
    assert_eq!(seen.matches("deeplink.call").count(), 8);
    assert!(seen.contains("route=\"/v1/links/{link_id}\" method=\"GET\""), "{seen}");
    assert!(seen.contains("attempt=2 status=200"), "{seen}");
    for secret in ["secret-link-id", "secret-target", "secret-header", "5ec4e7", "5EC4E7", "api.example.com"] {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
    assert!(seen.contains("route=\"/in/{token}\" method=\"POST\""), "{seen}");
    let source = fixtures::source_detail("Shop").webhook_url.unwrap();
    let publishable = fixtures::created_publishable_key("go.example.com").key;
    for secret in ["secret-user", "secret-order", &source.expose()[30..], &publishable.expose()[20..]] {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
    assert!(!seen.contains(session.expose()) && !seen.contains(&made.expose()[20..]), "{seen}");
}
