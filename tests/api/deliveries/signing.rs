//! What an attempt contains, and how a receiver verifies it.

use std::time::Duration;

use deeplink_core::signature::{Signer, WebhookSecret};
use deeplink_server::config::Config;

use super::{HOST, Hook, Scene};
use deeplink_doubles::receiver::{Heard, Say};

fn signer(secret: &str) -> Signer {
    Signer::new(&WebhookSecret::new(secret)).expect("a secret")
}

/// Whether `X-Service-Signature` and `webhook-signature` are valid with this secret.
pub(super) fn is_signed_with(heard: &Heard, secret: &str) -> (bool, bool) {
    let signer = signer(secret);
    let (id, at) = (heard.id(), heard.header("webhook-timestamp"));
    (
        signer.is_service(heard.header("x-service-signature"), &heard.body),
        signer.is_standard(heard.header("webhook-signature"), id, at, &heard.body),
    )
}

/// W3: each attempt is signed over the bytes that are sent, with its own time; its id and bytes stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w3_many_events_are_signed_as_documented() {
    const COUNT: usize = 300;
    let scene = Scene::new().await;
    let a = &scene.world.a;
    // Every third event fails three times.
    let receiver = scene.receiver(Say::Status(204)).await;
    let fails = std::sync::Mutex::new(std::collections::HashMap::<String, i32>::new());
    receiver.now(move |heard, _| {
        let mut fails = fails.lock().expect("the list");
        let count = fails.len();
        let left = fails.entry(heard.id().to_owned()).or_insert(if count.is_multiple_of(3) { 3 } else { 0 });
        *left -= 1;
        Say::Status(if *left >= 0 { 503 } else { 204 })
    });
    let hook = scene.hook(a, &receiver.url(HOST, "/in")).await;
    scene.pile_up(a, &hook, COUNT).await;
    scene.world.clock.advance(Duration::from_millis(10));
    let count = i64::try_from(COUNT).expect("a count");
    for (attempts, wait) in [(4, 1), (5, 5)] {
        scene.attempted(&hook, count + count / 3 * (attempts - 3)).await;
        scene.world.clock.advance(Duration::from_secs(wait));
    }
    scene.settled(&hook, 1, count).await;
    let heard = receiver.heard();
    assert!(heard.len() > COUNT && receiver.connections() <= 16, "{} {}", heard.len(), receiver.connections());
    let mut bodies = std::collections::HashMap::new();
    for post in &heard {
        assert_eq!(is_signed_with(post, &hook.secret), (true, true));
        assert_eq!(bodies.entry(post.id().to_owned()).or_insert_with(|| post.body.clone()), &post.body);
        assert_eq!(post.header("content-type"), "application/json");
        assert!(post.header("user-agent").starts_with("deeplink-server/"));
        for absent in ["cookie", "authorization", "connection", "transfer-encoding", "referer", "x-request-id"] {
            assert!(!post.headers.contains_key(absent), "{absent}");
        }
    }
    assert_eq!(bodies.len(), COUNT);
}

/// W3: after a rotation in the middle of the attempts, `X-Service-Signature` is the new secret's and `webhook-signature`
/// carries both for 24 hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w3_a_rotation_between_attempts_signs_with_both() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let receiver = scene.receiver(Say::Status(500)).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/")).await;
    scene.test(a, &hook).await;
    scene.attempted(&hook, 2).await;
    let rotated = a.post_nothing(&format!("/v1/webhooks/{}/rotate-secret", hook.id)).await;
    let new = rotated.member("secret");
    scene.world.note_secret(&new);
    scene.world.clock.advance(Duration::from_secs(1));
    scene.attempted(&hook, 3).await;
    let heard = receiver.heard();
    assert_eq!(is_signed_with(&heard[1], &hook.secret), (true, true));
    assert_eq!(is_signed_with(&heard[1], &new), (false, false));
    assert_eq!(is_signed_with(&heard[2], &new), (true, true));
    assert_eq!(is_signed_with(&heard[2], &hook.secret), (false, true));
    assert_eq!((heard[2].id(), &heard[2].body), (heard[0].id(), &heard[0].body));
    let seconds = |at: usize| heard[at].header("webhook-timestamp").parse::<i64>().expect("seconds");
    assert_eq!(seconds(2) - seconds(0), 1);
    // A day later only the new one signs.
    receiver.now(|_, _| Say::Status(200));
    scene.world.clock.advance(Duration::from_hours(24));
    scene.settled(&hook, 1, 1).await;
    let last = receiver.heard().pop().expect("a post");
    assert_eq!(is_signed_with(&last, &new), (true, true));
    assert_eq!(is_signed_with(&last, &hook.secret), (false, false));
}

/// X18: deliveries still verify after the master key has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x18_deliveries_verify_after_the_server_key_has_changed() {
    use base64::Engine as _;
    let mut scene = Scene::new().await;
    let a = scene.world.a.clone();
    let receiver = scene.receiver(Say::Status(200)).await;
    let hook = scene.hook(&a, &receiver.url(HOST, "/")).await;
    let rotated = a.post_nothing(&format!("/v1/webhooks/{}/rotate-secret", hook.id)).await;
    let new = Hook { secret: rotated.member("secret"), ..hook.clone() };
    scene.world.note_secret(&new.secret);
    let key = base64::engine::general_purpose::STANDARD.encode([7; 32]);
    let first = |config: &mut Config| config.master_keys.insert(0, key.parse().expect("a key"));
    scene.world.restart(first).await;
    // The old one can be removed.
    scene.world.restart(|config| config.master_keys.truncate(1)).await;
    scene.test(&a, &hook).await;
    scene.settled(&hook, 1, 1).await;
    let heard = receiver.heard().remove(0);
    assert_eq!(is_signed_with(&heard, &new.secret), (true, true));
    assert_eq!(is_signed_with(&heard, &hook.secret), (false, true));
}
