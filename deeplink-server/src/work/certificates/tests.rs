//! What waits after which failure: the name that failed, or the node.

use std::time::Duration;

use instant_acme::Error;

use super::*;
use crate::certificates::tests::{World, unreachable_authority};

impl World {
    fn issuer(&self) -> Issuer {
        let app = self.running.app();
        let served = Certificates::new(app.db.clone(), app.clock.clone(), app.vault.clone(), String::new());
        Issuer::new(unreachable_authority(), Arc::new(served))
    }
}

const A_MOMENT: Duration = Duration::from_millis(1);

fn problem(kind: &str) -> Error {
    let text = format!(r#"{{"type":"urn:ietf:params:acme:error:{kind}","detail":"because"}}"#);
    Error::Api(serde_json::from_str(&text).expect("a problem"))
}

/// Makes an order for a tenant's name fail.
async fn failed(issuer: &mut Issuer, world: &World, tenant: &str, name: &str, error: OrderError) {
    let due = Due { name: name.to_owned(), tenant: tenant.to_owned() };
    issuer.finish(world.running.app(), due, Err(error)).await.expect("it is stored");
}

/// How often a name has failed, and the seconds until it is retried.
async fn noted(world: &World, name: &str) -> Option<(i64, i64)> {
    let app = world.running.app();
    let mut reader = app.db.read().await.expect("a reader");
    let failures = certificates::failures(&mut reader.conn(), name).await.expect("a number");
    let again = certificates::again_at(&mut reader.conn(), name).await.expect("a moment")?;
    Some((failures, (again.as_millis() - app.clock.now().as_millis()) / 1_000))
}

/// Authorities ration orders by registered domain, so what one tenant has used up must not stop others.
#[tokio::test]
async fn a_rate_limit_makes_its_name_wait_and_nobody_else() {
    let world = World::with(None).await;
    let app = world.running.app();
    let mut issuer = world.issuer();
    for n in 0..10 {
        let name = format!("n{n}.example.com");
        issuer.asked.set(if n == 0 { 7_200 } else { 0 });
        failed(&mut issuer, &world, "one", &name, OrderError::of_order(problem("rateLimited"))).await;
        assert!(!issuer.is_paused(app), "after {n}");
        assert_eq!(noted(&world, &name).await, Some((1, if n == 0 { 7_200 } else { 60 })), "{name}");
    }
    // The longer of the two waits counts, and a mistake of the authority does not delay a name for good.
    for (asked, failures, wait) in [(10, 2, 300), (u64::MAX, 3, 604_800)] {
        issuer.asked.set(asked);
        failed(&mut issuer, &world, "one", "n0.example.com", OrderError::of_order(problem("rateLimited"))).await;
        assert_eq!(noted(&world, "n0.example.com").await, Some((failures, wait)));
    }
    assert!(!issuer.is_paused(app));
    world.end().await;
}

#[tokio::test]
async fn what_several_tenants_meet_in_a_row_stops_the_node_for_a_while() {
    let world = World::with(None).await;
    let app = world.running.app();
    let mut issuer = world.issuer();
    let away = || OrderError::of_order(Error::Str("no answer"));
    // Anything that shows that the authority works ends the run of failures.
    for (n, other) in
        [OrderError::NoChallenge, OrderError::TooLate, OrderError::Unproved("404".to_owned())].into_iter().enumerate()
    {
        for tenant in ["one", "two"] {
            failed(&mut issuer, &world, tenant, &format!("{tenant}{n}.example.com"), away()).await;
        }
        failed(&mut issuer, &world, "three", &format!("well{n}.example.com"), other).await;
        assert!(!issuer.is_paused(app));
    }
    for pause in [1, 5, 5, 5] {
        for tenant in ["one", "two"] {
            failed(&mut issuer, &world, tenant, &format!("{tenant}.example.com"), away()).await;
            assert!(!issuer.is_paused(app));
        }
        failed(&mut issuer, &world, "", "links.example.com", away()).await;
        assert!(issuer.is_paused(app) && issuer.account.is_none());
        assert!(noted(&world, "links.example.com").await.is_some(), "each name waits too");
        world.clock.advance(Duration::from_mins(pause).saturating_sub(A_MOMENT));
        assert!(issuer.is_paused(app), "{pause} minutes");
        world.clock.advance(A_MOMENT);
        assert!(!issuer.is_paused(app), "{pause} minutes");
    }
    world.end().await;
}

#[tokio::test]
async fn without_an_account_the_node_waits_and_no_name_is_to_blame() {
    let world = World::with(None).await;
    let app = world.running.app();
    let mut issuer = world.issuer();
    for (asked, minutes) in [(0, 1), (0, 5), (2_700, 45), (0, 60), (u64::MAX, 1_440)] {
        issuer.asked.set(asked);
        let error = OrderError::of_account(Error::Str("no answer"));
        failed(&mut issuer, &world, "one", "go.example.com", error).await;
        world.clock.advance(Duration::from_mins(minutes).saturating_sub(A_MOMENT));
        assert!(issuer.is_paused(app), "{minutes} minutes");
        world.clock.advance(A_MOMENT);
        assert!(!issuer.is_paused(app), "{minutes} minutes");
    }
    assert_eq!(noted(&world, "go.example.com").await, None);
    world.end().await;
}
