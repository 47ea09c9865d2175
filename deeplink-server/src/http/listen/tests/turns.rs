//! Connections take turns.

use std::future::poll_fn;
use std::task::Poll;

use super::*;

/// Lets every task that is ready run once.
async fn others_first() {
    let mut is_ready = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_ready, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// R1: of requests that a client pipelines, one is answered before others have their turn.
#[tokio::test]
async fn r1_pipelined_requests_are_answered_in_turns() {
    const REQUESTS: usize = 40;
    let server = Server::start(limits());
    let seen = Arc::clone(&server.seen);
    let most = tokio::spawn(async move {
        let (mut most, mut begun) = (0, 0);
        while begun < REQUESTS {
            others_first().await;
            let now = seen.paths.lock().unwrap().len();
            most = most.max(now - begun);
            begun = now;
        }
        most
    });
    let stream = server.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS)).await;
    assert_eq!(timeout(MOMENT, most).await.unwrap().unwrap(), 1);
    drop(stream);
}
