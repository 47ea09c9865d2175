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

/// R1: of requests that a client pipelines, one is answered before others have their turn, also if each fills a read of its
/// own.
#[tokio::test]
async fn r1_pipelined_requests_are_answered_in_turns() {
    for filler in [0, 9_000] {
        assert_eq!(most_in_a_turn(filler).await, 1, "heads with {filler} more bytes");
    }
}

/// The most requests that began before others had their turn.
async fn most_in_a_turn(filler: usize) -> usize {
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
    let head = format!("HEAD / HTTP/1.1\r\nHost: a\r\nX-Filler: {}\r\n\r\n", "x".repeat(filler));
    let stream = server.send(head.repeat(REQUESTS)).await;
    let most = timeout(MOMENT, most).await.unwrap().unwrap();
    drop(stream);
    most
}
