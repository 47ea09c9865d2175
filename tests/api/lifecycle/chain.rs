//! From click to conversion, with each kind of key.

use std::time::Duration;

use serde_json::json;

use super::{DOMAIN, attribute, bindings, click, converted, count, credits, identify, page_of};
use deeplink_testing::spawn;

#[tokio::test]
async fn from_click_to_conversion_with_each_kind_of_key() {
    let world = spawn().await;
    let page = page_of(&world, &world.a, DOMAIN).await;
    for (caller, at) in [(&world.a, "key"), (&page, "page")] {
        world.db.execute("DELETE FROM conversion_credits").await;
        let (spring, autumn) = (format!("spring-{at}"), format!("autumn-{at}"));
        world.a.make(&spring).await;
        world.a.make(&autumn).await;
        let clicked = click(caller, &spring).await;
        assert_eq!((clicked.status, clicked.member("link_id")), (200, spring.clone()));
        let install = format!("install-{at}");
        for link in [&spring, &autumn, &spring] {
            let reply = attribute(caller, link, &install).await;
            assert_eq!((reply.status, reply.json()), (200, json!({"success": true})));
            world.clock.advance(Duration::from_secs(1));
        }
        let reply = identify(caller, &install, at).await;
        assert_eq!((reply.status, reply.json()), (200, json!({"success": true})));
        world.clock.advance(Duration::from_secs(1));
        assert_eq!(converted(caller, &json!({"user_id": at, "type": "purchase"})).await, "accepted");
        assert_eq!(credits(&world).await, [format!("{autumn} purchase"), format!("{spring} purchase first last")]);
    }
    assert_eq!(bindings(&world).await, ["install-key key identified", "install-page page identified"]);
    assert_eq!(count(&world, "conversions WHERE source_id IS NULL AND emitted_at = received_at").await, 2);
}
