//! A facilitator that fails, lies or does not answer.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{Payer, Script, calls, hasty_scene, receipt, scene, scene_with};
use deeplink_testing::{log_mark, logged_since};

/// PX7: a facilitator that is down, hangs, or answers with a text or without required members is 503: no row, no
/// effect. The same payment works once it has recovered.
#[tokio::test]
async fn px7_a_payment_that_cannot_be_verified_changes_nothing() {
    let scene = hasty_scene().await;
    let payer = Payer::new("alice");
    let before = scene.world.db.dump().await;
    for script in [Script::VerifyFails, Script::VerifyText, Script::VerifyEmpty, Script::VerifyHangs] {
        let signed = scene.scripted(&payer, script);
        let reply = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!(reply.outcome(), "503 facilitator_unavailable", "{script:?}");
    }
    // It is known to settle the requirement, then it fails.
    scene.facilitator.is_down(true);
    let signed = scene.sign(&payer);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "503 facilitator_unavailable");
    scene.facilitator.is_down(false);
    assert_eq!(scene.facilitator.calls().settle, 0);
    assert_eq!(scene.world.db.dump().await, before);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.status, 201);
}

/// PX7: an unknown settlement result is 503 and nothing is done; a repeat settles again, and money moves once.
#[tokio::test]
async fn px7_an_unclear_settlement_is_settled_again_by_a_repeat() {
    let scene = hasty_scene().await;
    let payer = Payer::new("alice");
    for script in [Script::SettleFails, Script::SettleEmpty, Script::SettledUnheard] {
        scene.facilitator.forget_calls();
        let before = scene.links().await;
        let signed = scene.scripted(&payer, script);
        let reply = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!(reply.outcome(), "503 facilitator_unavailable", "{script:?}");
        assert_eq!(scene.links().await, before, "{script:?}");
        scene.facilitator.script(&signed, None);
        let made = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!(made.status, 201, "{script:?}: {}", made.text());
        assert_eq!(receipt(&made)["success"], true);
        let done = scene.facilitator.calls();
        assert_eq!((done.settle, done.moved, scene.links().await), (2, 1, before + 1), "{script:?}");
    }
}

/// PX9: a settlement that timed out is retried by a task; a repeat of the request then does what was paid for, without
/// another settlement.
#[tokio::test]
async fn px9_what_timed_out_is_settled_later() {
    let scene = hasty_scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleHangs);
    let late = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(late.outcome(), "503 facilitator_unavailable");
    assert_eq!(scene.states().await, ["unknown"]);
    scene.world.clock.advance(Duration::from_secs(11));
    scene.until("credit").await;
    assert_eq!((scene.facilitator.calls(), scene.links().await), (calls(1, 2, 1), 0));
    // By now the authorization would be too old for a new payment.
    scene.world.clock.advance(Duration::from_mins(10));
    let made = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(receipt(&made)["success"], true);
    assert_eq!((scene.facilitator.calls(), scene.links().await), (calls(1, 2, 1), 1));
    assert_eq!(scene.states().await, ["done"]);
}

/// PX9: the task tries after 10 seconds, one minute and five minutes; payments still in doubt stay listed.
#[tokio::test]
async fn px9_three_tries_are_made() {
    let scene = hasty_scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleFails);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "503 facilitator_unavailable");
    let tries = async |settled: usize, attempts: i64| {
        deeplink_testing::eventually("a try", deeplink_doubles::wait::PATIENCE, || async {
            let sql = "SELECT attempts FROM payments WHERE lease_until <= 0 OR state = 'unknown'";
            let found = scene.world.db.number(sql).await;
            scene.facilitator.calls().settle == settled && found == attempts
        })
        .await;
    };
    for (attempts, wait) in [(1, 11), (2, 61), (3, 301)] {
        scene.world.clock.advance(Duration::from_secs(wait));
        tries(1 + usize::try_from(attempts).expect("a count"), attempts).await;
        // Its answer is stored a moment after it was given.
        let stored = "SELECT CAST(count(*) AS BIGINT) FROM payments WHERE lease_until <= ";
        let now = scene.world.clock.now().as_millis();
        deeplink_testing::eventually("the lease is given back", deeplink_doubles::wait::PATIENCE, || async {
            scene.world.db.number(format!("{stored}{now}")).await == 1
        })
        .await;
    }
    let left = "SELECT CAST(count(*) AS BIGINT) FROM payments WHERE state = 'unknown' AND retry_at IS NULL";
    assert_eq!(scene.world.db.number(left).await, 1);
}

/// PX14: if the facilitator names another payer, verifying is 402 and settling 503; operators are told, and nothing is
/// done. The same holds for another network.
#[tokio::test]
async fn px14_another_payer_is_nobodys_payment() {
    let scene = scene_with(|config| config.admin_listen = Some(([127, 0, 0, 1], 0).into())).await;
    let payer = Payer::new("alice");
    let mark = log_mark();
    let signed = scene.scripted(&payer, Script::VerifyOther);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "402 payment_required");
    assert_eq!((scene.facilitator.calls(), scene.states().await.len()), (calls(1, 0, 0), 0));
    let mut mismatched = Vec::new();
    for script in [Script::SettleOther, Script::SettleElsewhere] {
        let signed = scene.scripted(&payer, script);
        let reply = scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!(reply.outcome(), "503 facilitator_unavailable", "{script:?}");
        mismatched.push(signed);
    }
    assert_eq!((scene.links().await, scene.wallets().await), (0, 0));
    assert_eq!(scene.states().await, ["unknown", "unknown"]);
    // The chain's later answer is not about the payment in question.
    scene.world.clock.advance(Duration::from_secs(11));
    for signed in &mismatched {
        scene.facilitator.script(signed, None);
    }
    deeplink_testing::eventually("both are tried again", deeplink_doubles::wait::PATIENCE, || async {
        let now = scene.world.clock.now().as_millis();
        let tried =
            format!("SELECT CAST(count(*) AS BIGINT) FROM payments WHERE attempts = 1 AND lease_until <= {now}");
        scene.world.db.number(tried).await == 2
    })
    .await;
    for signed in &mismatched {
        let repeat = scene.post("/v1/links", &json!({}), signed).await;
        assert_eq!(repeat.outcome(), "503 facilitator_unavailable");
    }
    assert_eq!(scene.states().await, ["unknown", "unknown"]);
    assert_eq!((scene.links().await, scene.wallets().await), (0, 0));
    assert_eq!(scene.figure("deeplink_x402_mismatches_total").await, 3);
    let log = logged_since(&mark);
    for said in ["a payer who did not sign", "a settlement by a different payer", "a settlement on another network"] {
        assert!(log.contains(said), "{said}");
    }
}

/// PX7: after an answer with a transaction, money may have moved, whatever else it says: it is 503, and a repeat gets
/// what was paid for.
#[tokio::test]
async fn px7_a_refusal_with_a_transaction_is_in_doubt() {
    let scene = scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::RefusedWithTransaction);
    let reply = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!((reply.outcome().as_str(), reply.header("payment-response")), ("503 facilitator_unavailable", ""));
    assert_eq!((scene.states().await, scene.links().await), (vec!["unknown".to_owned()], 0));
    let made = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!((scene.facilitator.calls(), scene.links().await), (calls(1, 2, 1), 1));
}

/// PX7: a payment that could not be sent for settlement leaves nothing, and works once the facilitator is back.
#[tokio::test]
async fn px7_what_was_never_sent_leaves_nothing() {
    let scene = scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::VerifiedAndGone);
    let before = scene.world.db.dump().await;
    let reply = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(reply.outcome(), "503 facilitator_unavailable");
    assert_eq!(scene.world.db.dump().await, before, "nothing is recorded");
    scene.facilitator.come_back();
    scene.facilitator.script(&signed, None);
    let made = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!((scene.facilitator.calls(), scene.links().await), (calls(2, 1, 1), 1));
}

/// PX7: if a payment in doubt is refused when settled again, that says nothing about the first time: it stays in doubt,
/// unless the reason is that it was already used.
#[tokio::test]
async fn px7_a_payment_in_doubt_is_not_refused() {
    let scene = hasty_scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettledUnheard);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "503 facilitator_unavailable");
    scene.facilitator.script(&signed, Some(Script::Refused("insufficient_funds")));
    let reply = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!((reply.outcome().as_str(), reply.header("payment-response")), ("503 facilitator_unavailable", ""));
    assert_eq!(scene.states().await, ["unknown"]);
    scene.facilitator.script(&signed, None);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.status, 201);
    assert_eq!(scene.facilitator.calls().moved, 1);
}

/// PX9: a payment that was being settled when the process died is settled by the task once the lease ends, even if the
/// request is not repeated.
#[tokio::test]
async fn px9_what_a_dead_process_left_is_settled() {
    let mut scene = hasty_scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettledUnheard);
    let asking = tokio::spawn(scene.ask(Method::POST, "/v1/links", &signed).json(&json!({})).send());
    deeplink_testing::eventually("it is being settled", deeplink_doubles::wait::PATIENCE, async || {
        scene.facilitator.calls().settle == 1
    })
    .await;
    asking.abort();
    scene.world.restart_at_once().await;
    assert_eq!(scene.states().await, ["settling"]);
    scene.facilitator.script(&signed, None);
    scene.let_lease_end();
    scene.until("credit").await;
    assert_eq!(scene.facilitator.calls(), calls(1, 2, 1));
    let made = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!((made.status, scene.facilitator.calls()), (201, calls(1, 2, 1)));
}

/// PX7: a reverted transaction is not a settlement, however often it is reported: nothing is done for it. Nor is it one
/// if the first answer about a payment is that it was already used.
#[tokio::test]
async fn px7_a_reverted_transaction_is_no_settlement() {
    let scene = hasty_scene().await;
    let payer = Payer::new("alice");
    for [first, then] in [
        [Script::Reverted, Script::Reverted],
        [Script::SettleFails, Script::Reverted],
        [Script::Refused("duplicate_settlement"), Script::Refused("duplicate_settlement")],
    ] {
        let signed = scene.scripted(&payer, first);
        let before = scene.facilitator.calls().settle;
        let send = async || scene.post("/v1/links", &json!({}), &signed).await;
        assert_eq!(send().await.outcome(), "503 facilitator_unavailable", "{first:?}");
        scene.facilitator.script(&signed, Some(then));
        for _ in 0..2 {
            let reply = send().await;
            assert_eq!(reply.outcome(), "503 facilitator_unavailable", "{first:?} {then:?}");
            assert_eq!(reply.header("payment-response"), "");
        }
        assert_eq!(scene.facilitator.calls().settle, before + 3);
    }
    assert_eq!((scene.states().await, scene.facilitator.calls().moved), (vec!["unknown".to_owned(); 3], 0));
    assert_eq!((scene.links().await, scene.wallets().await), (0, 0));
    // The task does not accept it either.
    scene.world.clock.advance(Duration::from_secs(11));
    deeplink_testing::eventually("all are tried", deeplink_doubles::wait::PATIENCE, async || {
        scene.facilitator.calls().settle == 12 && scene.leases().await == 0
    })
    .await;
    assert_eq!(scene.states().await, ["unknown"; 3]);
}

/// PX7: a facilitator that sent a payment without learning the result says so without a transaction. Money may have
/// moved, so it is 503; a repeat gets what was paid for, and money moves once. Operators are told that it was accepted
/// as settled.
#[tokio::test]
async fn px7_a_failure_after_sending_is_in_doubt() {
    let scene = scene().await;
    let mark = log_mark();
    let signed = scene.scripted(&Payer::new("alice"), Script::FailedAfterSending);
    let reply = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!((reply.outcome().as_str(), reply.header("payment-response")), ("503 facilitator_unavailable", ""));
    assert_eq!((scene.states().await, scene.facilitator.calls().moved), (vec!["unknown".to_owned()], 1));
    let made = scene.post("/v1/links", &json!({}), &signed).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!((scene.facilitator.calls(), scene.links().await), (calls(1, 2, 1), 1));
    assert!(logged_since(&mark).contains("payment with an unknown outcome is treated as settled"));
}

/// PX8: a settlement is stored before anything is done for it, and that is retried while the database refuses it.
#[tokio::test]
async fn px8_a_settlement_is_noted_until_the_database_takes_it() {
    let scene = scene_with(|config| config.database_timeout = Duration::from_secs(1)).await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleWaits);
    let mark = log_mark();
    let body = json!({});
    let (made, ()) = tokio::join!(scene.post("/v1/links", &body, &signed), async {
        scene.facilitator.reached().await;
        let away = scene.world.db.take_away().await;
        scene.facilitator.release();
        deeplink_testing::eventually("it is not taken", deeplink_doubles::wait::PATIENCE, async || {
            logged_since(&mark).contains("could not be recorded; will retry")
        })
        .await;
        away.give_back().await;
    });
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(receipt(&made)["success"], true);
    assert_eq!((scene.facilitator.calls(), scene.states().await), (calls(1, 1, 1), vec!["done".to_owned()]));
}

/// PX8: a stop waits for a payment that is being settled, even if its client has disconnected: what was paid for is
/// done.
#[tokio::test]
async fn px8_a_stop_waits_for_payments() {
    let mut scene = scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleWaits);
    let asking = tokio::spawn(scene.ask(Method::POST, "/v1/links", &signed).json(&json!({})).send());
    scene.facilitator.reached().await;
    asking.abort();
    let address = scene.world.node(0).address;
    let (world, facilitator) = (&mut scene.world, &scene.facilitator);
    tokio::join!(world.restart(|_| {}), async {
        deeplink_testing::eventually("no request is admitted", deeplink_doubles::wait::PATIENCE, async || {
            tokio::net::TcpStream::connect(address).await.is_err()
        })
        .await;
        facilitator.release();
    });
    assert_eq!((scene.states().await, scene.links().await), (vec!["done".to_owned()], 1));
}

/// PX9: a payment that its payer cannot repeat (without a key, a read or a secret) is never settled later: the payer
/// would get nothing for it. A repeat is told so.
#[tokio::test]
async fn px9_what_cannot_be_repeated_is_not_settled_later() {
    let scene = hasty_scene().await;
    let payer = Payer::new("alice");
    let webhook = json!({"url": "https://hooks.example.com/", "events": ["conversion"]});
    let mut asked = Vec::new();
    for (method, path, body) in [(Method::GET, "/v1/links", json!({})), (Method::POST, "/v1/webhooks", webhook)] {
        let signed = scene.scripted(&payer, Script::SettleHangs);
        let ask = scene.ask(method, path, &signed);
        let ask = if path == "/v1/links" { ask } else { ask.json(&body) };
        let reply = ask.clone().send().await;
        assert_eq!(reply.outcome(), "503 facilitator_unavailable", "{path}");
        assert!(reply.member("error").contains("cannot be repeated"), "{}", reply.text());
        asked.push(ask);
    }
    let other = scene.scripted(&payer, Script::SettleFails);
    assert_eq!(scene.post("/v1/links", &json!({}), &other).await.outcome(), "503 facilitator_unavailable");
    assert_eq!(scene.facilitator.calls(), calls(3, 3, 0));
    for (attempts, wait) in [(1, 11), (2, 61), (3, 301)] {
        scene.world.clock.advance(Duration::from_secs(wait));
        // The task has run once it has tried the one that can be repeated.
        scene.tried(attempts).await;
    }
    assert_eq!(scene.facilitator.calls(), calls(3, 6, 0));
    for ask in asked {
        let reply = ask.send().await;
        assert_eq!(reply.outcome(), "409 payment_replayed");
        assert!(
            reply.member("error").contains("was not carried out")
                && reply.member("error").contains("it is not retried")
        );
    }
    assert_eq!(scene.facilitator.calls(), calls(3, 6, 0));
}

/// PX9: nor does the task settle it if the process dies during its settlement.
#[tokio::test]
async fn px9_what_cannot_be_repeated_is_left_by_a_dead_process() {
    let scene = scene().await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleWaits);
    let retried = "SELECT CAST(count(*) AS BIGINT) FROM payments WHERE retry_at IS NOT NULL";
    for (key, expected) in [(None, 0), (Some("list-1"), 1)] {
        let signed =
            if key.is_some() { scene.scripted(&Payer::new("bob"), Script::SettleWaits) } else { signed.clone() };
        let ask = scene.ask(Method::GET, "/v1/links", &signed);
        let ask = key.map_or(ask.clone(), |key| ask.header("idempotency-key", key));
        let (read, ()) = tokio::join!(ask.send(), async {
            scene.facilitator.reached().await;
            assert_eq!(scene.world.db.number(retried).await, expected, "{key:?}");
            scene.facilitator.release();
        });
        assert_eq!(read.status, 200);
    }
}

/// PX9: a stored payment that cannot be decrypted for a retry is left, and counted.
#[tokio::test]
async fn px9_what_cannot_be_read_is_counted() {
    let scene = scene_with(|config| config.admin_listen = Some(([127, 0, 0, 1], 0).into())).await;
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleFails);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "503 facilitator_unavailable");
    scene.world.db.execute("UPDATE payments SET payment = 'of another key'").await;
    scene.world.clock.advance(Duration::from_secs(11));
    scene.tried(1).await;
    let left = "SELECT reason FROM payments WHERE state = 'unknown' AND retry_at IS NULL";
    assert_eq!(scene.world.db.texts(left).await, ["unreadable"]);
    scene.world.clock.advance(Duration::from_secs(61));
    deeplink_testing::eventually("it is counted", deeplink_doubles::wait::PATIENCE, async || {
        scene.figure("deeplink_x402_unresolved_payments").await == 1
    })
    .await;
    assert_eq!(scene.facilitator.calls().settle, 1);
}

/// PX9: operators see how many payments stay in doubt.
#[tokio::test]
async fn px9_what_stays_in_doubt_is_counted() {
    let scene = scene_with(|config| config.admin_listen = Some(([127, 0, 0, 1], 0).into())).await;
    let name = "deeplink_x402_unresolved_payments";
    let signed = scene.scripted(&Payer::new("alice"), Script::SettleFails);
    assert_eq!(scene.post("/v1/links", &json!({}), &signed).await.outcome(), "503 facilitator_unavailable");
    for (attempts, wait) in [(1, 11), (2, 61), (3, 301)] {
        assert_eq!(scene.figure(name).await, 0, "it is tried again");
        scene.world.clock.advance(Duration::from_secs(wait));
        scene.tried(attempts).await;
    }
    scene.world.clock.advance(Duration::from_secs(61));
    deeplink_testing::eventually("it is counted", deeplink_doubles::wait::PATIENCE, async || {
        scene.figure(name).await == 1
    })
    .await;
}
