//! Writes: an account has a share of those that wait, and using it does not affect other accounts.

use serde_json::json;

use deeplink_core::id::TenantId;
use deeplink_testing::{Caller, Reply, World, spawn};

fn create(caller: &Caller) -> impl Future<Output = Reply> + Send + use<> {
    let caller = caller.clone();
    async move { caller.post("/v1/links", &json!({"web_url": "https://example.com/"})).await }
}

/// Writes beyond a share are refused at once, with whose share it is and `Retry-After`; waiting ones are done, and so is
/// another's, before all of them.
async fn writes_beyond_the_share_of(world: &World, flooding: &Caller, other: &Caller) {
    const ASKED: usize = 300;
    let before = created(world, &flooding.tenant).await;
    let held = world.db.hold(&flooding.tenant).await;
    // One share may use four of the PostgreSQL writers.
    let at_most = 256 + if world.db.is_postgres() { 4 } else { 0 };
    let (said, mut heard) = tokio::sync::mpsc::channel(ASKED);
    for _ in 0..ASKED {
        let (create, said) = (create(flooding), said.clone());
        tokio::spawn(async move { said.send(create.await).await });
    }
    for _ in at_most..ASKED {
        let refused = heard.recv().await.expect("an answer");
        assert_eq!((refused.outcome().as_str(), refused.header("retry-after")), ("503 overloaded", "1"));
        assert!(refused.text().contains("this account has too many pending writes"), "{}", refused.text());
    }
    assert!(heard.try_recv().is_err(), "the others wait");
    let of_other = create(other);
    if world.db.is_postgres() && other.tenant != flooding.tenant {
        assert_eq!(of_other.await.status, 201, "ahead of those that wait");
        held.let_go().await;
    } else {
        // What is held is in its way, too: on SQLite the whole file, on PostgreSQL the account.
        let of_other = tokio::spawn(of_other);
        held.let_go().await;
        assert_eq!(of_other.await.expect("a task").status, 201);
    }
    for _ in 0..at_most {
        assert_eq!(heard.recv().await.expect("an answer").status, 201);
    }
    let made = created(world, &flooding.tenant).await - before;
    let of_other = usize::from(other.tenant == flooding.tenant);
    assert_eq!(made, i64::try_from(at_most + of_other).expect("a number"), "what was refused was not done");
}

async fn created(world: &World, tenant: &TenantId) -> i64 {
    world.db.number(format!("SELECT count(*) FROM links WHERE tenant_id = '{tenant}'")).await
}

/// R2: an account's writes beyond its share are refused, and keep no other account from its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_writes_beyond_a_share_are_refused_at_once() {
    let world = spawn().await;
    writes_beyond_the_share_of(&world, &world.a, &world.b).await;
}
