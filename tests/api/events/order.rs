//! One order for all readers: nothing is missed or repeated, even with concurrent writers on several nodes.

use std::time::Duration;

use serde_json::json;

use super::{Frame, Reading, click, placed};
use deeplink_testing::{at_once, spawn, spawn_nodes};

/// Two nodes, concurrent clicks and reports: every reader sees the same, and one that reconnects sees the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reader_sees_one_order() {
    let world = spawn_nodes(2).await;
    world.a.make("spring-42").await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    let mut streams = [Reading::of(&callers[0]).await, Reading::of(&callers[1]).await];
    at_once(8, |nth| {
        let (caller, clock) = (callers[nth % 2].clone(), world.clock.clone());
        // On PostgreSQL, events that are positioned together are ordered by their time.
        let later = move || clock.advance(Duration::from_millis(1));
        async move {
            for step in 0..20 {
                let install = format!("install-{nth}-{step}");
                let touch = json!({"link_id": "spring-42", "install_id": install, "app_version": "1"});
                later();
                assert_eq!(caller.post("/v1/lifecycle/attribute", &touch).await.status, 200);
                assert_eq!(caller.tap("spring-42").await.status, 302);
                let user = json!({"install_id": install, "user_id": format!("user-{nth}")});
                later();
                assert_eq!(caller.put("/v1/lifecycle/identify", &user).await.status, 200);
            }
        }
    })
    .await;
    let [first, second] = &mut streams;
    let (told, same) = (first.take(480).await, second.take(480).await);
    assert_eq!(told, same);
    let mut ids: Vec<&str> = told.iter().map(|frame| frame.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 480);
    // The events of one caller come in the order of its requests.
    for nth in 0..8 {
        let own = |frame: &&Frame| {
            frame.body["data"]["install_id"].as_str().is_some_and(|id| id.starts_with(&format!("install-{nth}-")))
        };
        let kinds: Vec<&str> = told.iter().filter(own).map(|frame| frame.kind.as_str()).collect();
        assert_eq!(kinds, ["attribute", "identify"].repeat(20));
    }
    for place in [0, 77, 240, 478, 479] {
        let mut again = Reading::after(&callers[place % 2], &told[place].id).await;
        assert_eq!(again.take(479 - place).await, told[place + 1..], "behind {place}");
        assert!(again.rest(&callers[0]).await.iter().all(|frame| frame.kind == "identify"));
    }
}

/// Readers that reconnect after a restart of the service miss nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loses_nothing() {
    let mut world = spawn().await;
    world.a.make("spring-42").await;
    let mut seen: Vec<Frame> = Vec::new();
    let mut stream = Reading::of(&world.a).await;
    for round in 0..3 {
        for nth in 0..5 {
            click(&world, "spring-42").await;
            let body = json!({"install_id": format!("install-{round}-{nth}"), "user_id": "ann"});
            assert_eq!(world.a.put("/v1/lifecycle/identify", &body).await.status, 200);
            placed(&world).await;
        }
        // Some are read before the stop, the others after it.
        seen.extend(stream.take(4).await);
        world.restart(|_| {}).await;
        stream = Reading::after(&world.a, &seen.last().expect("an event").id).await;
        seen.extend(stream.take(6).await);
    }
    assert!(stream.rest(&world.a).await.is_empty());
    let kinds: Vec<&str> = seen.iter().map(|frame| frame.kind.as_str()).collect();
    assert_eq!(kinds, ["click", "identify"].repeat(15));
    let ids: std::collections::BTreeSet<&str> = seen.iter().map(|frame| frame.id.as_str()).collect();
    assert_eq!(ids.len(), 30);
}

/// A reader that has not had an event yet misses none either, if it reconnects after the position that it was given.
#[tokio::test]
async fn a_break_before_the_first_event_loses_nothing() {
    let mut world = spawn().await;
    world.a.make("spring-42").await;
    // In an account without events, and then after one: the visit of the first round.
    for _ in 0..2 {
        let mut stream = Reading::of(&world.a).await;
        assert_eq!(stream.comment().await, "stream started");
        click(&world, "spring-42").await;
        let body = json!({"install_id": "install-1", "user_id": "ann"});
        assert_eq!(world.a.put("/v1/lifecycle/identify", &body).await.status, 200);
        let place = stream.place.clone();
        world.restart(|_| {}).await;
        let kinds: Vec<String> =
            Reading::after(&world.a, &place).await.rest(&world.a).await.into_iter().map(|frame| frame.kind).collect();
        assert_eq!(kinds.iter().filter(|kind| *kind == "click").count(), 1, "{kinds:?}");
    }
}
