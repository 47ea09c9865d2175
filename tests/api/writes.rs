//! Writes: an account has a share of those that wait, and using it does not affect other accounts.

use serde_json::json;

use deeplink_testing::{Caller, Reply, spawn};

fn create(caller: &Caller) -> impl Future<Output = Reply> + Send + use<> {
    let caller = caller.clone();
    async move { caller.post("/v1/links", &json!({"web_url": "https://example.com/"})).await }
}

/// An account's writes beyond its share are refused at once, with whose share it is and `Retry-After`; waiting ones are
/// done, and so is another account's, before all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r2_writes_beyond_an_accounts_share_are_refused_at_once() {
    const ASKED: usize = 300;
    let world = spawn().await;
    let held = world.db.hold(&world.a.tenant).await;
    // One account may use four of the PostgreSQL writers.
    let at_most = 256 + if world.db.is_postgres() { 4 } else { 0 };
    let (said, mut heard) = tokio::sync::mpsc::channel(ASKED);
    for _ in 0..ASKED {
        let (create, said) = (create(&world.a), said.clone());
        tokio::spawn(async move { said.send(create.await).await });
    }
    for _ in at_most..ASKED {
        let refused = heard.recv().await.expect("an answer");
        assert_eq!((refused.outcome().as_str(), refused.header("retry-after")), ("503 overloaded", "1"));
        assert!(refused.text().contains("this account has too many pending writes"), "{}", refused.text());
    }
    assert!(heard.try_recv().is_err(), "the others wait");
    let of_b = create(&world.b);
    if world.db.is_postgres() {
        assert_eq!(of_b.await.status, 201, "ahead of those that wait");
        held.let_go().await;
    } else {
        // On SQLite the whole file is locked.
        let of_b = tokio::spawn(of_b);
        held.let_go().await;
        assert_eq!(of_b.await.expect("a task").status, 201);
    }
    for _ in 0..at_most {
        assert_eq!(heard.recv().await.expect("an answer").status, 201);
    }
    let made = world.db.number(format!("SELECT count(*) FROM links WHERE tenant_id = '{}'", world.a.tenant)).await;
    assert_eq!(made, i64::try_from(at_most).expect("a number"), "what was refused was not done");
}
