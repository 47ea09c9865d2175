//! Fields that the service owns are not taken from a body, for any operation.

use std::collections::BTreeSet;

use deeplink_testing::operations::{self, Operation};
use deeplink_testing::{World, spawn};
use serde_json::{Map, Value, json};

use super::matrix::{PUBLIC, matrix};
use super::{Who, everybody, thing_of_a};

/// A time that no clock of a test reaches, as text and in milliseconds.
const MOMENT: &str = "2001-02-03T04:05:06Z";
const MILLIS: i64 = 981_173_106_000;
/// Part of every text that would be stored if it were accepted.
const MARK: &str = "x10-mark";

/// Members that the service owns, of any noun.
fn owned(world: &World) -> Map<String, Value> {
    let mut owned = Map::new();
    for name in ["id", "status", "key", "key_prefix", "secret", "verification_token", "created_by", "code", "plan_tier"]
    {
        owned.insert(name.to_owned(), json!(MARK));
    }
    for name in ["created_at", "updated_at", "expires_at", "deleted_at", "last_used_at", "revoked_at", "deletes_at"] {
        owned.insert(name.to_owned(), json!(MOMENT));
    }
    for name in ["verified_at", "position", "link_count", "turn"] {
        owned.insert(name.to_owned(), json!(MILLIS));
    }
    owned.insert("tenant_id".to_owned(), json!(world.b.tenant.as_str()));
    owned.insert("webhook_url".to_owned(), json!(format!("https://{MARK}.example.com/")));
    owned
}

/// The documented members of the operation's body.
fn declared(operation: &Operation) -> BTreeSet<String> {
    let document: Value = serde_json::from_str(deeplink_server::openapi::text()).expect("the document is JSON");
    let method = operation.method.as_str().to_lowercase();
    let mut schema =
        &document["paths"][&operation.path][&method]["requestBody"]["content"]["application/json"]["schema"];
    while let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        schema = &document["components"]["schemas"][name];
    }
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// The callers allowed: A, A's session, A's publishable key, or anyone.
fn allowed<'a>(callers: &'a [Who; 7], expected: &[&str; 7]) -> &'a Who {
    let may = |at: &usize| expected[*at] == "2xx" || *expected == PUBLIC;
    &callers[[6, 5, 4, 0].into_iter().find(may).expect("a caller")]
}

async fn stored(world: &World) -> Vec<String> {
    world.at_rest().await;
    world.db.dump_without_clicks().await.into_values().flatten().collect()
}

/// X10: fields that the service owns cannot be set by any create or update; unknown fields are ignored.
#[tokio::test]
async fn x10_no_body_sets_what_the_service_owns() {
    let world = spawn().await;
    let callers = everybody(&world).await;
    let mut judged = 0;
    for row in &matrix() {
        let Some(operation) = operations::all().iter().find(|operation| operation.id == row.operation) else {
            continue;
        };
        if !operation.has_body || row.expected.iter().any(|expected| expected.starts_with("503")) {
            continue;
        }
        let mut thing = thing_of_a(&world, row, operation).await;
        let Some(body) = thing.body.as_mut().and_then(Value::as_object_mut) else { continue };
        let declared = declared(operation);
        let hostile = owned(&world).into_iter().filter(|(name, _)| !declared.contains(name));
        body.extend(hostile);
        let of_b = |rows: &[String]| -> BTreeSet<String> {
            rows.iter().filter(|row| row.contains(world.b.tenant.as_str())).cloned().collect()
        };
        let before = of_b(&stored(&world).await);
        let reply = allowed(&callers, &row.expected).call(operation, &thing).await;
        assert!((200..300).contains(&reply.status), "{}: {}", row.operation, reply.text());
        let rows = stored(&world).await;
        for mark in [MARK, &MILLIS.to_string(), MOMENT] {
            let taken = rows.iter().find(|row| row.contains(mark));
            assert_eq!(taken, None, "{} takes what is the service's own", row.operation);
        }
        assert_eq!(of_b(&rows), before, "{}", row.operation);
        judged += 1;
    }
    assert!(judged >= 18, "only {judged} operations take a body");
}
