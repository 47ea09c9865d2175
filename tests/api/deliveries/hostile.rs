//! Receivers that are slow, wrong or hostile.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use super::{HOST, Scene};
use deeplink_doubles::authority::{Authority, Identity};
use deeplink_doubles::receiver::{Receiver, Say};
use deeplink_testing::dns::How;
use deeplink_testing::eventually;

/// W6: an attempt ends within ten seconds, whatever the receiver does, even in the middle of an answer. The exact limit
/// is tested where the test moves the clock; here a busy machine may take longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w6_an_attempt_ends_within_ten_seconds_whatever_the_receiver_does() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let other = Authority::new();
    let say = |text: &str| text.as_bytes().to_vec();
    let no_pause = Duration::ZERO;
    let drip = Duration::from_millis(100);
    let ok = "HTTP/1.1 200 OK\r\n";
    // The bounds of an attempt that uses its full time, and of one that does not.
    let (full, part) = (15_000, 8_000);
    // What it does, the recorded status, and how long it may take.
    let cases: Vec<(&str, Receiver, Option<u16>, i64)> = vec![
        ("nothing", scene.receiver(Say::Nothing).await, None, full),
        ("close", scene.receiver(Say::Close).await, None, part),
        ("no http", scene.receiver(Say::Bytes(say("SSH-2.0-OpenSSH_9.9\r\n"))).await, None, part),
        ("half a head", scene.receiver(Say::Bytes(say(ok))).await, None, part),
        ("endless head", scene.receiver(Say::Endless(say(ok), say("X: yyyyyyyy\r\n"), no_pause)).await, None, full),
        ("drip head", scene.receiver(Say::Endless(say(ok), say("X"), drip)).await, None, full),
        (
            "interim flood",
            scene.receiver(Say::Endless(Vec::new(), say("HTTP/1.1 100 Continue\r\n\r\n"), no_pause)).await,
            None,
            full,
        ),
        (
            "endless body",
            scene.receiver(Say::Endless(say("HTTP/1.1 200 OK\r\n\r\n"), vec![b'x'; 8_192], no_pause)).await,
            Some(200),
            part,
        ),
        (
            "drip body",
            scene.receiver(Say::Endless(say("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n"), say("x"), drip)).await,
            Some(200),
            part,
        ),
        (
            "ten gigabytes",
            scene
                .receiver(Say::Endless(
                    say("HTTP/1.1 500 No\r\nContent-Length: 10000000000\r\n\r\n"),
                    vec![b'x'; 8_192],
                    no_pause,
                ))
                .await,
            Some(500),
            part,
        ),
        (
            "gzip",
            scene
                .receiver(Say::Bytes(say(
                    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x0b\x08\x00",
                )))
                .await,
            Some(200),
            part,
        ),
        ("plain", Receiver::new(&scene.authority, Identity::Plain, |_, _| Say::Status(200)).await, None, part),
        ("ended", Receiver::new(&scene.authority, Identity::Ended, |_, _| Say::Status(200)).await, None, part),
        ("other name", Receiver::new(&scene.authority, Identity::Other, |_, _| Say::Status(200)).await, None, part),
        (
            "self signed",
            Receiver::new(&scene.authority, Identity::SelfSigned, |_, _| Say::Status(200)).await,
            None,
            part,
        ),
        ("other authority", Receiver::new(&other, Identity::Days(1), |_, _| Say::Status(200)).await, None, part),
    ];
    // Four concurrently, since each of two accounts can have two webhooks.
    let mut texts = std::collections::HashSet::new();
    for pair in cases.chunks(4) {
        let shown = join_all(pair.iter().enumerate().map(|(nth, (_, receiver, ..))| {
            let scene = &scene;
            async move {
                let of = if nth % 2 == 0 { &world.a } else { &world.b };
                let hook = scene.hook(of, &receiver.url(HOST, "/")).await;
                scene.test(of, &hook).await;
                scene.attempted(&hook, 1).await;
                let shown = scene.deliveries(of, &hook).await.remove(0);
                assert_eq!(of.delete(&format!("/v1/webhooks/{}", hook.id)).await.status, 204);
                shown
            }
        }))
        .await;
        for ((what, _, status, millis), shown) in pair.iter().zip(shown) {
            let first = &shown.attempts[0];
            assert_eq!(first.status, *status, "{what}");
            assert!(first.duration_ms <= *millis, "{what}: {} ms", first.duration_ms);
            if status.is_none() {
                // Q8: one text for every reason, and no failure within the first tenth of a second. The only other text
                // is for a timeout, which the duration shows anyway.
                let error = first.error.clone().expect("why it failed");
                if first.duration_ms > 10_000 {
                    assert_eq!(error, "there was no response within 10 seconds", "{what}");
                } else {
                    texts.insert(error);
                }
                assert!(first.duration_ms >= 100, "{what}: {} ms", first.duration_ms);
            }
        }
    }
    assert_eq!(texts.iter().collect::<Vec<_>>(), ["there was no valid response"]);
}

/// W1: the address is checked at every connection: one that has become private is not called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w1_a_name_that_turns_private_is_not_called() {
    let scene = Scene::new().await;
    let world = &scene.world;
    let closes = "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let receiver = scene.receiver(Say::Bytes(closes.into())).await;
    let hook = scene.hook(&world.a, &receiver.url(HOST, "/")).await;
    scene.test(&world.a, &hook).await;
    scene.attempted(&hook, 2).await;
    let connections = receiver.connections();
    for (attempts, wait, addresses) in
        [(3, 1, &["127.0.0.1"][..]), (4, 5, &["127.0.0.2", "10.0.0.1"]), (5, 25, &["169.254.169.254"])]
    {
        world.dns.addresses(HOST, addresses);
        world.clock.advance(Duration::from_secs(wait));
        scene.attempted(&hook, attempts).await;
    }
    scene.settled(&hook, 2, 1).await;
    assert_eq!((connections, receiver.connections(), receiver.hits()), (2, 2, 2));
    let shown = scene.deliveries(&world.a, &hook).await.remove(0);
    assert!(shown.attempts[2..].iter().all(|attempt| attempt.status.is_none() && attempt.error.is_some()));
    // A name that cannot be resolved is a failure like any other.
    world.dns.answer(HOST, How::ServFail);
    scene.test(&world.a, &hook).await;
    scene.attempted(&hook, 7).await;
    assert_eq!(receiver.hits(), 2);
}

/// Q9: the first 1 KiB of a receiver's answer is stored for people, without control characters, and no operation shows
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q9_what_a_receiver_says_is_not_shown_by_the_api() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    let body = format!("marker-7731\u{1b}[2J\0\r\n{}", "y".repeat(4_000));
    let answer = format!("HTTP/1.1 500 No\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let receiver = scene.receiver(Say::Bytes(answer.into_bytes())).await;
    let hook = scene.hook(a, &receiver.url(HOST, "/")).await;
    scene.test(a, &hook).await;
    scene.attempted(&hook, 1).await;
    let shown = a.get(&format!("/v1/webhooks/{}/deliveries", hook.id)).await;
    assert!(!shown.text().contains("marker-7731"), "{}", shown.text());
    let log = scene.world.db.texts(format!("SELECT log FROM deliveries WHERE webhook_id = '{}'", hook.id)).await;
    let log: serde_json::Value = serde_json::from_str(&log[0]).expect("a log");
    let answer = log[0]["answer"].as_str().expect("an answer");
    assert!(answer.starts_with("marker-7731[2Jyyy") && answer.len() <= 1_024, "{answer}");
    assert!(answer.chars().all(|char| !char.is_control()));
}

/// A connection that the receiver has closed meanwhile costs no attempt: the POST is sent over another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_has_ended_costs_no_attempt() {
    let scene = Scene::new().await;
    let a = &scene.world.a;
    // It reads a POST on a reused connection, and then closes it without an answer.
    let receiver = scene.receiver(Say::Status(200)).await;
    let answered = std::sync::Mutex::new(std::collections::HashSet::new());
    receiver.now(move |heard, _| {
        let is_new = answered.lock().expect("a list").insert(heard.connection);
        if is_new { Say::Status(200) } else { Say::Close }
    });
    let hook = scene.hook(a, &receiver.url(HOST, "/")).await;
    for count in 1..=5 {
        scene.test(a, &hook).await;
        scene.settled(&hook, 1, count).await;
    }
    let shown = scene.deliveries(a, &hook).await;
    assert!(shown.iter().all(|one| one.attempts.len() == 1), "{shown:?}");
    eventually("health is recorded", super::PATIENCE, || async {
        let health = a.get("/v1/webhooks").await.json();
        health["webhooks"][0]["health"]["status"] == json!("healthy")
    })
    .await;
}
