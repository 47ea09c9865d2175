//! What proves a claim, and what DNS may say instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{names, proof_of, verify};
use deeplink_doubles::meter::Meter;
use deeplink_testing::dns::How;
use deeplink_testing::{Role, World, at_once, spawn, spawn_with};

/// A verify must answer within the five seconds for DNS, whatever name servers do; a busy machine may take longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Claims a domain and returns its token.
async fn claimed(world: &World, domain: &str) -> String {
    world.claim_domain(&world.a, domain, Role::Primary).await
}

/// D4: the proof is one value that is exactly the token. Split strings are one value, and there may be any number of
/// other values.
#[tokio::test]
async fn d4_the_proof_is_exact() {
    let world = spawn().await;
    let (ours, theirs) = (claimed(&world, "go.example.com").await, claimed(&world, "other.example.com").await);
    let of_b = world.claim_domain(&world.b, "go.example.com", Role::Primary).await;
    let name = proof_of("go.example.com");
    let long = "x".repeat(64);
    for values in [
        vec![],
        vec![""],
        vec![theirs.as_str()],
        vec![of_b.as_str()],
        vec![&ours[..63]],
        vec![&long],
        vec![&format!("{ours} ")],
        vec![&format!(" {ours}")],
        vec![&format!("\"{ours}\"")],
        vec![&format!("{ours}{ours}")],
        vec![&format!("token={ours}")],
        vec![&format!("{ours}\n")],
        vec![&ours.to_uppercase()],
    ] {
        // A token of digits alone is its own upper case.
        if values.iter().any(|value| *value == ours) {
            continue;
        }
        world.dns.txt(&name, &values);
        let said = verify(&world.a, "go.example.com").await;
        assert_eq!(said["verified"], false, "{values:?}");
        assert!(said["reason"].as_str().is_some_and(|reason| reason.contains(&name)), "{said}");
    }
    assert_eq!(names(&world.a).await.len(), 2);
    for (domain, strings) in [("a.example.com", [20, 44]), ("b.example.com", [63, 1]), ("c.example.com", [0, 64])] {
        let token = claimed(&world, domain).await;
        let (first, second) = token.as_bytes().split_at(strings[0]);
        world.dns.txt_strings(&proof_of(domain), &[vec![b"v=spf1 -all"], vec![first, b"", second]]);
        assert_eq!(verify(&world.a, domain).await["verified"], true, "{domain} {strings:?}");
    }
}

/// The values are sanitized and limited for display; all of them are compared in full.
#[tokio::test]
async fn many_and_strange_values_are_shown_in_part_and_compared_as_a_whole() {
    let world = spawn().await;
    let token = claimed(&world, "go.example.com").await;
    let strange = format!("\u{1b}[31mred\u{7f}\u{0}{}", "\u{e9}".repeat(120));
    let mut values: Vec<String> = (0..40).map(|number| format!("value {number:02} {}", "x".repeat(60))).collect();
    values[0].clone_from(&strange);
    values[39].clone_from(&token);
    let name = proof_of("go.example.com");
    let long = [vec![b'y'; 255], vec![b'z'; 255]];
    let mut strings: Vec<Vec<&[u8]>> = values.iter().map(|value| vec![value.as_bytes()]).collect();
    strings[1] = long.iter().map(Vec::as_slice).collect();
    strings[2] = vec![b"\xff\xfe"];
    world.dns.txt_strings(&name, &strings);
    let said = verify(&world.a, "go.example.com").await;
    assert_eq!((&said["verified"], &said["reason"]), (&json!(true), &json!(null)), "over TCP, since it is long");
    let found = said["txt_found"].as_array().expect("values");
    assert_eq!(found.len(), 20);
    assert!(!found.contains(&json!(token)), "it comes after the twentieth");
    assert_eq!(found[0], format!("[31mred{}", "\u{e9}".repeat(120)));
    assert_eq!(found[1], "y".repeat(255));
    assert_eq!(found[2], "\u{fffd}\u{fffd}");
    assert_eq!(said["checked_at"], "2026-11-20T09:30:00.010Z");
}

/// D4: a failed lookup proves and disproves nothing: a claim stays a claim, with a reason in plain words, and a
/// verified domain stays verified. An answer comes within five seconds whatever the name servers do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_dns_that_fails_lies_or_hangs_changes_nothing() {
    const HOWS: [How; 9] = [
        How::ServFail,
        How::Refused,
        How::Silently,
        How::TruncatedAlways,
        How::Garbage,
        How::WrongId,
        How::WrongQuestion,
        How::Referral,
        How::Well,
    ];
    let world = spawn().await;
    let mut domains = Vec::new();
    for (number, how) in HOWS.into_iter().enumerate() {
        let (claim, owned) = (format!("claim{number}.example.com"), format!("owned{number}.example.com"));
        world.own_domain(&world.b, &owned, Role::Primary).await;
        let token = claimed(&world, &claim).await;
        world.dns.txt(&proof_of(&claim), &[&token]);
        for domain in [&claim, &owned] {
            world.dns.answer(&proof_of(domain), how);
            if how == How::Well {
                world.dns.late(&proof_of(domain), Duration::from_mins(5));
            }
        }
        domains.extend([(world.a.clone(), claim, false, how), (world.b.clone(), owned, true, how)]);
    }
    let began = Instant::now();
    let all = at_once(domains.len(), |number| {
        let (caller, domain, is_owned, how) = domains[number].clone();
        async move { (verify(&caller, &domain).await, is_owned, how) }
    })
    .await;
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    for (said, is_owned, how) in all {
        assert_eq!((&said["verified"], &said["txt_found"]), (&json!(false), &json!([])), "{how:?}");
        let reason = said["reason"].as_str().unwrap_or_default();
        if is_owned {
            assert!(reason.ends_with("; the domain stays verified"), "{how:?}: {reason}");
        } else {
            assert!(reason.starts_with("DNS lookup failed for _deeplink-verify.claim"), "{how:?}: {reason}");
            assert!(reason.ends_with("nothing was changed; try again"), "{how:?}: {reason}");
        }
    }
    for domain in world.b.get("/v1/domains").await.json().as_array().expect("domains") {
        assert_eq!(domain["verified"], true, "a failed lookup changes nothing: {domain}");
    }
    assert!(names(&world.a).await.iter().all(|name| !name.ends_with('!')));
    assert!(names(&world.b).await.iter().all(|name| name.ends_with('!')));
}

/// A definite "no such record" is reported as such, and does not lose a domain at once.
#[tokio::test]
async fn a_record_that_is_surely_not_there() {
    let world = spawn().await;
    world.own_domain(&world.b, "own.example.com", Role::Primary).await;
    claimed(&world, "go.example.com").await;
    for how in [How::NxDomain, How::Well] {
        for domain in ["go.example.com", "own.example.com"] {
            world.dns.txt(&proof_of(domain), &[]);
            world.dns.answer(&proof_of(domain), how);
        }
        let said = verify(&world.a, "go.example.com").await;
        assert_eq!((&said["verified"], &said["txt_found"]), (&json!(false), &json!([])));
        let reason = said["reason"].as_str().expect("a reason");
        assert!(reason.starts_with("there is no TXT record at _deeplink-verify.go.example.com"), "{reason}");
        assert_eq!(verify(&world.b, "own.example.com").await["verified"], true, "one lookup loses nothing");
    }
}

/// D4: the record may be elsewhere, at most eight CNAME records away.
#[tokio::test]
async fn d4_eight_cname_records_are_followed() {
    let world = spawn().await;
    for one_by_one in [false, true] {
        if one_by_one {
            world.dns.one_by_one();
        }
        for (hops, expected) in [(1, true), (8, true), (9, false), (20, false)] {
            let domain = format!("hops{hops}-{one_by_one}.example.com");
            let token = claimed(&world, &domain).await;
            let mut name = proof_of(&domain);
            for hop in 0..hops {
                let next = format!("hop{hop}.{domain}");
                world.dns.cname(&name, &next);
                name = next;
            }
            world.dns.txt(&name, &[&token]);
            let said = verify(&world.a, &domain).await;
            assert_eq!(said["verified"], expected, "{hops} {one_by_one}: {said}");
            let reason = said["reason"].as_str().unwrap_or_default();
            assert_eq!(reason.contains("more than 8 CNAME records"), !expected, "{reason}");
        }
        // A CNAME loop, and a CNAME without a target.
        claimed(&world, &format!("loop-{one_by_one}.example.com")).await;
        let name = proof_of(&format!("loop-{one_by_one}.example.com"));
        world.dns.cname(&name, "b.example.net");
        world.dns.cname("b.example.net", &name);
        let said = verify(&world.a, &format!("loop-{one_by_one}.example.com")).await;
        assert!(said["reason"].as_str().is_some_and(|reason| reason.contains("8 CNAME records")), "{said}");
        world.dns.cname(&name, "nowhere.example.net");
        let said = verify(&world.a, &format!("loop-{one_by_one}.example.com")).await;
        assert!(said["reason"].as_str().is_some_and(|reason| reason.starts_with("there is no TXT")), "{said}");
    }
}

/// Values in another domain count as proof but are not shown: the service may see names that the public cannot.
#[tokio::test]
async fn what_stands_elsewhere_is_not_shown() {
    let world = spawn().await;
    let token = claimed(&world, "go.example.com").await;
    world.dns.cname(&proof_of("go.example.com"), "wiki.corp.example.net");
    world.dns.txt("wiki.corp.example.net", &["for our eyes only"]);
    let said = verify(&world.a, "go.example.com").await;
    assert_eq!((&said["verified"], &said["txt_found"]), (&json!(false), &json!([])));
    world.dns.txt("wiki.corp.example.net", &["for our eyes only", &token]);
    let said = verify(&world.a, "go.example.com").await;
    assert_eq!((&said["verified"], &said["txt_found"]), (&json!(true), &json!([])));
}

/// A truncated answer is retried over TCP.
#[tokio::test]
async fn an_answer_that_does_not_fit_comes_over_tcp() {
    let world = spawn().await;
    let token = claimed(&world, "go.example.com").await;
    world.dns.txt(&proof_of("go.example.com"), &[&token]);
    world.dns.answer(&proof_of("go.example.com"), How::Truncated);
    assert_eq!(verify(&world.a, "go.example.com").await["verified"], true);
}

/// A fixed DNS record is seen in the next request: nothing is cached in between.
#[tokio::test]
async fn nothing_is_remembered_between_two_looks() {
    let world = spawn().await;
    let token = claimed(&world, "go.example.com").await;
    let name = proof_of("go.example.com");
    assert_eq!(verify(&world.a, "go.example.com").await["verified"], false);
    world.dns.txt(&name, &["wrong"]);
    assert_eq!(verify(&world.a, "go.example.com").await["txt_found"], json!(["wrong"]));
    world.dns.answer(&name, How::ServFail);
    assert_eq!(verify(&world.a, "go.example.com").await["txt_found"], json!([]));
    world.dns.answer(&name, How::Well);
    world.dns.txt(&name, &["wrong", &token]);
    let said = verify(&world.a, "go.example.com").await;
    assert_eq!((&said["verified"], &said["txt_found"]), (&json!(true), &json!(["wrong", token])));
}

/// An unreachable name server is a failed lookup.
#[tokio::test]
async fn no_name_server_is_no_disaster() {
    // A port outside the ephemeral range.
    let closed = ([127, 0, 0, 1], 1).into();
    let world = spawn_with(|config| config.dns_server = Some(closed)).await;
    claimed(&world, "go.example.com").await;
    let began = Instant::now();
    let said = verify(&world.a, "go.example.com").await;
    assert!(began.elapsed() < PATIENCE);
    assert!(said["reason"].as_str().is_some_and(|reason| reason.starts_with("DNS lookup failed")), "{said}");
}

/// F19: name servers that hang delay neither other requests nor another tenant's verify. A tenant has a limited number
/// of places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f19_hanging_name_servers_hold_up_nobody_else() {
    let world = spawn().await;
    claimed(&world, "hangs.example.com").await;
    world.dns.answer(&proof_of("hangs.example.com"), How::Silently);
    let token = world.claim_domain(&world.b, "go.example.com", Role::Primary).await;
    world.dns.txt(&proof_of("go.example.com"), &[&token]);
    // Measures how long others take.
    let meter = Meter::start(world.home().join("page"));
    let others = async |when: &str| {
        let began = Instant::now();
        for number in 0..20 {
            world.a.make(&format!("{when}-{number}")).await;
        }
        assert_eq!(verify(&world.b, "go.example.com").await["verified"], true);
        let took = began.elapsed();
        (took, meter.lost(began, Instant::now()))
    };
    let (usual, _) = others("before").await;
    let over = Arc::new(AtomicBool::new(false));
    let hanging: Vec<_> = (0..40)
        .map(|_| {
            let (caller, over) = (world.a.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let ask = || caller.post_nothing("/v1/domains/hangs.example.com/verify");
                let first = ask().await;
                // Each place is taken again at once, so that others would be delayed for the whole time.
                while first.status == 200 && !over.load(Ordering::Relaxed) {
                    ask().await;
                }
                first
            })
        })
        .collect();
    deeplink_testing::eventually("the first ones are waiting", PATIENCE, || async {
        world.dns.asked(&proof_of("hangs.example.com")) >= 8
    })
    .await;
    let (took, lost) = others("meanwhile").await;
    // Waiting for a single name server would take five seconds more.
    let limit = usual + Duration::from_millis(4_500) + lost;
    assert!(took < limit, "{took:?}, and {usual:?} before; {lost:?} lost by the machine");
    over.store(true, Ordering::Relaxed);
    let mut outcomes = Vec::new();
    for task in hanging {
        let reply = task.await.expect("an answer");
        outcomes.push((reply.outcome(), reply.header("retry-after").to_owned()));
    }
    let refused = outcomes.iter().filter(|(outcome, _)| outcome == "503 overloaded").count();
    assert_eq!((refused, outcomes.len() - refused), (32, 8), "{outcomes:?}");
    assert!(outcomes.iter().all(|(outcome, _)| matches!(outcome.as_str(), "200" | "503 overloaded")), "{outcomes:?}");
}
