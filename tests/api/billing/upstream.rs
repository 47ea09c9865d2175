//! A processor that fails: nothing is changed, no caller waits forever, and stored data is still shown.

use super::{ask_cancel, ask_checkout, ask_portal, scene, scene_with, status};
use deeplink_testing::eventually;
use deeplink_testing::stripe::{Fault, Shape};
use futures_util::FutureExt;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::task::JoinSet;

/// However the processor fails, requests that need it are refused and can be retried, and the status is the service's
/// own.
#[tokio::test]
async fn bl6_a_processor_that_fails_is_a_503() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.subscribe(a, "pro").await;
    let shown = status(a).await;
    for fault in [Fault::Status(400), Fault::Status(401), Fault::Status(302), Fault::Status(500), Fault::Text] {
        scene.stripe.fails(Some(fault));
        for reply in [ask_checkout(&scene.world.b, "pro").await, ask_portal(a).await, ask_cancel(a).await] {
            assert_eq!(reply.outcome(), "503 upstream_unavailable", "{fault:?}");
            assert!(!reply.header("retry-after").is_empty());
        }
        let event = scene.stripe.event_of("customer.subscription.updated", &paid.subscription);
        let refused = scene.post_at(&scene.world.nobody, &event).await;
        assert_eq!(refused.outcome(), "503 upstream_unavailable", "{fault:?}");
        assert_eq!(status(a).await, shown);
    }
    assert_eq!((scene.events().await, scene.version(a).await), (1, 1), "nothing was changed");
    scene.stripe.fails(None);
    assert_eq!(ask_cancel(a).await.status, 200);
}

/// Temporary failures are retried twice with the same key, so that a page or a cancellation whose answer was lost is
/// the same one; refusals are not retried.
#[tokio::test]
async fn st8_lost_answers_are_asked_for_again_with_the_same_key() {
    let scene = scene().await;
    let a = &scene.world.a;
    let mut before = 0;
    let mut calls = || {
        let all = scene.stripe.seen();
        let new = all[before..].to_vec();
        before = all.len();
        new
    };
    for faults in [
        [Fault::Cut, Fault::CutAfterwards],
        [Fault::Status(500), Fault::Status(503)],
        [Fault::Status(409), Fault::Status(429)],
    ] {
        scene.stripe.fails_next(&faults);
        assert_eq!(ask_checkout(a, "pro").await.status, 200, "{faults:?}");
        let tries = calls();
        assert_eq!(tries.len(), 3, "{faults:?}");
        assert!(tries.iter().all(|seen| seen.key == tries[0].key && seen.form == tries[0].form));
    }
    assert_eq!(scene.stripe.sessions(), 1);
    scene.stripe.fails(Some(Fault::Status(500)));
    assert_eq!(ask_checkout(a, "scale").await.outcome(), "503 upstream_unavailable");
    assert_eq!(calls().len(), 3, "three attempts in all");
    scene.stripe.fails(Some(Fault::Status(402)));
    assert_eq!(ask_checkout(a, "scale").await.outcome(), "503 upstream_unavailable");
    assert_eq!(calls().len(), 1, "a refusal is final");
}

/// The processor stores its answer for a key, even a failure. That is bypassed once with another key, so that a plan
/// can be paid for again before the hour is over.
#[tokio::test]
async fn st8_a_failure_that_is_kept_is_not_the_answer_for_ever() {
    let scene = scene().await;
    let a = &scene.world.a;
    scene.stripe.fails_next(&[Fault::Kept(500)]);
    assert_eq!(ask_checkout(a, "pro").await.status, 200);
    let keys: Vec<_> = scene.stripe.seen().into_iter().map(|seen| seen.key.expect("a key")).collect();
    let [first, second, third] = &keys[..] else { panic!("{keys:?}") };
    assert!(first == second && *third == format!("{first}:1"), "{keys:?}");
    assert_eq!(ask_checkout(a, "pro").await.status, 200, "and so has the repeat its answer");
    assert_eq!(scene.stripe.sessions(), 1);
    scene.stripe.fails_next(&[Fault::Kept(402)]);
    assert_eq!(ask_checkout(a, "scale").await.outcome(), "503 upstream_unavailable");
    assert_eq!(ask_checkout(a, "scale").await.status, 200);
    assert_eq!(scene.stripe.sessions(), 2);
}

/// A refusal of our key says nothing about the subscription: the event is refused, and its repeat applies.
#[tokio::test]
async fn st9_a_refusal_is_no_proof_that_nothing_is_there() {
    let scene = scene().await;
    let a = &scene.world.a;
    let paid = scene.pay(a, "pro").await;
    scene.stripe.speaks(Shape::Old);
    let event = scene.stripe.invoice_event("invoice.paid", &paid.subscription);
    for (status, count) in [(400, 1), (401, 2), (403, 3), (402, 4), (500, 4)] {
        scene.stripe.fails(Some(Fault::Status(status)));
        let refused = scene.post_at(&scene.world.nobody, &event).await;
        assert_eq!(refused.outcome(), "503 upstream_unavailable", "{status}");
        let counted = format!("deeplink_stripe_calls_refused_total {count}");
        let figures = scene.figures().await;
        assert!(figures.lines().any(|line| line.trim() == counted), "{status}: {figures}");
    }
    scene.stripe.fails(None);
    scene.assert_alarms(&[]).await;
    scene.post(&event).await;
    assert_eq!(scene.plan(a).await, "pro pro active");
}

/// An account has few requests waiting for the processor, and another one is served meanwhile.
#[tokio::test]
async fn one_account_does_not_keep_others_from_paying() {
    let scene = scene().await;
    let a = &scene.world.a;
    scene.subscribe(a, "pro").await;
    let held = [scene.stripe.hold_read(), scene.stripe.hold_read()];
    let mut asking = JoinSet::new();
    for _ in 0..11 {
        let a = a.clone();
        asking.spawn(async move { ask_cancel(&a).await });
    }
    let first = asking.join_next().await.expect("a request").expect("an answer");
    assert_eq!(first.outcome(), "503 overloaded", "two are under way, eight wait");
    assert!(!first.header("retry-after").is_empty());
    for held in &held {
        held.reached().await;
    }
    scene.subscribe(&scene.world.b, "pro").await;
    for held in &held {
        held.let_go();
    }
    asking.join_all().await;
    assert_eq!(ask_cancel(a).await.status, 200);
}

/// Down or hanging: a 503 with `Retry-After`, within the time that a call may take; the status is answered at once.
#[tokio::test]
async fn st8_a_processor_that_hangs_holds_nothing_else_up() {
    let scene = scene().await;
    let (a, b) = (&scene.world.a, &scene.world.b);
    let paid = scene.subscribe(a, "pro").await;
    let event = scene.stripe.event_of("customer.subscription.updated", &paid.subscription);
    let before = scene.stripe.seen().len();
    scene.stripe.fails(Some(Fault::Hangs));
    // A call gets ten seconds; a busy machine gets more.
    let within = |ask| tokio::time::timeout(Duration::from_secs(29), ask);
    let refusals = within(join_all([
        ask_checkout(b, "pro").boxed(),
        ask_portal(a).boxed(),
        ask_cancel(a).boxed(),
        scene.post_at(&scene.world.nobody, &event).boxed(),
    ]));
    let meanwhile = async {
        eventually("all of them wait", Duration::from_secs(9), async || scene.stripe.seen().len() >= before + 4).await;
        assert_eq!(status(a).await["plan_tier"], "pro");
        a.make("spring-42").await;
    };
    let (refusals, ()) = tokio::join!(refusals, meanwhile);
    for refused in refusals.expect("answers in time") {
        assert_eq!(refused.outcome(), "503 upstream_unavailable");
        assert!(!refused.header("retry-after").is_empty());
    }
    assert_eq!((scene.events().await, scene.version(a).await), (1, 1), "nothing was changed");

    let down = scene_with(1, |config| {
        if let Some(stripe) = &mut config.stripe {
            // Nothing listens there.
            stripe.base = "http://127.0.0.1:1".parse().expect("a URL");
        }
    })
    .await;
    assert_eq!(ask_checkout(&down.world.a, "pro").await.outcome(), "503 upstream_unavailable");
    assert_eq!(down.plan(&down.world.a).await, "free free active");
}
