//! T1: first byte, head time, head size, body, unread responses, idle connections: each limit is enforced at most a second
//! late, without effect on other clients.

use std::sync::atomic::AtomicBool;

use deeplink_doubles::meter::Meter;
use tokio::task::JoinSet;

use super::*;

const HEAD: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// Sends single bytes until the connection is closed.
async fn drip(server: &Server, begin: &str) -> (String, Duration) {
    let began = Instant::now();
    let (reader, mut writer) = server.send(begin).await.into_split();
    let dripping = tokio::spawn(async move {
        while writer.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    });
    let (answer, _) = read_to_end(reader).await;
    timeout(MOMENT, dripping).await.expect("the server stops listening").unwrap();
    (answer, began.elapsed())
}

/// T1: silent and slow clients in numbers are closed in time; 99 of 100 answers of a healthy one take at most
/// 50 ms meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t1_slow_clients_are_closed_in_time_without_effect_on_others() {
    let server = Arc::new(Server::start(limits()));
    let mut clients = JoinSet::new();
    for number in 0..400 {
        let server = Arc::clone(&server);
        clients.spawn(async move {
            let short = limits();
            let (what, (answer, after), limit) = match number {
                0..200 => ("silent", read_to_end(server.send("").await).await, short.first_byte),
                200..300 => ("half head", read_to_end(server.send("GET / HT").await).await, short.head),
                300..350 => ("dripping head", drip(&server, "GET / HTTP/1.1\r\nX: ").await, short.head),
                _ => {
                    let begin = "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 999\r\n\r\n";
                    ("dripping body", drip(&server, begin).await, short.body_total)
                }
            };
            assert_ended(what, after, limit);
            let expected = if what == "silent" { "" } else { "HTTP/1.1 408 Request Timeout" };
            assert!(answer.starts_with(expected), "{what}: {answer}");
        });
    }
    let over = Arc::new(AtomicBool::new(false));
    let healthy = std::thread::spawn({
        let (address, over) = (server.address, Arc::clone(&over));
        move || answer_times(address, &over)
    });
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    let times = healthy.join().unwrap();
    let p99 = times[times.len() * 99 / 100];
    assert!(p99 <= Duration::from_millis(50), "p99 of the healthy client's {} answers was {p99:?}", times.len());
}

/// How long the answers to a client take that repeats its request until `over`, without the time that the machine took,
/// in ascending order.
fn answer_times(address: SocketAddr, over: &AtomicBool) -> Vec<Duration> {
    use std::io::{Read, Write};
    let folder = deeplink_doubles::machine::directory();
    let meter = Meter::start(folder.path().join("page"));
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(MOMENT)).unwrap();
    let mut answers = Vec::new();
    while !over.load(Ordering::SeqCst) {
        let began = std::time::Instant::now();
        stream.write_all(HEAD.as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut bytes = [0; 1_024];
            let length = stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the connection was closed");
            answer.extend_from_slice(&bytes[..length]);
        }
        assert!(answer.starts_with(b"HTTP/1.1 302"));
        answers.push((began, std::time::Instant::now()));
        std::thread::sleep(Duration::from_millis(2));
    }
    // By now a measurement that was under way during the last answer has ended too.
    std::thread::sleep(Duration::from_millis(50));
    let net = |(began, ended): &(std::time::Instant, std::time::Instant)| {
        (*ended - *began).saturating_sub(meter.lost_by_one(*began, *ended))
    };
    let mut times: Vec<_> = answers.iter().map(net).collect();
    times.sort_unstable();
    times
}

/// T1: a body that stops arriving ends after the idle limit, not the total one.
#[tokio::test]
async fn t1_a_stalled_body_is_cut() {
    let server = Server::start(limits());
    let stream = server.send("POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").await;
    let (answer, after) = read_to_end(stream).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_ended("stopped body", after, limits().body_idle);
}

/// T1: only waiting for the client counts; a handler may take longer than any limit.
#[tokio::test]
async fn t1_time_spent_in_a_handler_does_not_count() {
    let tight = Duration::from_millis(100);
    let short = Limits { first_byte: tight, head: tight, body_idle: tight, body_total: tight, ..limits() };
    let server = Server::start(Limits { write_stall: tight, keep_alive_idle: tight, ..short });
    let mut stream = server.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").await;
    assert!(read_answer(&mut stream).await.0.starts_with("http/1.1 200"));
}

/// T1: clients that never read their responses are disconnected, and their memory is freed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t1_clients_that_never_read_are_cut() {
    let server = Server::start(limits());
    let pipelined = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(server.send(&pipelined).await);
    }
    server.until_open(10).await;
    let began = Instant::now();
    server.until_open(0).await;
    // From when their sockets were full, which took the kernel and ten connections some time.
    let (after, stall) = (began.elapsed(), limits().write_stall);
    assert!(after + Duration::from_millis(500) + stalled(after) >= stall, "{after:?}");
    assert!(is_in_time(after, stall + 5 * LATE), "{after:?}");
    // A reset: otherwise the kernel would go on offering what it holds for minutes.
    let mut read = Vec::new();
    let end = timeout(MOMENT, streams[0].read_to_end(&mut read)).await.unwrap();
    assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

/// T1: a client that reads slowly makes progress and is served to the end, also long after the idle timeout.
#[tokio::test]
async fn t1_a_slow_reader_is_not_a_stalled_one() {
    let server = Server::start(limits());
    let mut stream = server.send("GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    let (mut buf, mut read) = (vec![0; 4 << 20], 0);
    while read < 32 << 20 {
        let count = timeout(MOMENT, stream.read(&mut buf)).await.unwrap().unwrap();
        assert!(count > 0, "cut after {read} bytes");
        read += count;
        if read < 2 << 20 {
            sleep(Duration::from_millis(150)).await;
        }
    }
}

/// T1: an idle connection is closed after its limit; each request starts the limit anew.
#[tokio::test]
async fn t1_idle_connections_are_kept_and_then_closed() {
    let server = Server::start(limits());
    let mut stream = server.send(HEAD).await;
    for _ in 0..3 {
        assert!(read_answer(&mut stream).await.0.starts_with("http/1.1 302"));
        sleep(Duration::from_millis(500)).await;
        stream.write_all(HEAD.as_bytes()).await.unwrap();
    }
    read_answer(&mut stream).await;
    let (rest, after) = read_to_end(stream).await;
    assert_eq!(rest, "");
    assert_ended("idle", after, limits().keep_alive_idle);
    assert_eq!(server.paths().len(), 4);
}

/// T1: an incomplete head after a complete request has the limit of a head.
#[tokio::test]
async fn t1_an_incomplete_pipelined_head_has_the_limit_of_a_head() {
    let server = Server::start(Limits { keep_alive_idle: MOMENT, ..limits() });
    let mut stream = server.send(format!("{HEAD}GET / HT")).await;
    read_answer(&mut stream).await;
    let (answer, after) = read_to_end(stream).await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_ended("half pipelined head", after, limits().head);
}

/// T1: a head has at most 16 KiB and 100 lines, else 431.
#[tokio::test]
async fn t1_large_heads_are_refused() {
    let server = Server::start(limits());
    let long = |bytes: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(bytes));
    let many = |lines: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(lines - 1));
    let endless = "x".repeat(64 << 10);
    for (head, status) in
        [(long(15 << 10), 302), (long(16 << 10), 431), (many(100), 302), (many(101), 431), (endless, 431)]
    {
        let mut stream = server.send(&head).await;
        let answer = read_answer(&mut stream).await.0;
        assert!(answer.starts_with(&format!("http/1.1 {status}")), "{} bytes: {answer}", head.len());
        if status == 431 {
            assert_eq!(read_to_end(stream).await.0, "", "the connection ends");
        }
    }
}

/// A response that is sent before its request is complete reaches a client that sends everything before it reads.
#[tokio::test]
async fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let server = Server::start(limits());
    let mut stream = server.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n").await;
    for piece in 0..500 {
        stream.write_all(&[b'x'; 16_000]).await.expect("the connection is not reset");
        // Short enough in total that the server still waits for the rest.
        if piece % 25 == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
    let (head, _) = read_answer(&mut stream).await;
    assert!(head.starts_with("http/1.1 302"), "{head}");
    assert!(head.contains("connection: close"), "the client is told that the connection ends: {head}");
    drop(stream);
    server.until_open(0).await;
}

/// A body that arrived with its head and was not read is thrown away, and one that was read to its end was not in the way.
#[tokio::test]
async fn a_small_body_that_nobody_reads_and_a_large_one_that_is_read_end_no_connection() {
    let server = Server::start(limits());
    for (path, bytes) in [("/", 100), ("/read", 100_000)] {
        let body = "x".repeat(bytes);
        let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{body}");
        let mut stream = server.send(request).await;
        for _ in 0..2 {
            let (head, _) = read_answer(&mut stream).await;
            assert!(head.starts_with("http/1.1 ") && !head.contains("connection: close"), "{head}");
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("the connection is open");
        }
    }
}

/// A refused request whose body arrives after its head ends the connection, and says so: a client that kept the connection
/// would lose its next request.
#[tokio::test]
async fn a_body_that_comes_after_its_answer_ends_the_connection() {
    for (length, sent) in [("Content-Length: 100", ""), ("Content-Length: 100", "x"), ("Content-Length: 9000", "")] {
        let server = Server::start(limits());
        let mut stream = server.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n{sent}")).await;
        let (head, _) = read_answer(&mut stream).await;
        assert!(head.starts_with("http/1.1 302") && head.contains("connection: close"), "{length} {sent}: {head}");
        stream.write_all(b"xx").await.expect("the server waits for the rest");
        assert_eq!(read_to_end(stream).await.0, "");
    }
}
