//! Concurrent reports: the first commit holds, and whichever report comes second settles the credit.

use std::time::Duration;

use serde_json::json;

use super::{CREDITS, attribute, attribute_on, bindings, convert, count, identify, page_of, stays_true};
use deeplink_testing::{Caller, World, at_once, insist, spawn_nodes, spawn_nodes_with};

fn split(world: &World, caller: &Caller) -> [Caller; 2] {
    [world.at(0, caller), world.at(1, caller)]
}

/// C2: fifty concurrent reports with one key, half of them from a page, whose keys are separate from those of servers:
/// each half has one event, uses one unit of the quota, and its repeats get that event's id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_fifty_with_one_key() {
    let world = spawn_nodes_with(2, |config| config.enforce_quotas = true).await;
    let page = page_of(&world, &world.a, "keys.example.com").await;
    let callers = [split(&world, &world.a), split(&world, &page)];
    for round in 0..5 {
        let replies = at_once(50, |number| {
            let caller = callers[number / 2 % 2][number % 2].clone();
            // Users differ, so that only the key is in common.
            let user = format!("user-{}", number % 3);
            let body = json!({"user_id": user, "type": "purchase", "idempotency_key": format!("order-{round}")});
            async move { insist(|| async { convert(&caller, &body).await }).await }
        })
        .await;
        for of_page in [false, true] {
            let replies: Vec<_> = (0..50).filter(|at| (at / 2 % 2 == 1) == of_page).map(|at| &replies[at]).collect();
            let of = |name: &str| replies.iter().filter(|reply| reply.json()[name] == 1).count();
            let outcomes = (of("unattributed"), of("deduped"), of("accepted"), of("failed"));
            assert_eq!(outcomes, (1, replies.len() - 1, 0, 0));
            let id = replies[0].member("event_id");
            assert!(replies.iter().all(|reply| reply.member("event_id") == id));
        }
        assert_eq!(count(&world, "conversions").await, 2 * (round + 1));
        let used = format!("SELECT events FROM tenant_months WHERE tenant_id = '{}'", world.a.tenant);
        assert_eq!(world.db.number(used).await, 2 * (round + 1));
    }
}

/// C2, U2: with room for ten, fifty concurrent conversions: ten are stored, forty failed, and the counter is exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c2_the_quota_is_exact() {
    let world = spawn_nodes_with(2, |config| config.enforce_quotas = true).await;
    let tenant = &world.a.tenant;
    let month = world.clock.now().month().as_millis();
    world.db.execute(format!("INSERT INTO tenant_months VALUES ('{tenant}', {month}, 9990)")).await;
    let callers = split(&world, &world.a);
    let replies = at_once(50, |number| {
        let (caller, body) = (callers[number % 2].clone(), json!({"user_id": format!("user-{number}"), "type": "t"}));
        async move { insist(|| async { convert(&caller, &body).await }).await }
    })
    .await;
    let of = |name: &str| replies.iter().filter(|reply| reply.json()[name] == 1).count();
    assert_eq!((of("unattributed"), of("failed")), (10, 40));
    assert_eq!((count(&world, "conversions").await, count(&world, "app_users").await), (10, 10));
    assert_eq!(world.db.number("SELECT events FROM tenant_months").await, 10_000);
}

/// C4: the first binding that commits holds: of two users, all requests of one succeed and all of the other fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_fifty_bindings_of_two_users() {
    let world = spawn_nodes(2).await;
    world.a.make("spring").await;
    let callers = split(&world, &world.a);
    for round in 0..8 {
        let install = format!("install-{round}");
        if round % 2 == 0 {
            attribute(&world.a, "spring", &install).await;
        }
        let outcomes = at_once(50, |number| {
            let (caller, install) = (callers[number / 2 % 2].clone(), install.clone());
            let user = ["ann", "ben"][number % 2];
            async move { (user, insist(|| async { identify(&caller, &install, user).await }).await.outcome()) }
        })
        .await;
        let bound = world.db.texts(format!(
            "SELECT u.user_id FROM installs i JOIN app_users u ON u.position = i.app_user WHERE i.install_id = '{install}'"
        ));
        let [bound] = &bound.await[..] else { panic!("one user") };
        for (user, outcome) in &outcomes {
            assert_eq!(outcome, if user == bound { "200" } else { "409 identify_conflict" }, "{outcomes:?}");
        }
    }
    assert_eq!(count(&world, "install_credits WHERE link > 0").await, 4, "each binding is one event");
    stays_true(&world).await;
}

/// C4: two concurrent installs of one person: one is the first, the other comes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_two_installs_of_one_user() {
    let world = spawn_nodes(2).await;
    world.a.make("spring").await;
    let callers = split(&world, &world.a);
    for round in 0..20 {
        let same_model = round % 2 == 0;
        for at in 0..2 {
            let model = if same_model { "a".to_owned() } else { format!("model-{at}") };
            attribute_on(&world.a, "spring", &format!("install-{round}-{at}"), &model).await;
        }
        at_once(2, |number| {
            let (caller, install) = (callers[number].clone(), format!("install-{round}-{number}"));
            async move {
                let reply = insist(|| async { identify(&caller, &install, &format!("user-{round}")).await }).await;
                assert_eq!(reply.status, 200, "{}", reply.text());
            }
        })
        .await;
        let bound = bindings(&world).await;
        let was = |what: &str| {
            bound.iter().filter(|row| row.contains(&format!(" user-{round} ")) && row.ends_with(what)).count()
        };
        let second = if same_model { "reinstalled" } else { "new_device" };
        assert_eq!((was("identified"), was(second)), (1, 1), "{bound:?}");
    }
    stays_true(&world).await;
}

/// C3: a conversion concurrent with the binding of its user: it is credited and becomes an event, once, whichever comes
/// first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_conversions_against_a_binding() {
    let world = spawn_nodes(2).await;
    world.a.make("spring").await;
    let callers = split(&world, &world.a);
    let mut early = 0;
    for round in 0..20 {
        let (install, user) = (format!("install-{round}"), format!("user-{round}"));
        attribute(&world.a, "spring", &install).await;
        let replies = at_once(6, |number| {
            let (caller, install, user) = (callers[number % 2].clone(), install.clone(), user.clone());
            async move {
                match number {
                    0 => insist(|| async { identify(&caller, &install, &user).await }).await,
                    _ => insist(|| async { convert(&caller, &json!({"user_id": user, "type": "t"})).await }).await,
                }
            }
        })
        .await;
        assert!(replies.iter().all(|reply| reply.status == 200));
        early += replies.iter().filter(|reply| reply.json()["unattributed"] == 1).count();
    }
    assert_eq!((count(&world, "conversions").await, count(&world, CREDITS).await), (100, 100));
    assert_eq!(count(&world, "conversions WHERE emitted_at IS NULL").await, 0);
    assert!(early < 100, "some came later than their user");
    stays_true(&world).await;
}

/// Touches concurrent with the binding of their install and with conversions: every touch is credited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn touches_against_a_binding_and_conversions() {
    let world = spawn_nodes(2).await;
    for at in 0..4 {
        world.a.make(&format!("link-{at}")).await;
    }
    let callers = split(&world, &world.a);
    for round in 0..15 {
        let (install, user) = (format!("install-{round}"), format!("user-{round}"));
        attribute(&world.a, "link-0", &install).await;
        let ahead = json!({"user_id": user, "type": "ahead", "occurred_at": world.clock.now().plus_millis(200_000)});
        assert_eq!(convert(&world.a, &ahead).await.status, 200);
        at_once(8, |number| {
            let (caller, install, user) = (callers[number % 2].clone(), install.clone(), user.clone());
            let ahead = ahead.clone();
            async move {
                let reply = match number {
                    0 => insist(|| async { identify(&caller, &install, &user).await }).await,
                    1 | 2 => insist(|| async { convert(&caller, &ahead).await }).await,
                    3 => insist(|| async { identify(&caller, &format!("{install}-second"), &user).await }).await,
                    _ => insist(|| async { attribute(&caller, &format!("link-{}", number - 4), &install).await }).await,
                };
                assert_eq!(reply.status, 200, "{}", reply.text());
            }
        })
        .await;
        world.clock.advance(Duration::from_millis(7));
    }
    // Four links touched the install before each conversion.
    assert_eq!(count(&world, CREDITS).await, 15 * 3 * 4);
    stays_true(&world).await;
}

/// Concurrent touches of one install are numbered without a gap, and exactly one is its creation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn touches_of_one_install_are_numbered() {
    let world = spawn_nodes(2).await;
    for link in ["spring", "autumn"] {
        world.a.make(link).await;
    }
    let callers = split(&world, &world.a);
    for _ in 0..2 {
        at_once(30, |number| {
            let caller = callers[number % 2].clone();
            let link = ["spring", "autumn"][number / 2 % 2];
            async move { assert_eq!(insist(|| async { attribute(&caller, link, "one").await }).await.status, 200) }
        })
        .await;
        world.clock.set(world.clock.now().plus_millis(-5));
    }
    let numbers = world.db.texts("SELECT CAST(number AS TEXT) FROM touches ORDER BY touches.number").await;
    assert_eq!(numbers, (1..=60).map(|number: i64| number.to_string()).collect::<Vec<_>>());
    stays_true(&world).await;
}
