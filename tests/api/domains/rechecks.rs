//! What keeps a domain, and what ends it: daily re-checks, and claims that lapse. The clock moves; nothing sleeps.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{counted, names, proof_of, verify};
use deeplink_testing::dns::How;
use deeplink_testing::{Role, World, eventually, spawn, spawn_nodes};

const SOON: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY_MILLIS: u64 = 24 * 3_600_000;
const DOMAIN: &str = "go.example.com";

/// The stored number of consecutive failures.
async fn failures(world: &World) -> i64 {
    world.db.number(format!("SELECT failures FROM domains WHERE domain = '{DOMAIN}'")).await
}

/// Advances the clock, makes the re-check due at that moment, and waits until it is done. Returns the minutes until the
/// next one; a lost domain has none.
async fn recheck_after(world: &World, hours: u32) -> Option<i64> {
    let now = world.clock.now().as_millis() + i64::from(hours) * 3_600_000;
    world.db.execute(format!("UPDATE domains SET check_at = {now} WHERE check_at IS NOT NULL")).await;
    world.clock.advance(HOUR * hours);
    let next = format!("SELECT COALESCE(check_at, -1) FROM domains WHERE domain = '{DOMAIN}'");
    // A minute is the lease of the check itself.
    let made = async || matches!(world.db.number(next.clone()).await, next if next < 0 || next > now + 60_000);
    eventually("the re-check is made", SOON, made).await;
    let next = world.db.number(next).await;
    (next >= 0).then(|| (next - now) / 60_000)
}

/// D1: claims do not block others, and the tenant that proves the name owns it: the others' claims end.
#[tokio::test]
async fn d1_a_claim_blocks_nobody_and_a_proof_ends_it() {
    let world = spawn().await;
    world.claim_domain(&world.a, DOMAIN, Role::Primary).await;
    world.own_domain(&world.b, DOMAIN, Role::Primary).await;
    assert_eq!((names(&world.a).await, names(&world.b).await), (vec![], vec![format!("{DOMAIN}!")]));
    assert_eq!((counted(&world, &world.a).await, counted(&world, &world.b).await), (0, 1));
    let gone = world.a.post_nothing(&format!("/v1/domains/{DOMAIN}/verify")).await;
    assert_eq!(gone.outcome(), "404 not_found");
    let again = world.a.post("/v1/domains", &json!({"domain": DOMAIN})).await;
    assert_eq!(again.outcome(), "409 domain_taken domain");
    assert_eq!(world.b.delete(&format!("/v1/domains/{DOMAIN}")).await.status, 204);
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
}

/// D1: an unproved claim ends after seven days; a verified domain does not.
#[tokio::test]
async fn d1_a_claim_lapses_after_seven_days() {
    let world = spawn().await;
    world.claim_domain(&world.a, DOMAIN, Role::Primary).await;
    world.own_domain(&world.a, "own.example.com", Role::Primary).await;
    world.clock.advance(HOUR * 24);
    for number in 0..3 {
        world.claim_domain(&world.b, &format!("n{number}.example.com"), Role::Primary).await;
    }
    world.clock.advance(Duration::from_millis(6 * DAY_MILLIS - 1));
    // Another effect of the same scan shows that it took place.
    recheck_after(&world, 0).await;
    assert_eq!(names(&world.a).await.len(), 2);
    world.clock.advance(Duration::from_millis(1));
    eventually("the claim ends", SOON, || async { names(&world.a).await == ["own.example.com!"] }).await;
    assert_eq!((counted(&world, &world.a).await, counted(&world, &world.b).await), (1, 3));
    world.clock.advance(HOUR * 24);
    eventually("the others follow", SOON, || async { names(&world.b).await.is_empty() }).await;
    assert_eq!(counted(&world, &world.b).await, 0);
    world.claim_domain(&world.a, DOMAIN, Role::Primary).await;
}

/// D5: two definite failures change nothing, and neither do many within less than three days; the token resets them.
/// Three over three days do: the host is removed, the tenant is no longer shown as verified, its owner is told.
#[tokio::test]
async fn d5_three_definite_failures_over_three_days() {
    let world = spawn().await;
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
    let id = world.a.make("spring-42").await;
    let token = world.a.get("/v1/domains").await.json()[0]["verification_token"].clone();
    let token = token.as_str().expect("a token");
    let on_host = async || {
        let ask = world.nobody.browse(Method::GET, "/spring-42").header("host", DOMAIN);
        ask.send().await.status
    };
    let is_there = async || {
        assert_eq!((names(&world.a).await, on_host().await), (vec![format!("{DOMAIN}!")], 302));
    };
    let minutes = recheck_after(&world, 24).await.expect("a next one");
    assert!((23 * 60..=24 * 60).contains(&minutes), "{minutes}: every day, spread over an hour");

    world.dns.remove(&proof_of(DOMAIN));
    recheck_after(&world, 24).await;
    recheck_after(&world, 80).await;
    assert_eq!(failures(&world).await, 2, "two failures, however long apart");
    is_there().await;
    world.dns.txt(&proof_of(DOMAIN), &[token]);
    recheck_after(&world, 1).await;
    assert_eq!(failures(&world).await, 0, "the token resets them");

    for (how, values, hours) in [
        (How::NxDomain, vec![], 24),
        (How::Well, vec![], 24),
        (How::Well, vec!["something else"], 24),
        (How::Well, vec![&token[1..]], 23),
    ] {
        world.dns.answer(&proof_of(DOMAIN), how);
        world.dns.txt(&proof_of(DOMAIN), &values);
        recheck_after(&world, hours).await;
        is_there().await;
    }
    assert_eq!(failures(&world).await, 4, "four failures in 71 hours");

    assert_eq!(world.a.resolve(&id).await.json()["_service_meta"]["tenant_verified"], true);
    assert_eq!(recheck_after(&world, 1).await, None, "72 hours");
    assert_eq!((names(&world.a).await, on_host().await), (vec![DOMAIN.to_owned()], 404));
    let meta = world.a.resolve(&id).await.json()["_service_meta"].clone();
    assert_eq!((&meta["tenant_verified"], &meta["tenant_domain"]), (&json!(false), &Value::Null));
    let shown = world.a.get("/v1/links/spring-42").await;
    assert_eq!(shown.member("url"), format!("{}/r/spring-42", world.a.base()));

    let mail = world.mails(1).await.remove(0);
    assert!(mail.contains("To: a@example.com") && mail.contains(&format!("Subject: {DOMAIN} is no longer verified")));
    assert!(mail.lines().any(|line| line == proof_of(DOMAIN)) && mail.lines().any(|line| line == token), "{mail}");

    // It is a claim again: it has seven days from now, and the old token is valid.
    world.clock.advance(Duration::from_millis(7 * DAY_MILLIS - 1));
    world.dns.txt(&proof_of(DOMAIN), &[token]);
    assert_eq!(verify(&world.a, DOMAIN).await["verified"], true);
    assert_eq!(on_host().await, 302);
}

/// D5: a lost domain is free for others, and lapses like any claim.
#[tokio::test]
async fn d5_a_lost_domain_is_a_claim_like_others() {
    let world = spawn().await;
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
    world.dns.remove(&proof_of(DOMAIN));
    for hours in [24, 24, 24, 24] {
        recheck_after(&world, hours).await;
    }
    assert_eq!(names(&world.a).await, [DOMAIN]);
    world.claim_domain(&world.b, DOMAIN, Role::Primary).await;
    world.clock.advance(HOUR * 24 * 7);
    eventually("it lapses", SOON, || async { names(&world.a).await.is_empty() }).await;
    assert_eq!(counted(&world, &world.a).await, 0);
}

/// D5: failed lookups do not count, however many; the next one is after an hour.
#[tokio::test]
async fn d5_failing_name_servers_cost_nobody_a_domain() {
    let world = spawn().await;
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
    world.dns.txt(&proof_of(DOMAIN), &[]);
    recheck_after(&world, 24).await;
    assert_eq!(failures(&world).await, 1);
    for how in [How::ServFail, How::Refused, How::Garbage, How::Referral, How::TruncatedAlways] {
        world.dns.answer(&proof_of(DOMAIN), how);
        for _ in 0..2 {
            assert_eq!(recheck_after(&world, 24).await, Some(60), "{how:?}");
        }
    }
    assert_eq!((failures(&world).await, names(&world.a).await), (1, vec![format!("{DOMAIN}!")]));
    // A manual verify that finds the token resets them too.
    world.dns.answer(&proof_of(DOMAIN), How::Well);
    let token = world.a.get("/v1/domains").await.json()[0]["verification_token"].clone();
    world.dns.txt(&proof_of(DOMAIN), &[token.as_str().expect("a token")]);
    assert_eq!(verify(&world.a, DOMAIN).await["verified"], true);
    assert_eq!(failures(&world).await, 0);
}

/// Several nodes share the work: a failure is counted once, whichever node finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_share_the_rechecks() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, DOMAIN, Role::Primary).await;
    for number in 0..40 {
        world.own_domain(&world.b, &format!("n{number}.example.com"), Role::Primary).await;
    }
    world.dns.remove(&proof_of(DOMAIN));
    for number in 0..40 {
        world.dns.remove(&proof_of(&format!("n{number}.example.com")));
    }
    for round in 1..=3 {
        recheck_after(&world, 24).await;
        let all_counted = format!("SELECT CAST(count(*) AS BIGINT) FROM domains WHERE failures = {round}");
        eventually("each is counted once", SOON, || async { world.db.number(all_counted.clone()).await == 41 }).await;
    }
    assert_eq!(recheck_after(&world, 24).await, None);
    eventually("all are lost", SOON, || async {
        world.db.number("SELECT CAST(count(*) AS BIGINT) FROM domains WHERE verified_at IS NULL").await == 41
    })
    .await;
    assert_eq!(world.mails(41).await.len(), 41, "each owner is told once");
}
