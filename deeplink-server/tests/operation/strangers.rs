//! What unauthenticated callers cost a process: memory and processor time.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;

use crate::process::{Home, PATIENCE, Server, ask};

/// A figure of the process's memory, in KiB.
fn memory(server: &Server, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).expect("the figure");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Measures the peak memory of the process from now on.
struct Peak<'a> {
    server: &'a Server,
    before: u64,
}

impl<'a> Peak<'a> {
    fn watch(server: &'a Server) -> Self {
        std::fs::write(format!("/proc/{}/clear_refs", server.child.id()), "5").expect("the peak is reset");
        Self { server, before: memory(server, "VmRSS:") }
    }

    /// By how many MiB it grew at most.
    fn grown(&self) -> u64 {
        memory(self.server, "VmHWM:").saturating_sub(self.before) >> 10
    }
}

/// Processor time of the process so far, in hundredths of a second.
fn processor_time(server: &Server) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.child.id())).expect("its state");
    let fields = stat.rsplit_once(')').expect("a name").1.split_whitespace();
    fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Requests a path on this many streams of one connection with a window of 1 KiB each, which never grows.
fn never_read(address: SocketAddr, path: &str, streams: u32) -> TcpStream {
    let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
    // GET, http, and the headers as literals without indexing.
    let head = [
        &[0x82, 0x86, 0x01][..],
        &text("localhost"),
        &[0x04],
        &text(path),
        &[0x0f, 0x01],
        &text("gzip, deflate, br, zstd"),
    ];
    let head = head.concat();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(4, 0, 0, &[0, 4, 0, 0, 4, 0]));
    // The connection's window does not limit anything.
    sent.extend(frame(8, 0, 0, &(1_u32 << 30).to_be_bytes()));
    for number in 0..streams {
        sent.extend(frame(1, 0b101, 2 * number + 1, &head));
    }
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(&sent).expect("the requests go out");
    stream
}

/// Reads until this many responses have begun, or the service has closed the connection. Returns how many had begun.
fn read_heads(mut stream: &TcpStream, count: u32) -> u32 {
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut heads = 0;
    while heads < count {
        let mut head = [0; 9];
        match stream.read_exact(&mut head) {
            Err(error) if [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&error.kind()) => break,
            read => read.expect("every request is answered"),
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("small")];
        stream.read_exact(&mut payload).expect("a whole frame");
        heads += u32::from(head[3] == 1);
    }
    heads
}

/// Public documents that are the same for all callers.
const DOCUMENTS: [&str; 8] = [
    "/docs",
    "/docs/moving-in",
    "/docs/reference",
    "/docs/reference/links",
    "/sdk/deeplink.js",
    "/sdk/deeplink.d.ts",
    "/openapi.json",
    "/llms.txt",
];

/// R1: a document that does not change is made once: 120 unread answers of each cost at most 20 MiB, and at most four
/// times the processor time of as many answers with hardly any body.
#[test]
fn r1_unread_documents_cost_no_copy_and_no_processor_time() {
    const STREAMS: u32 = 120;
    let server = Home::new();
    let server = server.serve();
    for path in DOCUMENTS {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let cost = |paths: [&str; DOCUMENTS.len()]| {
        let (peak, time) = (Peak::watch(&server), processor_time(&server));
        let streams = paths.map(|path| never_read(server.address, path, STREAMS));
        for stream in &streams {
            assert_eq!(read_heads(stream, STREAMS), STREAMS);
        }
        let cost = (peak.grown(), processor_time(&server) - time);
        drop(streams);
        cost
    };
    let (_, least) = cost(["/health"; DOCUMENTS.len()]);
    let (grown, took) = cost(DOCUMENTS);
    assert!(grown <= 20, "{grown} MiB");
    assert!(took <= 4 * least.max(1), "{took} hundredths of a second, and {least} for /health");
}

/// R1: the search answers every request by itself: 120 unread answers to the longest query cost at most 20 MiB and 25 ms of
/// processor time each. The service closes the connection once too much is unread.
#[test]
fn r1_unread_searches_cost_little() {
    const STREAMS: u32 = 120;
    const SEARCH: &str = "/docs/search?q=e+t+a+o+i+n+s+r";
    let server = Home::new();
    let server = server.serve();
    assert_eq!(server.get(SEARCH).status, 200);
    let (peak, time) = (Peak::watch(&server), processor_time(&server));
    let stream = never_read(server.address, SEARCH, STREAMS);
    assert!(read_heads(&stream, STREAMS) > 0);
    let (grown, took) = (peak.grown(), processor_time(&server) - time);
    assert!(grown <= 20, "{grown} MiB");
    assert!(took <= u64::from(STREAMS) * 5 / 2, "{took} hundredths of a second");
}

/// Sends a request whose answer may come before its end, and gives the status.
fn status_of(server: &Server, head: &str, body: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let head = format!("{head}\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
    // A server that has read enough closes the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    std::str::from_utf8(&answer[9..]).expect("a number").parse().expect("a status")
}

/// L17: a body that is too large or nested too deeply costs 20 MiB at most.
#[test]
fn l17_hostile_bodies_cost_twenty_megabytes_at_most() {
    let home = Home::new();
    let key = home.key("owner@example.com");
    let server = home.serve();
    server.link(&key);
    let peak = Peak::watch(&server);
    let large = vec![b'x'; 10 << 20];
    let nested = "[".repeat(100_000);
    for path in ["/v1/links", "/v1/links/bulk"] {
        let head =
            |length: usize| format!("POST {path} HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}");
        assert_eq!(status_of(&server, &head(large.len()), &large), 413, "{path}");
        let expected = if path == "/v1/links" { 413 } else { 400 };
        assert_eq!(status_of(&server, &head(nested.len()), nested.as_bytes()), expected, "{path}");
    }
    assert!(peak.grown() <= 20, "{} MiB", peak.grown());
}

/// R5: a batch is refused at its 101st row; the rest is not kept.
#[test]
fn r5_a_batch_of_too_many_rows_costs_eight_megabytes_at_most() {
    let home = Home::new();
    let key = home.key("owner@example.com");
    let server = home.serve();
    let batch = |rows: usize| format!(r#"{{"links":[{}{{}}]}}"#, "{},".repeat(rows - 1));
    let authorization = format!("Bearer {key}");
    let headers = [("Content-Type", "application/json"), ("Authorization", authorization.as_str())];
    let send = |body: &str| ask(server.address, "POST", "/v1/links/bulk", &headers, body);
    assert_eq!(send(&batch(100)).status, 201);
    let peak = Peak::watch(&server);
    let refused = send(&batch(349_000));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some("batch_too_large")));
    assert!(peak.grown() <= 8, "{} MiB", peak.grown());
}

/// A body that stops in the middle.
struct Unending(Option<Bytes>);

impl Body for Unending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// Connections with unfinished bodies.
struct Senders {
    connections: Vec<AbortHandle>,
    answers: UnboundedReceiver<Response<Incoming>>,
}

impl Senders {
    /// Sends 64,000 bytes of a body on each of `streams` streams of each of `connections` connections from each
    /// address.
    async fn start(
        address: SocketAddr,
        from: &[Ipv4Addr],
        counts: (usize, usize),
        path: &'static str,
        media_type: &'static str,
    ) -> Self {
        let body = Bytes::from(vec![b'a'; 64_000]);
        let request = Request::post(format!("http://localhost{path}")).header("content-type", media_type);
        let request = request.body(()).expect("a request");
        Self::send(address, from, counts, || request.clone().map(|()| Unending(Some(body.clone())))).await
    }

    /// Sends a request on each of `streams` streams of each of `connections` connections from each address.
    async fn send(
        address: SocketAddr,
        from: &[Ipv4Addr],
        (connections, streams): (usize, usize),
        request: impl Fn() -> Request<Unending>,
    ) -> Self {
        let (tell, answers) = unbounded_channel();
        let mut open = Vec::new();
        for source in from.iter().flat_map(|source| std::iter::repeat_n(*source, connections)) {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind(SocketAddr::from((source, 0))).expect("an address of this machine");
            let stream = socket.connect(address).await.expect("a connection");
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
            open.push(tokio::spawn(connection).abort_handle());
            for _ in 0..streams {
                let (mut sender, tell) = (sender.clone(), tell.clone());
                let request = request();
                tokio::spawn(async move {
                    if let Ok(answer) = sender.send_request(request).await {
                        let _ = tell.send(answer);
                    }
                });
            }
        }
        Self { connections: open, answers }
    }

    async fn answer(&mut self) -> Response<Incoming> {
        tokio::time::timeout(PATIENCE, self.answers.recv()).await.expect("an answer in time").expect("an answer")
    }

    /// Waits for this many refusals and checks what they say.
    async fn refusals(&mut self, count: usize, message: &str) {
        let mut refused = 0;
        while refused < count {
            let answer = self.answer().await;
            // A body that timed out in the meantime is answered differently.
            if answer.status() == 503 {
                assert_eq!(answer.headers()["retry-after"], "5");
                let body = answer.into_body().collect().await.expect("a body").to_bytes();
                let body: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
                assert_eq!((body["code"].as_str(), body["error"].as_str()), (Some("overloaded"), Some(message)));
                refused += 1;
            }
        }
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.connections.iter().for_each(AbortHandle::abort);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// R5: sign-in forms take at most 4 KiB, whatever is sent: 64 KB on each of 3,600 streams cost at most 40 MiB, and
/// later ones are served from the same memory, part of which the allocator keeps for them.
#[test]
fn r5_bodies_of_strangers_cost_forty_megabytes_at_most() {
    let home = Home::new();
    let server = home.serve();
    assert_eq!(ask(server.address, "POST", "/v1/auth/callback", &[], "").status, 415);
    let peak = Peak::watch(&server);
    for _ in 0..3 {
        runtime().block_on(async {
            let form = "application/x-www-form-urlencoded";
            let mut senders =
                Senders::start(server.address, &[Ipv4Addr::LOCALHOST], (30, 120), "/v1/auth/callback", form).await;
            let mut judged = 0;
            for _ in 0..30 * 120 {
                // The client sends bodies in any order: those of requests that wait can be in front of those that are read.
                match senders.answer().await.status().as_u16() {
                    413 => judged += 1,
                    // On a busy machine, a body may time out meanwhile.
                    400 => {}
                    status => assert_eq!(status, 503),
                }
            }
            assert!(judged >= 30, "{judged}");
        });
        assert!(peak.grown() <= 40, "{} MiB", peak.grown());
    }
}

/// R5: requests whose bodies never begin cost little, however many header lines they have: those cost their sender a byte
/// each. Another address is served meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn r5_heads_of_strangers_cost_forty_megabytes_at_most() {
    let home = Home::new();
    let server = home.serve();
    assert_eq!(ask(server.address, "POST", "/v1/auth/callback", &[], "").status, 415);
    let mut request = Request::post("http://localhost/v1/auth/callback");
    for number in 0..95 {
        request = request.header(format!("x-{number}"), "");
    }
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(()).expect("a request");
    let one = [Ipv4Addr::new(127, 0, 5, 1)];
    for counts in [(30, 120), (300, 16)] {
        let peak = Peak::watch(&server);
        runtime().block_on(async {
            let heads = || request.clone().map(|()| Unending(None));
            let mut senders = Senders::send(server.address, &one, counts, heads).await;
            let message = b"too many concurrent requests from your IP address; send fewer and try again";
            let mut refused = 0;
            while refused < 1_000 {
                let answer = senders.answer().await;
                assert_eq!(
                    (answer.status().as_u16(), &answer.headers()["retry-after"]),
                    (503, &"1".parse().expect("a value"))
                );
                let body = answer.into_body().collect().await.expect("a body").to_bytes();
                // Those of a connection that wait behind its first sixteen are told so.
                refused += usize::from(body.windows(message.len()).any(|text| text == message));
            }
            let address = server.address;
            let other = tokio::task::spawn_blocking(move || ask(address, "GET", "/r/nowhere", &[], "").status);
            assert_eq!(other.await.expect("an answer"), 404, "another address is not served");
        });
        assert!(peak.grown() <= 40, "{counts:?}: {} MiB", peak.grown());
    }
}

/// R5: bodies of unauthenticated callers share 32 MiB, those of one address 4 MiB of it. Anything beyond is refused
/// until some are done; a caller at another address, or with a key, is not affected.
#[cfg(target_os = "linux")]
#[test]
fn r5_strangers_share_a_budget_of_bodies() {
    let mut home = Home::new();
    home.set("DEEPLINK_LIMIT_SIGNIN", "100000");
    let key = home.key("owner@example.com");
    let server = Arc::new(home.serve());
    let sign_in = |email: &str| server.post("/v1/auth/signin", None, &format!(r#"{{"email":"{email}"}}"#)).status;
    assert_eq!(sign_in("before@example.com"), 200);
    let runtime = runtime();
    runtime.block_on(async {
        // As many streams of each connection as are read concurrently: 8 MiB from one address.
        let (path, kind) = ("/v1/auth/signin", "application/json");
        let mut one = Senders::start(server.address, &[Ipv4Addr::new(127, 0, 3, 1)], (8, 16), path, kind).await;
        let message = "too many unauthenticated request bodies in progress from your IP address; try again in 5 s";
        one.refusals(40, message).await;
        // From 127.0.0.1, and without retries: a client that retries would wait until there is room.
        let held = Arc::clone(&server);
        let other = tokio::task::spawn_blocking(move || {
            let (head, body) =
                ("POST /v1/auth/signin HTTP/1.1\r\nContent-Length: 29", br#"{"email":"other@example.com"}"#);
            status_of(&held, head, body)
        });
        assert_eq!(other.await.expect("an answer"), 200, "another address is not served");
        drop(one);

        // 39 MiB from ten addresses, each below its limit.
        let ten: Vec<_> = (1..=10).map(|last| Ipv4Addr::new(127, 0, 4, last)).collect();
        let mut all = Senders::start(server.address, &ten, (4, 16), path, kind).await;
        all.refusals(40, "too many unauthenticated request bodies in progress; try again in 5 s").await;
        let (held, key) = (Arc::clone(&server), key.clone());
        tokio::task::spawn_blocking(move || held.link(&key)).await.expect("a link is made meanwhile");
    });
    // The helper retries as long as it is asked to.
    assert_eq!(sign_in("after@example.com"), 200);
}
