//! Installs: their touches, and their users.

use std::time::Duration;

use serde_json::{Value, json};

use super::{attribute, attribute_on, bindings, count, identify, touch};
use deeplink_testing::{World, spawn};

/// The touches of all installs in the order of arrival: install, number, link, and the link's previous touch of the
/// install, all in seconds from the beginning.
async fn touches(world: &World, begin: i64) -> Vec<String> {
    let sql = format!(
        "SELECT i.install_id || ' ' || t.number || ' ' || l.link_id || ' ' || ((t.at - {begin}) / 1000)
            || COALESCE(' after ' || ((t.opened_before - {begin}) / 1000), '')
         FROM touches t JOIN installs i ON i.position = t.install JOIN links l ON l.position = t.link
         ORDER BY i.install_id, t.number"
    );
    world.db.texts(sql).await
}

#[tokio::test]
async fn touches_are_numbered_and_know_the_one_before() {
    let world = spawn().await;
    let begin = world.clock.now().as_millis();
    world.a.make("spring").await;
    world.a.make("autumn").await;
    for (link, install) in [
        ("spring", "one"),
        ("autumn", "one"),
        ("spring", "one"),
        ("spring", "two"),
        ("spring", "one"),
        ("autumn", "one"),
    ] {
        assert_eq!(attribute(&world.a, link, install).await.status, 200);
        world.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(
        touches(&world, begin).await,
        [
            "one 1 spring 0",
            "one 2 autumn 10",
            "one 3 spring 20",
            "one 4 spring 40 after 20",
            "one 5 autumn 50 after 10",
            "two 1 spring 30",
        ]
    );
}

/// The previous time is by the clock, also when it was set back, and later touches report it.
#[tokio::test]
async fn touches_know_the_one_before_whatever_the_clock_does() {
    let world = spawn().await;
    let begin = world.clock.now();
    world.a.make("spring").await;
    for seconds in [100, 200, 150, 50, 150, 300, 10] {
        world.clock.set(begin.plus_millis(seconds * 1_000));
        assert_eq!(attribute(&world.a, "spring", "one").await.status, 200);
    }
    assert_eq!(
        touches(&world, begin.as_millis()).await,
        [
            "one 1 spring 100",
            "one 2 spring 200 after 150",
            "one 3 spring 150 after 50",
            "one 4 spring 50 after 10",
            "one 5 spring 150 after 150",
            "one 6 spring 300 after 200",
            "one 7 spring 10",
        ]
    );
    let known = world.db.texts("SELECT first_at || ' ' || last_opened_at FROM install_links").await;
    let at = |seconds: i64| begin.plus_millis(seconds * 1_000).as_millis();
    assert_eq!(known, [format!("{} {}", at(10), at(300))]);
}

#[tokio::test]
async fn the_last_context_is_kept_and_the_model_until_another_is_known() {
    let world = spawn().await;
    world.a.make("spring").await;
    let stored = async || {
        let sql = "SELECT COALESCE(device_model, '-') || ' ' || COALESCE(context, '-') FROM installs";
        world.db.texts(sql).await.join("")
    };
    for (context, expected) in [
        (Value::Null, "- -"),
        (json!({}), "- -"),
        (json!({"device_model": " ", "os": null}), "- -"),
        (json!({"device_model": "Pixel 9", "os": "android"}), r#"Pixel 9 {"device_model":"Pixel 9","os":"android"}"#),
        (Value::Null, r#"Pixel 9 {"device_model":"Pixel 9","os":"android"}"#),
        (json!({"os": "android", "locale": "en-GB", "unknown": 1}), r#"Pixel 9 {"locale":"en-GB","os":"android"}"#),
        (json!({"device_model": "Pixel 10"}), r#"Pixel 10 {"device_model":"Pixel 10"}"#),
    ] {
        let mut body = touch("spring", "one");
        body["context"] = context.clone();
        assert_eq!(world.a.post("/v1/lifecycle/attribute", &body).await.status, 200, "{context}");
        assert_eq!(stored().await, expected, "{context}");
    }
}

#[tokio::test]
async fn links_that_are_not_active_any_more_open_installs_all_the_same() {
    let world = spawn().await;
    for id in ["expired", "flagged", "disabled"] {
        world.a.make(id).await;
    }
    world.b.make("foreign").await;
    world.db.execute("UPDATE links SET status = link_id WHERE link_id IN ('flagged', 'disabled')").await;
    world.db.execute("UPDATE links SET expires_at = 1 WHERE link_id = 'expired'").await;
    for id in ["expired", "flagged", "disabled"] {
        assert_eq!(attribute(&world.a, id, id).await.status, 200, "{id}");
    }
    world.at_rest().await;
    let before = world.db.dump().await;
    let refused = [attribute(&world.a, "foreign", "one").await, attribute(&world.a, "nowhere", "one").await];
    assert_eq!(refused[0].outcome(), "404 not_found");
    assert_eq!(refused[0].without_request_id(), refused[1].without_request_id());
    assert_eq!(world.db.dump().await, before);
}

#[tokio::test]
async fn an_install_is_bound_once() {
    let world = spawn().await;
    world.a.make("spring").await;
    attribute(&world.a, "spring", "one").await;
    assert_eq!(identify(&world.a, "one", "ann").await.status, 200);
    world.at_rest().await;
    let before = world.db.dump().await;
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(identify(&world.a, "one", "ann").await.status, 200);
    assert_eq!(identify(&world.a, "one", "ben").await.outcome(), "409 identify_conflict");
    assert_eq!(world.db.dump().await, before);
    // Another account's installs and users are separate, whatever their names.
    assert_eq!(identify(&world.b, "one", "ben").await.status, 200);
    // An unknown install is created.
    assert_eq!(identify(&world.a, "two", "ann").await.status, 200);
    assert_eq!(bindings(&world).await, ["one ann identified", "one ben identified", "two ann reinstalled"]);
    assert_eq!((count(&world, "installs").await, count(&world, "install_credits WHERE link > 0").await), (3, 1));
    // Its first touch comes later, and counts as its creation.
    assert_eq!(attribute(&world.a, "spring", "two").await.status, 200);
    assert_eq!(count(&world, "touches WHERE number = 1").await, 2);
}

/// A new device is never guessed: only a known model that differs from all earlier ones makes it one.
#[tokio::test]
async fn a_next_install_is_a_reinstall_unless_its_model_is_another() {
    let world = spawn().await;
    world.a.make("spring").await;
    for (case, (models, model, expected)) in [
        (&[][..], Some("a"), "identified"),
        (&[][..], None, "identified"),
        (&[None][..], None, "reinstalled"),
        (&[None][..], Some("a"), "reinstalled"),
        (&[Some("a")][..], None, "reinstalled"),
        (&[Some("a")][..], Some("a"), "reinstalled"),
        (&[Some("a")][..], Some("A"), "new_device"),
        (&[Some("a")][..], Some("b"), "new_device"),
        (&[Some("a"), None][..], Some("b"), "new_device"),
        (&[Some("a"), Some("b")][..], Some("b"), "reinstalled"),
        (&[Some("a"), Some("b")][..], Some("c"), "new_device"),
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("user-{case}");
        for (at, model) in models.iter().chain([&model]).enumerate() {
            let install = format!("install-{case}-{at}");
            match model {
                Some(model) => attribute_on(&world.a, "spring", &install, model).await,
                None => attribute(&world.a, "spring", &install).await,
            };
            assert_eq!(identify(&world.a, &install, &user).await.status, 200);
        }
        let last = format!("install-{case}-{} {user} {expected}", models.len());
        assert!(bindings(&world).await.contains(&last), "{last}: {:?}", bindings(&world).await);
    }
}

#[tokio::test]
async fn binding_credits_the_links_that_touched_before() {
    let world = spawn().await;
    for id in ["spring", "summer", "autumn"] {
        world.a.make(id).await;
    }
    for link in ["spring", "summer", "spring", "autumn", "summer"] {
        attribute(&world.a, link, "one").await;
        world.clock.advance(Duration::from_secs(1));
    }
    identify(&world.a, "one", "ann").await;
    attribute(&world.a, "autumn", "one").await;
    let sql = "
        SELECT l.link_id || CASE WHEN c.is_first THEN ' first' ELSE '' END || CASE WHEN c.is_last THEN ' last' ELSE '' END
        FROM install_credits c JOIN links l ON l.position = c.link ORDER BY 1";
    assert_eq!(world.db.texts(sql).await, ["autumn", "spring first", "summer last"]);
}
