//! What must follow a commit is done even if the caller hangs up between the commit and the response.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use axum::body::Body;
use axum::extract::{Request, State};
use deeplink_core::event::EventKind;
use deeplink_core::lifecycle::{Attribute, Convert, Identify};
use deeplink_core::link::CreateLink;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::CreateWebhook;
use futures_util::FutureExt;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{lifecycle, links, webhooks};
use crate::caller::{Actor, Caller};
use crate::clock::Clock;
use crate::config::{Config, TEST_DATABASE_TIMEOUT};
use crate::db::accounts::{self, NewAccount};
use crate::db::on;
use crate::db::users::Standing;
use crate::http::listen::Stop;
use crate::http::once::{Answer, Once};
use crate::http::sdk_key::SdkCaller;
use crate::notifier::Notification;
use crate::shares::Share;
use crate::start::{Running, start};
use crate::state::Shared;

/// A service and a caller.
struct Scene {
    running: Running,
    app: Shared,
    caller: Arc<Caller>,
    _home: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let clock = Clock::fixed(Timestamp::from_millis(1_795_167_000_000));
        let running = start(Config::for_tests(home.path()), clock.clone()).await.expect("the service starts");
        let app = Arc::clone(running.app());
        let email = "owner@example.com".parse().expect("an address");
        let account = NewAccount::draw(email, Standing::Verified, clock.now(), &mut Random::system());
        let by = Actor::User(account.owner.id.clone());
        let caller =
            Arc::new(Caller { by, tenant: account.owner.tenant.clone(), affiliate: None, is_suspended: false });
        let opened = app.db.write(Share::Service, account, |tx, account| accounts::open(tx, account).boxed());
        assert!(opened.await.expect("a write"));
        Self { running, app, caller, _home: home }
    }

    /// A request that can be repeated.
    fn request(path: &str, body: &impl Serialize) -> Request {
        let body = serde_json::to_vec(body).expect("JSON");
        let request = Request::post(path).header("content-type", "application/json").header("idempotency-key", "one");
        request.body(Body::from(body)).expect("a request")
    }

    async fn link(&self) -> String {
        let link = CreateLink::new().web_url("https://example.com/");
        let made = links::create_for(&self.app, Arc::clone(&self.caller), Once::none(self.caller.turn()), link).await;
        made.and_then(Answer::into_made).expect("a link").link_id
    }

    /// Whether a request that can be repeated is committed.
    async fn is_committed(&self) -> bool {
        let mut reader = self.app.db.read().await.expect("a reader");
        let kept = on!(&mut reader.conn(), c => sqlx::query_scalar("SELECT COUNT(*) FROM replies").fetch_one(c).await);
        let kept: i64 = kept.expect("a number");
        kept > 0
    }

    /// Drives a request until it is committed, and drops it there. Subscribers must still be notified.
    async fn hang_up_after_commit<T>(&self, request: impl Future<Output = T>) -> Notification {
        let mut heard = self.app.notifier.subscribe();
        self.drive_to_commit(request).await;
        timeout(TEST_DATABASE_TIMEOUT, heard.recv()).await.expect("in time").expect("a word")
    }

    /// Polls only when something has woken the request: after the commit that is its response.
    async fn drive_to_commit<T>(&self, request: impl Future<Output = T>) {
        let woken = Arc::new(Woken(Notify::new()));
        let waker = Waker::from(Arc::clone(&woken));
        let mut request = pin!(request);
        while !self.is_committed().await {
            assert!(request.as_mut().poll(&mut Context::from_waker(&waker)).is_pending(), "it was answered too early");
            woken.0.notified().await;
        }
    }

    async fn end(self) {
        self.running.ask_to_stop(Stop::AtOnce);
        self.running.stopped().await;
    }
}

struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn a_touch_is_told_when_its_reporter_has_gone() {
    let scene = Scene::new().await;
    let asked = Attribute::new(scene.link().await, "install-1", "1.0");
    let request = Scene::request("/v1/lifecycle/attribute", &asked);
    let heard = scene.hang_up_after_commit(lifecycle::attribute_for(&scene.app, Arc::clone(&scene.caller), request));
    assert_eq!(Box::pin(heard).await, Notification::Events(scene.caller.tenant.clone()));
    scene.end().await;
}

#[tokio::test]
async fn a_conversion_is_told_when_its_reporter_has_gone() {
    let scene = Scene::new().await;
    // Its user is known, so it is told at once.
    let request = Scene::request("/v1/lifecycle/identify", &Identify::new("install-1", "ann"));
    lifecycle::identify_for(&scene.app, Arc::clone(&scene.caller), request).await.expect("it is bound");
    let request = Scene::request("/v1/lifecycle/convert", &Convert::new("ann", "purchase"));
    let convert = lifecycle::convert(State(Arc::clone(&scene.app)), SdkCaller(Arc::clone(&scene.caller)), request);
    assert_eq!(Box::pin(scene.hang_up_after_commit(convert)).await, Notification::Events(scene.caller.tenant.clone()));
    scene.end().await;
}

#[tokio::test]
async fn the_sender_hears_of_a_new_secret_when_its_owner_has_gone() {
    let scene = Scene::new().await;
    let (app, caller) = (&scene.app, &scene.caller);
    let asked = CreateWebhook::new("https://1.1.1.1/hook", [EventKind::Conversion]);
    let made = webhooks::create_for(app, Arc::clone(caller), Once::none(caller.turn()), asked).await;
    let id = made.and_then(Answer::into_made).expect("a webhook").webhook.id;
    let once = Once::form(caller, "/test", "form", "");
    let heard = scene.hang_up_after_commit(webhooks::rotate_for(app, Arc::clone(caller), once, id));
    assert_eq!(Box::pin(heard).await, Notification::Deliveries(caller.tenant.clone()));
    scene.end().await;
}
