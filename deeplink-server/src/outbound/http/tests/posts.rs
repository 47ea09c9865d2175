//! Posts over connections that are kept.

use futures_util::future::join_all;
use tokio::sync::Barrier;

use super::*;

const NAME: &str = "moves.example.com";

/// When a host has moved, one lookup ends every connection to the old address, and the post goes to the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_has_moved_is_asked_for_once() {
    const KEPT: usize = 5;
    let together = Arc::new(Barrier::new(KEPT));
    let count = AtomicUsize::new(0);
    let (address, connections) = server(move |mut socket, _| {
        let together = (count.fetch_add(1, Ordering::SeqCst) < KEPT).then(|| Arc::clone(&together));
        async move {
            if let Some(together) = together {
                together.wait().await;
            }
            drop(socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await);
            std::future::pending::<()>().await;
        }
    })
    .await;
    let mut bench = Bench::new(address).await;
    bench.http.address_check_ttl = Duration::ZERO;
    bench.names.addresses(NAME, &[PUBLIC]);
    let post = || async {
        let url = format!("http://{NAME}/");
        let terms = Terms { began: Instant::now(), total: Duration::from_secs(10), largest: 100 };
        let post = Post { url: &url, headers: HeaderMap::new(), body: Bytes::from_static(b"{}"), terms };
        bench.http.post(post).await.map(|answer| answer.status)
    };
    for status in join_all((0..KEPT).map(|_| post())).await {
        assert_eq!(status.expect("an answer"), StatusCode::OK);
    }
    let (asked, each) = (bench.names.asked(NAME), bench.names.asked(NAME) / KEPT);
    bench.names.addresses(NAME, &["9.9.9.9"]);
    assert_eq!(post().await.expect("an answer"), StatusCode::OK);
    // Once for the kept connections, and once for the new one.
    assert_eq!(bench.names.asked(NAME) - asked, 2 * each);
    assert_eq!(connections.load(Ordering::SeqCst), KEPT + 1);
    assert!(bench.dialled().last().expect("a call").starts_with("9.9.9.9"), "{:?}", bench.dialled());
}

/// W6: a post ends when its time is over, to the tenth of a second, whatever was received until then other than a
/// status.
#[tokio::test(start_paused = true)]
async fn w6_a_post_ends_with_its_time() {
    for said in ["", "HTTP/1.1 200 OK\r\nX: y", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let (address, _) = server(move |mut socket, _| async move {
            drop(socket.write_all(said.as_bytes()).await);
            std::future::pending::<()>().await;
        })
        .await;
        let bench = Bench::new(address).await;
        let total = Duration::from_secs(10);
        let terms = Terms { began: Instant::now(), total, largest: 100 };
        let url = format!("http://{PUBLIC}/");
        let post = Post { url: &url, headers: HeaderMap::new(), body: Bytes::from_static(b"{}"), terms };
        let outcome = bench.http.post(post).await;
        let took = terms.began.elapsed();
        assert!(matches!(outcome, Err(CallError::Late(_))), "{said:?}: {outcome:?}");
        assert!((total..=total + STEP).contains(&took), "{said:?}: {took:?}");
    }
}

/// Once the status has arrived nothing fails any more, even if the rest of the answer would come too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_at_the_last_moment_counts() {
    let (address, _) = server(|mut socket, _| async move {
        drop(socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nfine").await);
        std::future::pending::<()>().await;
    })
    .await;
    let bench = Bench::new(address).await;
    bench.names.addresses(NAME, &[PUBLIC]);
    let url = format!("http://{NAME}/");
    let mut answers = Vec::new();
    for _ in 0..5 {
        // Less time is left than the rest of an answer may take.
        let began = Instant::now().checked_sub(Duration::from_millis(9_100)).expect("a moment");
        let terms = Terms { began, total: Duration::from_secs(10), largest: 100 };
        let post = Post { url: &url, headers: HeaderMap::new(), body: Bytes::from_static(b"{}"), terms };
        match bench.http.post(post).await {
            Ok(answer) => answers.push((answer.status, answer.body_start)),
            // On a busy machine not even the status arrives in time.
            Err(error) => assert!(matches!(error, CallError::Late(_)), "{error:?}"),
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    }
    assert_eq!(answers.pop().expect("an answer"), (StatusCode::OK, b"fine".to_vec()));
}
