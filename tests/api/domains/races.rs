//! What the database decides between concurrent requests. Where nodes share a database, the callers are split over two.

use serde_json::json;

use super::{counted, names, proof_of};
use deeplink_testing::{Caller, Role, World, at_once, spawn_nodes};

fn count(outcomes: &[String], of: &str) -> usize {
    outcomes.iter().filter(|outcome| *outcome == of).count()
}

/// The result of a verify: `true`, `false`, or its refusal.
async fn outcome(caller: Caller, domain: String) -> String {
    let reply = caller.post_nothing(&format!("/v1/domains/{domain}/verify")).await;
    if reply.status == 200 { reply.json()["verified"].to_string() } else { reply.outcome() }
}

fn at_both(world: &World, caller: &Caller) -> [Caller; 2] {
    [world.at(0, caller), world.at(1, caller)]
}

/// D2: with both proofs in DNS, one of two tenants owns the name, and the other's claim ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d2_one_owner_of_twenty_that_ask_at_once() {
    let world = spawn_nodes(2).await;
    let (a, b) = (at_both(&world, &world.a), at_both(&world, &world.b));
    for round in 0..10 {
        let domain = format!("n{round}.example.com");
        let tokens = [&world.a, &world.b].map(|caller| world.claim_domain(caller, &domain, Role::Primary));
        let [of_a, of_b] = tokens;
        world.dns.txt(&proof_of(&domain), &[&of_a.await, &of_b.await]);
        let outcomes = at_once(20, |number| {
            let callers = if number % 2 == 0 { &a } else { &b };
            outcome(callers[number / 2 % 2].clone(), domain.clone())
        })
        .await;
        let (of_a, of_b): (Vec<_>, Vec<_>) = outcomes.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
        let won = |outcomes: &[(usize, String)]| outcomes.iter().filter(|(_, outcome)| outcome == "true").count();
        let lost = |outcomes: &[(usize, String)]| {
            outcomes.iter().all(|(_, outcome)| outcome == "404 not_found" || outcome == "409 domain_taken domain")
        };
        match (won(&of_a), won(&of_b)) {
            (10, 0) => assert!(lost(&of_b), "{of_b:?}"),
            (0, 10) => assert!(lost(&of_a), "{of_a:?}"),
            _ => panic!("{of_a:?} {of_b:?}"),
        }
        let verified = format!("SELECT CAST(count(*) AS BIGINT) FROM domains WHERE domain = '{domain}'");
        assert_eq!(world.db.number(verified).await, 1);
    }
    assert_eq!(counted(&world, &world.a).await + counted(&world, &world.b).await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_claim_of_twenty_that_are_made_at_once() {
    let world = spawn_nodes(2).await;
    let callers = at_both(&world, &world.a);
    for round in 0..5 {
        let outcomes = at_once(20, |number| {
            let (caller, body) = (callers[number % 2].clone(), json!({"domain": format!("n{round}.example.com")}));
            async move { caller.post("/v1/domains", &body).await.outcome() }
        })
        .await;
        assert_eq!((count(&outcomes, "201"), count(&outcomes, "409 domain_taken domain")), (1, 19), "{outcomes:?}");
        assert_eq!(counted(&world, &world.a).await, round + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_alternate_of_ten_that_are_verified_at_once() {
    let world = spawn_nodes(2).await;
    let callers = at_both(&world, &world.a);
    for round in 0..5 {
        for number in 0..10 {
            let domain = format!("n{number}-{round}.example.com");
            let token = world.claim_domain(&world.a, &domain, Role::Alternate).await;
            world.dns.txt(&proof_of(&domain), &[&token]);
        }
        let outcomes =
            at_once(10, |number| outcome(callers[number % 2].clone(), format!("n{number}-{round}.example.com"))).await;
        assert_eq!((count(&outcomes, "true"), count(&outcomes, "409 alternate_limit role")), (1, 9), "{outcomes:?}");
        let verified: Vec<_> = names(&world.a).await.into_iter().filter(|name| name.ends_with('!')).collect();
        assert_eq!(verified.len(), 1);
        for name in names(&world.a).await {
            assert_eq!(world.a.delete(&format!("/v1/domains/{}", name.trim_end_matches('!'))).await.status, 204);
        }
    }
}

/// U2: the plan's limit is exact under concurrent requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn u2_the_limit_of_domains_is_exact() {
    let world = deeplink_testing::spawn_with(|config| config.enforce_quotas = true).await;
    let outcomes = at_once(20, |number| {
        let (caller, body) = (world.a.clone(), json!({"domain": format!("n{number}.example.com")}));
        async move { caller.post("/v1/domains", &body).await.outcome() }
    })
    .await;
    assert_eq!((count(&outcomes, "201"), count(&outcomes, "402 quota_exceeded")), (1, 19), "{outcomes:?}");
    assert_eq!(counted(&world, &world.a).await, 1);
}

/// Claims, proofs and deletes of one name by two tenants at once: the counts match the rows, and at most one claim is
/// verified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_comes_at_once_the_rows_and_counts_agree() {
    let world = spawn_nodes(2).await;
    for round in 0..6 {
        let domain = format!("n{round}.example.com");
        let (of_a, of_b) = (
            world.claim_domain(&world.a, &domain, Role::Primary).await,
            world.claim_domain(&world.b, &domain, Role::Primary).await,
        );
        world.dns.txt(&proof_of(&domain), &[&of_a, &of_b]);
        let outcomes = at_once(24, |number| {
            let caller = world.at(number % 2, if number % 4 < 2 { &world.a } else { &world.b });
            let (domain, path) = (domain.clone(), format!("/v1/domains/{domain}"));
            async move {
                match number / 4 % 3 {
                    0 => outcome(caller, domain).await,
                    1 => caller.delete(&path).await.outcome(),
                    _ => caller.post("/v1/domains", &json!({"domain": domain})).await.outcome(),
                }
            }
        })
        .await;
        const FINE: [&str; 6] = ["true", "false", "201", "204", "404 not_found", "409 domain_taken domain"];
        assert!(outcomes.iter().all(|outcome| FINE.contains(&outcome.as_str())), "{outcomes:?}");
        let verified = format!(
            "SELECT CAST(count(*) AS BIGINT) FROM domains WHERE domain = '{domain}' AND verified_at IS NOT NULL"
        );
        assert!(world.db.number(verified).await <= 1);
        counted(&world, &world.a).await;
        counted(&world, &world.b).await;
    }
}
