//! Repeats: an acknowledgement is repeated, whatever has changed since.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{count, touch};
use deeplink_testing::{Caller, Reply, spawn};

async fn keyed(caller: &Caller, path: &str, body: &Value) -> Reply {
    caller.ask(Method::POST, path).header("idempotency-key", "once").json(body).send().await
}

/// X21, G3: a repeat with the same key gets the first answer, even if its link has been deleted by then.
#[tokio::test]
async fn x21_a_repeat_outlives_its_link() {
    let world = spawn().await;
    world.a.make("spring").await;
    let (click, touch) = (json!({"link_id": "spring"}), touch("spring", "one"));
    let reports = [("/v1/lifecycle/click", &click), ("/v1/lifecycle/attribute", &touch)];
    let mut first = Vec::new();
    for (path, body) in reports {
        first.push(keyed(&world.a, path, body).await);
    }
    assert_eq!(world.a.delete("/v1/links/spring").await.status, 204);
    for ((path, body), first) in reports.into_iter().zip(&first) {
        let again = keyed(&world.a, path, body).await;
        assert_eq!((again.status, &again.body), (200, &first.body), "{path}");
        assert_eq!(again.header("idempotency-replayed"), "true", "{path}");
        assert_eq!(world.a.post(path, body).await.outcome(), "404 not_found", "{path}");
        // A refusal does not use up the key.
        for _ in 0..2 {
            let new = world.a.ask(Method::POST, path).header("idempotency-key", "new").json(body).send().await;
            assert_eq!(new.outcome(), "404 not_found", "{path}");
        }
    }
    assert_eq!((count(&world, "touches").await, count(&world, "replies").await), (1, 2));
    world.expect_clicks(&[(0, 1)]).await;
}

/// C2, X21: a conversion that was recent enough when accepted stays accepted: its repeat succeeds, however old it is by
/// then.
#[tokio::test]
async fn c2_a_repeat_outlives_its_moment() {
    let world = spawn().await;
    let oldest = world.clock.now().plus_days(-400);
    let by_body = json!({"user_id": "ann", "type": "t", "occurred_at": oldest, "idempotency_key": "order-1"});
    let by_header = json!({"user_id": "ann", "type": "t", "occurred_at": oldest});
    let path = "/v1/lifecycle/convert";
    let first = [world.a.post(path, &by_body).await, keyed(&world.a, path, &by_header).await];
    assert!(first.iter().all(|reply| reply.json()["unattributed"] == 1), "{first:?}");
    world.clock.advance(Duration::from_secs(2));
    let again = world.a.post(path, &by_body).await;
    assert_eq!((again.json()["deduped"].clone(), again.member("event_id")), (json!(1), first[0].member("event_id")));
    let again = keyed(&world.a, path, &by_header).await;
    assert_eq!((again.header("idempotency-replayed"), &again.body), ("true", &first[1].body));
    assert_eq!(world.a.post(path, &by_header).await.outcome(), "400 parse_error occurred_at");
    let mut another = by_body.clone();
    another["idempotency_key"] = json!("order-2");
    assert_eq!(world.a.post(path, &another).await.outcome(), "400 parse_error occurred_at");
    assert_eq!((count(&world, "conversions").await, count(&world, "conversion_keys").await), (2, 1));
}
