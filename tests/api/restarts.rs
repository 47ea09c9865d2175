//! Acknowledged data is there after a restart.

use http::Method;
use serde_json::json;

use deeplink_testing::spawn;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_after_a_restart() {
    let mut world = spawn().await;
    for at in 0..3 {
        world.a.make(&format!("link-{at}")).await;
    }
    world.a.tap("link-0").await;
    world.expect_clicks(&[(0, 1)]).await;
    let (listed, first) = (world.a.get("/v1/links").await.json(), world.a.get("/v1/links?limit=1").await.json());
    let keyed = async |world: &deeplink_testing::World| {
        world.a.ask(Method::POST, "/v1/links").header("idempotency-key", "key").body("{}").send().await
    };
    let made = keyed(&world).await;

    world.restart(|_| {}).await;
    let again = keyed(&world).await;
    assert_eq!((again.header("idempotency-replayed"), &again.body), ("true", &made.body));
    assert_eq!(world.a.delete(&format!("/v1/links/{}", made.member("link_id"))).await.status, 204);
    assert_eq!(world.a.get("/v1/links").await.json(), listed);
    let cursor = first["next_cursor"].as_str().expect("a next page");
    let rest = world.a.get(&format!("/v1/links?cursor={cursor}")).await.json();
    assert_eq!(rest["links"].as_array().map(Vec::len), Some(2), "a cursor outlives its server");
    assert_eq!(world.a.clicks_of("link-0").await, 1);
    assert_eq!(world.nobody.tap("link-1").await.status, 302);
    world.expect_clicks(&[(0, 2)]).await;
}

/// Requests in progress at a stop are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_loses_no_request_that_was_taken() {
    let mut world = spawn().await;
    let requests: Vec<_> = (0..50)
        .map(|number| {
            let caller = world.a.clone();
            tokio::spawn(async move {
                let body = json!({"custom_id": format!("link-{number}")});
                let call = caller.client.request(Method::POST, "/v1/links").json(&body);
                call.await.map(|reply| reply.status.as_u16()).ok()
            })
        })
        .collect();
    tokio::task::yield_now().await;
    world.restart(|_| {}).await;
    for (number, request) in requests.into_iter().enumerate() {
        let status = request.await.expect("it ends");
        let found = world.a.get(&format!("/v1/links/link-{number}")).await.status;
        match status {
            Some(201) => assert_eq!(found, 200, "link-{number} was acknowledged"),
            Some(other) => assert_eq!((other, found), (503, 404), "link-{number}"),
            // Not connected in time: not acknowledged, so it may be there or not.
            None => assert!(matches!(found, 200 | 404), "link-{number}"),
        }
    }
}
