//! HTTP/2 with prior knowledge, in raw frames. T2: floods end the connection.

use super::super::SHARES;
use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `GET`, `http`, authority `a`, and a path, as header compression writes them.
fn get(path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    [&[0x82, 0x86, 0x41, 1, b'a', 0x04, length], path.as_bytes()].concat()
}

fn request(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &get(path))
}

async fn connect(server: &Server, more: &[u8]) -> TcpStream {
    server.send([PREFACE, &frame(SETTINGS, 0, 0, &[]), more].concat()).await
}

/// The next frame: kind, stream, payload. `None` at the end of the connection.
async fn next(stream: &mut TcpStream) -> Option<(u8, u32, Vec<u8>)> {
    let read = async {
        let mut header = [0; 9];
        stream.read_exact(&mut header).await.ok()?;
        let [a, b, c, kind, _, id @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await.ok()?;
        Some((kind, u32::from_be_bytes(id), payload))
    };
    timeout(4 * MOMENT, read).await.expect("a frame, or the end")
}

/// The error code of GOAWAY.
async fn goaway(stream: &mut TcpStream) -> Option<u32> {
    let mut said = None;
    while let Some((kind, _, payload)) = next(stream).await {
        if kind == GOAWAY {
            said = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
    said
}

/// T2: at most 128 streams are offered, and many requests share one connection.
#[tokio::test]
async fn t2_requests_share_a_connection() {
    let server = Server::start(limits());
    let requests: Vec<u8> = (0..50).flat_map(|number| request(2 * number + 1, "/x")).collect();
    let mut stream = connect(&server, &requests).await;
    let mut answers = 0;
    let mut offered = None;
    while answers < 50 {
        match next(&mut stream).await.expect("an answer") {
            (HEADERS, _, payload) => {
                // The first answer writes the status as text; `:status 302` follows the index of `:status`.
                assert!(
                    answers > 0 || payload.windows(3).any(|part| part == b"302") || payload.contains(&0x64),
                    "{payload:?}"
                );
                answers += 1;
            }
            (SETTINGS, _, payload) if offered.is_none() => {
                let setting = payload.chunks(6).find(|setting| setting[..2] == [0, 3]).expect("a limit of streams");
                offered = Some(u32::from_be_bytes(setting[2..].try_into().unwrap()));
            }
            _ => {}
        }
    }
    assert_eq!(offered, Some(128));
    assert_eq!(server.paths().len(), 50);
}

/// The limits of clients that are not trusted proxies.
fn strangers() -> Limits {
    Limits { trusted: Vec::new(), ..limits() }
}

/// R5: the connection of a trusted proxy carries requests of many clients, so none of them waits for another to be
/// authenticated.
#[tokio::test]
async fn r5_a_connection_of_a_proxy_has_all_its_requests_at_once() {
    let server = Server::start(limits());
    let requests: Vec<u8> = (0..40).flat_map(|number| request(2 * number + 1, "/held")).collect();
    let _stream = connect(&server, &requests).await;
    let begun = async {
        while server.paths().len() < 40 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(MOMENT, begun).await.expect("all begin");
}

/// R5: a request that waited too long on an unauthenticated connection is refused with our record and does not begin:
/// the bodies of others may be waiting for the window that its own has filled.
#[tokio::test]
async fn r5_a_request_waits_for_others_of_its_connection_for_a_while_only() {
    let server = Server::start(Limits { stream_wait: Duration::from_millis(50), write_stall: MOMENT, ..strangers() });
    let requests: Vec<u8> = (0..20).flat_map(|number| request(2 * number + 1, "/held")).collect();
    let mut stream = connect(&server, &requests).await;
    let mut refused = Vec::new();
    while refused.len() < 4 {
        if let (DATA, id, payload) = next(&mut stream).await.expect("an answer") {
            let record: serde_json::Value = serde_json::from_slice(&payload).unwrap();
            let error =
                "too many concurrent requests on a connection that has not authenticated; send fewer and try again";
            assert_eq!(record, serde_json::json!({ "error": error, "code": "overloaded" }));
            refused.push(id);
        }
    }
    refused.sort_unstable();
    assert_eq!((refused, server.paths().len()), (vec![33, 35, 37, 39], 16));
}

/// R5: until a request of a connection was authenticated, sixteen are served at once; the others wait, and none is lost.
#[tokio::test]
async fn r5_a_connection_of_strangers_has_sixteen_requests_at_once() {
    let server = Server::start(Limits { stream_wait: 4 * MOMENT, write_stall: MOMENT, ..strangers() });
    let requests: Vec<u8> = (0..40).flat_map(|number| request(2 * number + 1, "/held")).collect();
    let mut stream = connect(&server, &requests).await;
    let begun = async |count| {
        let reached = async {
            while server.paths().len() != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let paths = || server.paths().len();
        assert!(timeout(MOMENT, reached).await.is_ok(), "{} have begun, not {count}", paths());
    };
    begun(16).await;
    // Once a later ping is answered, everything sent before was read.
    stream.write_all(&frame(PING, 0, 0, &[7; 8])).await.unwrap();
    while !matches!(next(&mut stream).await.expect("a ping"), (PING, 0, _)) {}
    begun(16).await;
    server.seen.go.notify_one();
    begun(17).await;
    // One authenticated request ends the limit of its connection.
    let mut stream = connect(&server, &request(1, "/known")).await;
    while next(&mut stream).await.expect("an answer").0 != HEADERS {}
    let requests: Vec<u8> = (1..41).flat_map(|number| request(2 * number + 1, "/held")).collect();
    stream.write_all(&requests).await.unwrap();
    begun(17 + 1 + 40).await;
}

/// T2: streams opened and reset in a row end the connection.
#[tokio::test]
async fn t2_rapid_reset_ends_the_connection() {
    let server = Server::start(limits());
    let flood: Vec<u8> = (0..5_000)
        .flat_map(|number| {
            [request(2 * number + 1, "/x"), frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8])].concat()
        })
        .collect();
    let began = Instant::now();
    let mut stream = connect(&server, &flood).await;
    assert_eq!(goaway(&mut stream).await, Some(11), "ENHANCE_YOUR_CALM");
    assert!(began.elapsed() < MOMENT, "took {:?}", began.elapsed());
    assert!(server.paths().len() < 500, "{} requests were served", server.paths().len());
    server.until_open(0).await;
}

/// T2: a client that starts and resets many requests slowly is disconnected too.
#[tokio::test]
async fn t2_abandoning_requests_ends_the_connection() {
    let server = Server::start(Limits { write_stall: MOMENT, ..limits() });
    let mut stream = connect(&server, &[]).await;
    server.until_open(1).await;
    for number in 0..2_000 {
        let id = 2 * number + 1;
        if stream.write_all(&request(id, "/hang")).await.is_err() {
            break;
        }
        let begun = async {
            while server.paths().len() <= number as usize && server.open() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(MOMENT, begun).await.expect("the request begins, or the connection ends");
        let _ = stream.write_all(&frame(RST_STREAM, 0, id, &[0, 0, 0, 8])).await;
    }
    server.until_open(0).await;
    assert!((200..400).contains(&server.paths().len()), "{} requests were begun", server.paths().len());
}

/// T2: an endless sequence of CONTINUATION frames ends the connection.
#[tokio::test]
async fn t2_continuation_flood_ends_the_connection() {
    for piece in [&b""[..], b"\0\x01x\x01y"] {
        let server = Server::start(limits());
        let begin = frame(HEADERS, END_STREAM, 1, &get("/x"));
        let flood = frame(CONTINUATION, 0, 1, piece).repeat(100_000);
        let began = Instant::now();
        let mut stream = connect(&server, &begin).await;
        let _ = timeout(MOMENT, stream.write_all(&flood)).await.expect("the flood is not read slowly");
        goaway(&mut stream).await;
        server.until_open(0).await;
        assert!(began.elapsed() < MOMENT, "took {:?}", began.elapsed());
        assert_eq!(server.paths().len(), 0);
    }
}

/// T1: an incomplete head over HTTP/2 has the limit of a head, whether the frame or the head is incomplete.
#[tokio::test]
async fn t1_an_incomplete_head_over_http2_is_cut() {
    let server = Server::start(Limits { keep_alive_idle: 4 * MOMENT, ..limits() });
    let whole = frame(HEADERS, END_STREAM, 1, &get("/x"));
    for half in [&whole[..4], &whole[..12], &whole[..]] {
        let mut stream = connect(&server, half).await;
        let began = Instant::now();
        goaway(&mut stream).await;
        assert_ended("half head", began.elapsed(), limits().head);
    }
}

/// T1: an idle connection gets GOAWAY.
#[tokio::test]
async fn t1_idle_http2_connections_are_closed() {
    let server = Server::start(limits());
    let mut stream = connect(&server, &request(1, "/x")).await;
    let began = Instant::now();
    assert_eq!(goaway(&mut stream).await, Some(0));
    assert_ended("idle", began.elapsed(), limits().keep_alive_idle);
}

/// T1: a body that does not arrive ends its own request only.
#[tokio::test]
async fn t1_a_body_over_http2_has_the_limits_of_a_body() {
    let server = Server::start(limits());
    let post = [&[0x83, 0x86, 0x41, 1, b'a', 0x04, 5], &b"/read"[..]].concat();
    let mut stream = connect(&server, &frame(HEADERS, END_HEADERS, 1, &post)).await;
    let began = Instant::now();
    while next(&mut stream).await.expect("an answer").0 != HEADERS {}
    assert_ended("body", began.elapsed(), limits().body_idle);
    stream.write_all(&request(3, "/x")).await.unwrap();
    while !matches!(next(&mut stream).await.expect("another answer"), (HEADERS, 3, _)) {}
}

/// R6: a request that was answered and whose answer is not read counts less than one in progress.
#[tokio::test]
async fn r6_answered_requests_count_less() {
    // An address can have two requests in progress.
    let server = Server::start(Limits { visits: SHARES * (40 << 10), trusted: Vec::new(), ..limits() });
    let mut stream = connect(&server, &[]).await;
    for nth in 0..6 {
        stream.write_all(&request(2 * nth + 1, "/large")).await.unwrap();
        while !matches!(next(&mut stream).await.expect("an answer"), (HEADERS, _, payload) if payload[0] == 0x88) {}
        server.until_asked(nth as usize + 1).await;
    }
    let hanging: Vec<u8> = (6..12).flat_map(|nth| request(2 * nth + 1, "/hang")).collect();
    stream.write_all(&hanging).await.unwrap();
    while !matches!(next(&mut stream).await.expect("an answer"), (HEADERS, _, payload) if payload[0] != 0x88) {}
    server.until_asked(7).await;
}

/// T1: a client that keeps the flow-control window of a response closed is stalled.
#[tokio::test]
async fn t1_a_closed_window_counts_as_stalled() {
    let server = Server::start(Limits { keep_alive_idle: MOMENT, ..limits() });
    let mut stream = connect(&server, &request(1, "/large")).await;
    let (began, mut taken) = (Instant::now(), 0);
    while let Some((kind, _, payload)) = next(&mut stream).await {
        if kind == DATA {
            taken += payload.len();
        }
    }
    assert_eq!(taken, 65_535, "the first window is filled");
    assert_ended("closed window", began.elapsed(), limits().write_stall);
}
