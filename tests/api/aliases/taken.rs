//! One name, one link: who gets an ID or an alias that several want, and what the others are told.

use serde_json::json;

use deeplink_testing::{Role, at_once, insist, spawn_nodes};

use super::{HOST, link, open, set, shown, spawn_with_domain};

/// IDs and aliases share one namespace, which a unique index settles.
#[tokio::test]
async fn a_name_has_one_link() {
    let world = spawn_with_domain().await;
    world.a.make_of(&link("one", &["old", "l/old", "o_d"])).await;
    world.a.make("two").await;
    let taken = "409 alias_taken aliases[1]";
    for alias in ["two", "old", "/l/old", "o_d"] {
        assert_eq!(world.a.post("/v1/links", &link("new", &["free", alias])).await.outcome(), taken, "{alias}");
        assert_eq!(set(&world.a, "two", &json!(["free"])).await.status, 200);
        if alias != "two" {
            assert_eq!(set(&world.a, "two", &json!(["free", alias])).await.outcome(), taken, "{alias}");
        }
        assert_eq!(shown(&world.a, "two").await, json!(["free"]), "nothing of a refused change is stored");
        assert_eq!(set(&world.a, "two", &json!(null)).await.status, 200);
    }
    assert_eq!(world.a.post("/v1/links", &link("old", &[])).await.outcome(), "409 link_id_taken custom_id");
    // The error and a search say which link has it.
    for (alias, said) in [("l/old", "already leads to the link \"one\""), ("two", "is the ID of a link")] {
        let refused = world.a.post("/v1/links", &link("new", &[alias])).await;
        assert!(refused.text().replace("\\\"", "\"").contains(said), "{}", refused.text());
    }
    for (text, found) in [("l/old", 1), ("O_D", 1), ("l/none", 0)] {
        let listed = world.a.get(&format!("/v1/links?q={text}")).await.json();
        assert_eq!(listed["links"].as_array().map(Vec::len), Some(found), "{text}");
        assert!(found == 0 || listed["links"][0]["link_id"] == "one", "{listed}");
    }
    // No chains, no circles.
    assert_eq!(set(&world.a, "two", &json!(["one"])).await.outcome(), "409 alias_taken aliases[0]");
    let rows =
        json!({"links": [link("three", &["four"]), link("four", &[]), link("five", &["old"]), link("six", &["x1"])]});
    let refused = world.a.post("/v1/links/bulk", &rows).await;
    let errors = refused.json()["errors"].clone();
    let errors: Vec<_> = errors.as_array().expect("errors").iter().map(|row| (&row["index"], &row["code"])).collect();
    assert_eq!(errors, [(&json!(0), &json!("alias_taken")), (&json!(2), &json!("alias_taken"))], "{}", refused.text());
    // Of two rows with one alias, the second is refused, and not by the ID that the first would have got.
    let rows = json!({"links": [{"aliases": ["fresh"]}, {"aliases": ["y1", "/fresh"]}, {"aliases": ["z1", "z1"]}]});
    let refused = world.a.post("/v1/links/bulk", &rows).await.json();
    let message = "duplicate alias \"fresh\" in this batch";
    let expected =
        json!({"index": 1, "code": "alias_taken", "field": "aliases[1]", "message": message, "custom_id": null});
    assert_eq!(refused["errors"], json!([expected]));
    // Taken IDs and taken aliases are listed at once.
    let rows = json!({"links": [link("five", &["old"]), link("one", &["l/old"]), link("six", &[])]});
    let refused = world.a.post("/v1/links/bulk", &rows).await.json();
    let errors: Vec<_> = refused["errors"].as_array().expect("errors").iter().map(|row| row["code"].clone()).collect();
    assert_eq!(errors, ["alias_taken", "link_id_taken"], "{refused}");
    assert_eq!(world.a.get("/v1/links").await.json()["links"].as_array().map(Vec::len), Some(2), "all or nothing");

    // The field is the index in the request, whatever the order and the spelling.
    for asked in [json!(["zz", "/l/old", "free", "l/old"]), json!(["zz", "l/%6Fld"])] {
        let at = "aliases[1]";
        assert_eq!(set(&world.a, "two", &asked).await.outcome(), format!("409 alias_taken {at}"), "{asked}");
        let new = json!({"aliases": asked});
        assert_eq!(world.a.post("/v1/links", &new).await.outcome(), format!("409 alias_taken {at}"), "{asked}");
        for first in [link("seven", &[]), link("one", &[]), link("seven", &["a b"])] {
            let refused = world.a.post("/v1/links/bulk", &json!({"links": [first, new]})).await.json();
            let last = refused["errors"].as_array().and_then(|errors| errors.last()).expect("errors");
            let found = (&last["index"], &last["code"], &last["field"]);
            assert_eq!(found, (&json!(1), &json!("alias_taken"), &json!(at)), "{refused}");
        }
    }

    // Other accounts have names of their own.
    world.own_domain(&world.b, "b.example.net", Role::Primary).await;
    world.b.make_of(&link("one", &["old", "l/old"])).await;
    assert_eq!(open(&world.nobody, "b.example.net", "/l/old").await, "302 https://example.com/one");
    assert_eq!(open(&world.nobody, "localhost", "/r/old").await, "404", "neither's");
    assert_eq!(open(&world.nobody, "b.example.net", "/two").await, "404");
    assert_eq!(open(&world.nobody, "b.example.net", "/o_d").await, "404", "A's alias is none on B's host");
    world.a.delete("/v1/links/one").await;
    assert_eq!(open(&world.nobody, "b.example.net", "/old").await, "302 https://example.com/one");
}

/// Of 50 at once, one gets a name: as an ID or as an alias, on either node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_for_one_name() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, HOST, Role::Primary).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    for round in 0..3 {
        let name = format!("wanted-{round}");
        let outcomes = at_once(50, |number| {
            let caller = callers[number % 2].clone();
            let body = if number % 3 == 0 { json!({"custom_id": name}) } else { json!({"aliases": [name]}) };
            async move { insist(|| caller.post("/v1/links", &body)).await.outcome() }
        })
        .await;
        let count = |of: &str| outcomes.iter().filter(|outcome| *outcome == of).count();
        let refused = count("409 link_id_taken custom_id") + count("409 alias_taken aliases[0]");
        assert_eq!((count("201"), refused), (1, 49), "{outcomes:?}");
        let stored = format!("SELECT CAST(count(*) AS BIGINT) FROM links WHERE link_id = '{name}'");
        assert_eq!(world.db.number(stored).await, 1);
    }
}

/// Of two links whose names are crossed, one is stored, and nothing waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crossed_names_are_settled() {
    let world = spawn_nodes(2).await;
    world.own_domain(&world.a, HOST, Role::Primary).await;
    let callers = [world.at(0, &world.a), world.at(1, &world.a)];
    for round in 0..5 {
        let names = [format!("left-{round}"), format!("right-{round}")];
        let outcomes = at_once(2, |number| {
            let (caller, body) = (callers[number].clone(), link(&names[number], &[names[1 - number].as_str()]));
            async move { insist(|| caller.post("/v1/links", &body)).await.outcome() }
        })
        .await;
        let count = |of: &str| outcomes.iter().filter(|outcome| outcome.starts_with(of)).count();
        assert_eq!((count("201"), count("409")), (1, 1), "{outcomes:?}");
    }
}
