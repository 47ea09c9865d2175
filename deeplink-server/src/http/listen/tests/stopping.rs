//! A graceful stop finishes requests in progress, and does not wait for idle connections.

use tokio::task::JoinSet;

use super::*;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

impl Server {
    /// Asks to stop, and returns how many were cut and how long it took.
    async fn stopped(self, how: Stop) -> (usize, Duration) {
        let began = Instant::now();
        self.stop.send_replace(how);
        let cut = timeout(2 * MOMENT, self.serving).await.expect("it stops").unwrap();
        (cut, began.elapsed())
    }
}

/// Under full load no connection is reset: each ends with `Connection: close`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_resets_no_connection() {
    for round in 0..5 {
        let server = Server::start(Limits { keep_alive_idle: 4 * MOMENT, drain: 2 * MOMENT, ..limits() });
        let mut clients = JoinSet::new();
        for _ in 0..50 {
            let mut stream = server.send(HEAD).await;
            clients.spawn(async move {
                for answered in 1.. {
                    // The server does not wait for the next request of a stalled client.
                    let has_ended = !matches!(stream.peek(&mut [0]).await, Ok(1));
                    if has_ended && stalled(MOMENT) > Duration::from_millis(150) {
                        return answered;
                    }
                    let (head, _) = read_answer(&mut stream).await;
                    if head.contains("connection: close") {
                        assert_eq!(read_to_end(stream).await.0, "");
                        return answered;
                    }
                    let _ = stream.write_all(HEAD).await;
                }
                0
            });
        }
        sleep(Duration::from_millis(100 + 7 * round)).await;
        let (cut, took) = server.stopped(Stop::Gracefully).await;
        assert!(cut == 0 && took < MOMENT, "{cut} were cut in {took:?}");
        while let Some(answered) = clients.join_next().await {
            assert!(answered.unwrap() > 0);
        }
    }
}

/// Requests in progress are finished, idle connections closed at once, connections in the backlog served.
#[tokio::test]
async fn a_stop_finishes_requests_in_progress() {
    let long = Limits { keep_alive_idle: 4 * MOMENT, first_byte: 4 * MOMENT, head: MOMENT, ..limits() };
    let server = Server::start(Limits { drain: 4 * MOMENT, ..long });
    let mut idle = server.send(HEAD).await;
    read_answer(&mut idle).await;
    let silent = server.send("").await;
    sleep(Duration::from_millis(1_600)).await;
    let mut held = server.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut half = server.send("GET /half HTTP/1.1\r\n").await;
    server.until_open(4).await;
    let (address, seen) = (server.address, Arc::clone(&server.seen));
    let late = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut &late, HEAD).unwrap();
    let stopping = tokio::spawn(server.stopped(Stop::Gracefully));
    for waiting in [idle, silent] {
        // These end before any request in progress.
        let (rest, after) = read_to_end(waiting).await;
        assert!(rest.is_empty() && after < MOMENT, "{rest} after {after:?}");
    }
    late.set_nonblocking(true).unwrap();
    let mut late = TcpStream::from_std(late).unwrap();
    sleep(Duration::from_millis(100)).await;
    half.write_all(b"Host: a\r\n\r\n").await.unwrap();
    seen.go.notify_one();
    for (stream, status) in [(&mut late, "302"), (&mut half, "302"), (&mut held, "200")] {
        let (head, _) = read_answer(stream).await;
        assert!(head.starts_with(&format!("http/1.1 {status}")) && head.contains("connection: close"), "{head}");
    }
    drop((late, half, held));
    let (cut, took) = stopping.await.unwrap();
    assert!(cut == 0 && took < 4 * MOMENT, "{cut} were cut in {took:?}");
    assert!(TcpStream::connect(address).await.is_err(), "nothing listens any more");
}

/// Over HTTP/2 too, requests in progress are finished, then the connection ends.
#[tokio::test]
async fn a_stop_finishes_streams() {
    let server = Server::start(Limits { drain: MOMENT, ..limits() });
    let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let head = b"\0\0\x0c\x01\x05\0\0\0\x01\x82\x86\x41\x01a\x04\x05/slow";
    let began = Instant::now();
    let stream = server.send([preface, head].concat()).await;
    while server.paths().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    let reading = tokio::spawn(read_to_end(stream));
    let (cut, took) = server.stopped(Stop::Gracefully).await;
    assert!(cut == 0 && began.elapsed() >= Duration::from_millis(500), "{cut} cut in {took:?}");
    assert!(reading.await.unwrap().0.contains("slow"));
}

/// Connections whose requests do not finish are closed after the drain time, or at once on a second signal.
#[tokio::test]
async fn a_stop_has_a_time_limit() {
    let server = Server::start(limits());
    let _hung = server.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n").await;
    server.until_open(1).await;
    let (cut, took) = server.stopped(Stop::Gracefully).await;
    assert_eq!(cut, 1);
    assert_ended("stop", took, limits().drain);

    let server = Server::start(Limits { drain: 2 * MOMENT, ..limits() });
    let _hung = server.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n").await;
    server.until_open(1).await;
    let second = server.stop.clone();
    let stopping = tokio::spawn(server.stopped(Stop::Gracefully));
    sleep(Duration::from_millis(300)).await;
    second.send_replace(Stop::AtOnce);
    let (cut, took) = stopping.await.unwrap();
    assert!(cut == 1 && took < MOMENT, "{cut} were cut in {took:?}");
}

/// A dropped sender means a graceful stop, because no one could request one any more.
#[tokio::test]
async fn a_dropped_sender_stops_the_server() {
    let Server { stop, serving, .. } = Server::start(limits());
    drop(stop);
    assert_eq!(timeout(MOMENT, serving).await.unwrap().unwrap(), 0);
}
