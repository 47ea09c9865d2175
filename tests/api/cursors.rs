//! Cursors are opaque, authenticated and bound to their owner.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use deeplink_testing::{Caller, spawn};

async fn cursor_of(caller: &Caller, name: &str) -> String {
    for at in 0..2 {
        caller.make(&format!("{name}-{at}")).await;
    }
    caller.get("/v1/links?limit=1").await.member("next_cursor")
}

/// I5: a cursor with any byte changed is refused, and so is one of another tenant or scope.
#[tokio::test]
async fn i5_cursors_are_authenticated_and_bound_to_the_tenant() {
    let world = spawn().await;
    let cursor = cursor_of(&world.a, "of-a").await;
    assert_eq!(world.a.get(&format!("/v1/links?cursor={cursor}")).await.status, 200);
    let bytes = URL_SAFE_NO_PAD.decode(&cursor).expect("base64");
    for at in 0..bytes.len() {
        for flip in [1, 0x80] {
            let mut forged = bytes.clone();
            forged[at] ^= flip;
            let reply = world.a.get(&format!("/v1/links?cursor={}", URL_SAFE_NO_PAD.encode(&forged))).await;
            assert_eq!(reply.outcome(), "400 invalid_cursor cursor", "byte {at}");
        }
    }
    for at in 0..cursor.len() {
        let mut forged = cursor.clone();
        let other = if &cursor[at..=at] == "A" { "B" } else { "A" };
        forged.replace_range(at..=at, other);
        let reply = world.a.get(&format!("/v1/links?cursor={forged}")).await;
        assert_eq!(reply.outcome(), "400 invalid_cursor cursor", "character {at}");
    }
    for forged in [
        cursor[1..].to_owned(),
        cursor[..cursor.len() - 1].to_owned(),
        format!("{cursor}A"),
        format!("{cursor}="),
        format!("{cursor}%20"),
        URL_SAFE_NO_PAD.encode(br#"{"p":1,"f":{}}"#),
        URL_SAFE_NO_PAD.encode([0; 16]),
        "A".repeat(5_000),
    ] {
        let reply = world.a.get(&format!("/v1/links?cursor={forged}")).await;
        assert_eq!(reply.outcome(), "400 invalid_cursor cursor", "{forged}");
    }
    for stranger in [&world.b, &world.a1, &world.b1] {
        let reply = stranger.get(&format!("/v1/links?cursor={cursor}")).await;
        assert_eq!(reply.outcome(), "400 invalid_cursor cursor");
    }
    let scoped = cursor_of(&world.a1, "of-a1").await;
    for stranger in [&world.a, &world.a2] {
        let reply = stranger.get(&format!("/v1/links?cursor={scoped}")).await;
        assert_eq!(reply.outcome(), "400 invalid_cursor cursor");
    }
}
