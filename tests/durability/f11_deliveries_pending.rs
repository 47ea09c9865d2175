//! F11, G5: the process is killed with deliveries on their way.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deeplink_core::secret::Random;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::hooked::{Hooked, Makers, install, is_tap};
use crate::machine::{alone, say, seed};
use crate::store::{self, Delivery};
use deeplink_doubles::meter::Meter;
use deeplink_doubles::receiver::Say;
use deeplink_doubles::wait::eventually;

/// Far longer than a debug build takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

const DELIVERED: i64 = 1;

fn waiting(deliveries: &HashMap<String, Delivery>) -> usize {
    deliveries.values().filter(|delivery| delivery.state == 0).count()
}

/// Waits until this many deliveries are stored and all of them are settled.
async fn all_settled(hooked: &Hooked, least: usize) -> HashMap<String, Delivery> {
    eventually("all deliveries are settled", PATIENCE, || async {
        sleep(Duration::from_millis(200)).await;
        let all = store::deliveries(&hooked.home.database).await;
        let waiting = waiting(&all);
        if all.len() >= least && waiting == 0 { Ok(()) } else { Err(format!("{waiting} of {} wait", all.len())) }
    })
    .await;
    store::deliveries(&hooked.home.database).await
}

/// G5: 10,000 events, first touches and clicks, for a receiver that refuses, disconnects or accepts at random. The
/// server is killed twice while they are made, and once while the last are retried. Each arrives at least once, with
/// the same id and bytes in every attempt, and with both signatures valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g5_ten_thousand_events_arrive_through_three_kills_at_a_receiver_that_fails_at_random() {
    const CLIENTS: usize = 40;
    const EACH: usize = 250;
    // Two attempts fewer than the schedule has: some are lost with the process, and the test does not wait half a
    // minute for the last.
    const MOST_FAILURES: usize = 3;
    let _alone = alone();
    let mut random = Random::seeded(seed());
    let failures = Mutex::new(HashMap::<String, usize>::new());
    let taken = Arc::<Mutex<HashSet<String>>>::default();
    let (mut hooked, mut node) = Hooked::new({
        let (taken, random) = (Arc::clone(&taken), Mutex::new(Random::seeded(random.below(u64::MAX))));
        move |heard, _| {
            let mut failures = failures.lock().expect("a list");
            let failed = failures.entry(heard.id().to_owned()).or_default();
            if *failed < MOST_FAILURES && random.lock().expect("random").below(100) < 35 {
                *failed += 1;
                return if *failed == 2 { Say::Close } else { Say::Status(503) };
            }
            taken.lock().expect("a list").insert(heard.id().to_owned());
            Say::Status(204)
        }
    })
    .await;
    hooked.hook(&node, "/in", &["attribute", "click"]).await;
    let makers = Makers::start(&hooked, &node, CLIENTS, EACH);
    let began = Instant::now();
    for (kill, made) in [3_000, 7_000, CLIENTS * EACH].into_iter().enumerate() {
        makers.have_made(made).await;
        node.kill().await;
        store::wait_until_left(&hooked.home.database).await;
        let waiting = waiting(&store::deliveries(&hooked.home.database).await);
        say(&format!("kill {}: {made} facts after {:?}, {waiting} deliveries wait", kill + 1, began.elapsed()));
        assert!(waiting > 0, "nothing was in progress");
        node = hooked.start().await;
        makers.turn_to(&node);
    }
    let taps_sent = makers.end().await;
    let stored = all_settled(&hooked, CLIENTS * EACH).await;
    say(&format!("all settled after {:?}", began.elapsed()));
    node.stop().await;

    assert!(stored.values().all(|delivery| delivery.state == DELIVERED), "one did not arrive");
    let heard = hooked.by_event();
    let taken = taken.lock().expect("a list");
    assert!(stored.keys().all(|event| taken.contains(event)) && heard.len() == stored.len());
    let (mut installs, mut taps) = (HashSet::new(), 0);
    for posts in heard.values() {
        let event: Value = serde_json::from_slice(&posts[0].body).expect("JSON");
        match event["data"]["install_id"].as_str() {
            Some(install) => drop(installs.insert(install.to_owned())),
            None => taps += 1,
        }
    }
    let facts = || (0..CLIENTS).flat_map(|client| (0..EACH).map(move |nth| (client, nth)));
    let missing: Vec<_> = facts().filter(|(_, nth)| !is_tap(*nth)).map(|(client, nth)| install(client, nth)).collect();
    let missing: Vec<_> = missing.into_iter().filter(|install| !installs.contains(install)).collect();
    assert!(missing.is_empty(), "touches without an event: {missing:?}");
    let acknowledged = facts().filter(|(_, nth)| is_tap(*nth)).count() as u64;
    assert!((acknowledged..=taps_sent).contains(&taps), "{acknowledged} taps were acknowledged, {taps} were told");
    let posts: usize = heard.values().map(Vec::len).sum();
    say(&format!("{} events in {posts} posts", heard.len()));
}

/// F11: 500 events for a receiver that fails three times, and kills in the middle of the first attempts and in the wait
/// of five seconds before the fourth. All arrive; attempts before a kill count, so the schedule continues where it was,
/// and nothing comes before it is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f11_killed_between_attempts_the_schedule_goes_on_where_it_was() {
    const CLIENTS: usize = 20;
    const EACH: usize = 25;
    const EVENTS: usize = CLIENTS * EACH;
    const FAILURES: usize = 3;
    let _alone = alone();
    let posts = Mutex::new(HashMap::<String, usize>::new());
    let (mut hooked, node) = Hooked::new(move |heard, _| {
        let mut posts = posts.lock().expect("a list");
        let count = posts.entry(heard.id().to_owned()).or_default();
        *count += 1;
        Say::Status(if *count <= FAILURES { 500 } else { 200 })
    })
    .await;
    hooked.hook(&node, "/in", &["attribute", "click"]).await;
    let makers = Makers::start(&hooked, &node, CLIENTS, EACH);
    // Each has two attempts without a wait.
    makers.have_made(EVENTS / 2).await;
    node.kill().await;
    let node = hooked.start().await;
    makers.turn_to(&node);
    makers.end().await;
    eventually("all have failed three times", PATIENCE, || async {
        let all = store::deliveries(&hooked.home.database).await;
        let fewer = all.values().filter(|delivery| delivery.state == 0 && delivery.tries < 3).count();
        if fewer == 0 && all.len() >= EVENTS { Ok(()) } else { Err(format!("{fewer} of {}", all.len())) }
    })
    .await;
    node.kill().await;
    store::wait_until_left(&hooked.home.database).await;
    let before = store::deliveries(&hooked.home.database).await;
    // The half from before the first kill may have been accepted meanwhile; the last to fail still have five seconds to
    // wait.
    assert!(waiting(&before) > 0, "none waits");
    let node = hooked.start().await;
    let after = all_settled(&hooked, EVENTS).await;
    node.stop().await;

    assert_eq!(after.len(), before.len());
    let next = |event: &str| after[event].log.get(before[event].log.len()).map(|attempt| attempt["at"].as_i64());
    for (event, before) in &before {
        let after = &after[event];
        assert_eq!(after.state, DELIVERED, "{event}");
        assert!(after.log.starts_with(&before.log), "{event}: {:?} was {:?}", after.log, before.log);
        let more = i64::from(before.state == 0);
        assert_eq!((after.tries, after.log.len() - before.log.len()), (before.tries + more, usize::from(more == 1)));
        if let Some(at) = next(event) {
            let at = at.expect("a time");
            assert!(at >= before.due_at, "{event} was attempted {} ms too early", before.due_at - at);
        }
    }
    let heard = hooked.by_event();
    assert_eq!(heard.len(), after.len());
    assert!(heard.values().all(|posts| posts.len() > FAILURES), "a success without three failures");
}

/// G5: the five attempts of a delivery come 0, 0, 1, 6 and 31 seconds after the first, by the real clock; another one
/// has no attempt after the one that is answered with 204.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g5_attempts_come_at_their_times_and_end_with_a_success() {
    const EXACT: Duration = Duration::from_millis(500);
    const SECOND: Duration = Duration::from_secs(1);
    let _alone = alone();
    let calls = Mutex::new(0);
    let (mut hooked, node) = Hooked::new(move |heard, _| {
        let mut calls = calls.lock().expect("a number");
        if heard.path != "/fails" {
            *calls += 1;
        }
        Say::Status(if heard.path == "/fails" || *calls < 3 { 500 } else { 204 })
    })
    .await;
    let meter = Meter::start(hooked.home.beside("page"));
    for path in ["/works", "/fails"] {
        let hook = hooked.hook(&node, path, &["click"]).await;
        hooked.ask(&node, "POST", &format!("/v1/webhooks/{hook}/test"), &json!({}), 200).await;
    }
    let heard = |path: &str| {
        let heard = hooked.receiver.heard();
        heard.into_iter().filter(|post| post.path == path).map(|post| post.at).collect::<Vec<_>>()
    };
    // Each has a stored outcome, and then there is nothing left to send.
    all_settled(&hooked, 2).await;
    let posts = heard("/fails");
    assert_eq!(posts.len(), 5);
    let first = posts[0];
    let (mut before, mut due, mut lost) = (first, Duration::ZERO, Duration::ZERO);
    for (at, wait) in posts.into_iter().zip([0, 0, 1, 5, 25].map(Duration::from_secs)) {
        // The machine's delays since an attempt was due, over at least a second, or in the second in which the previous
        // one was recorded, shift this one and all later ones. In between, they do not matter.
        let noted = (before + SECOND).min(at);
        let began = at.checked_sub(SECOND).unwrap_or(before).min(before + wait).max(noted);
        lost += 2 * (meter.lost(before, noted) + meter.lost(began, at));
        (before, due) = (at, due + wait);
        let away = at.duration_since(first);
        assert!(
            away + EXACT >= due && away <= due + EXACT + lost,
            "{away:?} and not {due:?}, of which {lost:?} were lost"
        );
    }
    assert_eq!(heard("/works").len(), 3, "there was an attempt after the success");
    node.stop().await;
}
