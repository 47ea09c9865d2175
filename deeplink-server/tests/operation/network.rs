//! Clients that exhaust the network: connections that send half a head, and answers that are not read.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use deeplink_doubles::wait::eventually_blocking;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpSocket;

use crate::process::{Home, PATIENCE, Server};

/// Raises this process's limit of open files to what the tests need, or to its hard limit.
fn raise_own_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("the limit can be raised");
}

/// A connection from an address of this machine, with a small receive buffer.
fn connect_from(address: Ipv4Addr, server: &Server) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((address, 0))).expect("an address");
        socket.set_recv_buffer_size(4 << 10).expect("a size");
        socket.connect(server.address).await.expect("a connection").into_std().expect("a socket")
    });
    stream.set_nonblocking(false).expect("a blocking socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream
}

/// The status and the body of one GET, on its own connection.
fn get_from(address: Ipv4Addr, server: &Server, path: &str, key: &str) -> (u16, String) {
    let mut stream = connect_from(address, server);
    stream.write_all(request(server, path, key, "close").as_bytes()).expect("the request goes out");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

fn request(server: &Server, path: &str, key: &str, connection: &str) -> String {
    let host = server.address;
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nConnection: {connection}\r\n\r\n")
}

/// What has arrived and was not read, without waiting for more: empty at the end of the connection, `None` if nothing
/// has arrived.
fn arrived(stream: &mut TcpStream) -> Option<Vec<u8>> {
    stream.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 64];
    match stream.read(&mut bytes) {
        Ok(length) => Some(bytes[..length].to_vec()),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
        // A reset counts as the end.
        Err(_) => Some(Vec::new()),
    }
}

/// The time allowed for a head.
#[cfg(target_os = "linux")]
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// One client's half heads, up to the usual limit of open files, do not delay other clients: no half head has timed out
/// by then, so no client waited for one.
#[cfg(target_os = "linux")]
#[test]
fn r6_half_heads_of_one_client_keep_nobody_out() {
    raise_own_limit();
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let count = usize::try_from(hard.saturating_sub(500)).unwrap_or(usize::MAX).min(3_000);
    for limit in ["ulimit -Sn 1024;", "ulimit -n 1024;"] {
        let home = Home::on_sqlite();
        let server = home.start(home.command_after(limit));
        let began = Instant::now();
        let mut half: Vec<_> = (0..count)
            .map(|_| {
                let mut stream = TcpStream::connect(server.address).expect("a connection");
                // A refused client may already have been closed.
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: half\r\n");
                stream
            })
            .collect();
        // On a busy machine, some may time out before the last is sent.
        let was_quick = began.elapsed() < HEAD_LIMIT / 2;
        let (status, _) = get_from(Ipv4Addr::new(127, 0, 0, 9), &server, "/health", "none");
        let (mut open, mut late) = (0, 0);
        for stream in &mut half {
            match arrived(stream) {
                None => open += 1,
                Some(bytes) if bytes.starts_with(b"HTTP/1.1 408") => late += 1,
                Some(_) => {}
            }
        }
        assert_eq!(status, 200, "{limit}");
        assert!(late == 0 || !was_quick, "{limit} was answered only after half heads had run out of time");
        let most =
            if limit.contains("-S") { 10_000.min(usize::try_from(hard).unwrap_or(10_000) - 64) } else { 960 } / 8;
        assert!((1..=most).contains(&open), "{limit} {open} of at most {most} are open");
        assert!(
            server.log().contains("an IP address or IPv6 /48 has reached its connection limit"),
            "{}",
            server.log()
        );
    }
}

/// The server raises the limit of open files as far as it may at start, and both it and `check` report what that
/// allows.
#[test]
fn r6_the_limit_of_open_files_is_raised() {
    let home = Home::on_sqlite();
    let limits = |server: &Server| {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).expect("its limits");
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("a limit");
        line.split_whitespace().take(2).map(|number| number.parse::<u64>().expect("a number")).collect::<Vec<_>>()
    };
    let server = home.start(home.command_after("ulimit -n 2000; ulimit -Sn 300;"));
    assert_eq!(limits(&server), [2_000, 2_000]);
    assert!(server.log().contains("limit on open files"), "{}", server.log());
    drop(server);
    let check = home.command_after("ulimit -n 2000; ulimit -Sn 300; set -- check;").output().expect("check runs");
    let said = String::from_utf8(check.stdout).expect("UTF-8");
    let line = "note   open files      2000: 1936 connections, at most 242 from each IP address that is not a trusted proxy and a quarter from each IPv6 /48; ";
    assert!(said.lines().any(|found| found.starts_with(line)), "{said}");
}

/// A figure of a process's memory, in KiB.
fn memory(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Fills an account's first page with links that are as large as they may be, and gives its length.
fn fill(server: &Server, key: &str) -> usize {
    let url = |host: &str| format!("https://{host}/{}", "x".repeat(1_900));
    let link = serde_json::json!({
        "web_url": url("example.com"),
        "ios_deep_link": format!("app://{}", "x".repeat(1_900)),
        "android_deep_link": format!("app://{}", "x".repeat(1_900)),
        "ios_store_url": url("apps.apple.com"),
        "android_store_url": url("play.google.com"),
        "metadata": { "text": "x".repeat(4_000) },
    });
    let body = serde_json::json!({ "template": link, "count": 100 }).to_string();
    let made = server.post("/v1/links/bulk", Some(key), &body);
    assert_eq!(made.status, 201, "{}", &made.body[..made.body.len().min(500)]);
    let (status, list) = get_from(Ipv4Addr::LOCALHOST, server, LIST, key);
    let length = list.len();
    assert_eq!(status, 200);
    assert!(length > 1_000_000, "a list of {length} bytes");
    length
}

const LIST: &str = "/v1/links?limit=100";

/// Sixty unread answers of more than a megabyte, over HTTP/1 from as many addresses and over HTTP/2 on one connection,
/// take a bounded amount of memory, and others are answered meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn r4_answers_that_nobody_reads_take_bounded_memory() {
    const CLIENTS: u8 = 60;
    raise_own_limit();
    let home = Home::new();
    let key = home.key("owner@example.com");
    // The limit of concurrent requests per account is not tested here.
    let other_key = home.key("other@example.com");
    let server = home.serve();
    let known = server.link(&key);
    fill(&server, &key);
    fill(&server, &other_key);
    // So that one-time costs of the first answers are not counted.
    for _ in 0..10 {
        assert_eq!(get_from(Ipv4Addr::LOCALHOST, &server, LIST, &key).0, 200);
    }
    let before = memory(&server, "VmHWM");

    // More than fits into the kernel's buffers.
    let pipelined = request(&server, LIST, &key, "keep-alive").repeat(8);
    let mut unread = Vec::new();
    for number in 1..=CLIENTS {
        let mut stream = connect_from(Ipv4Addr::new(127, 0, 1, number), &server);
        stream.write_all(pipelined.as_bytes()).expect("the requests go out");
        unread.push(stream);
    }
    let streams = unread_streams(&server, &key, &format!("/v1/links/{known}"), CLIENTS);
    let other = Ipv4Addr::new(127, 0, 2, 1);
    let grown = || memory(&server, "VmHWM").saturating_sub(before) >> 10;
    // The last request is answered last, so all answers above have been made by then.
    for stream in &unread {
        let answered = stream.peek(&mut [0; 1]);
        assert!(answered.is_ok_and(|length| length == 1), "a client was not answered");
    }
    assert_eq!(get_from(other, &server, "/health", &key).0, 200);
    let (status, body) = get_from(other, &server, "/v1/links?limit=1", &other_key);
    assert_eq!(status, 200, "{body}");
    assert_eq!(get_from(other, &server, LIST, &other_key).0, 200, "another account has its own part");
    assert!(grown() <= 64, "{} MiB more at first", grown());
    eventually_blocking("a large answer is sent again", PATIENCE, || {
        let is_sent = get_from(other, &server, LIST, &key).0 == 200;
        if !is_sent {
            // As the refusal's `Retry-After` says.
            std::thread::sleep(Duration::from_secs(1));
        }
        is_sent
    });
    assert!(grown() <= 64, "{} MiB more", grown());
    drop((streams, unread));
}

/// This many lists on one HTTP/2 connection, with a window of one kilobyte for each answer. The first request is not a
/// list: the account's lists may all be waiting.
fn unread_streams(server: &Server, key: &str, first: &str, count: u8) -> TcpStream {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    let text =
        |index: &[u8], value: &str| [index, &[u8::try_from(value.len()).expect("short")], value.as_bytes()].concat();
    // `GET`, `http`, then `:authority`, `:path` and `authorization` by their places in the static table (RFC 7541).
    let head = |path| {
        let (authority, bearer) = (server.address.to_string(), format!("Bearer {key}"));
        [vec![0x82, 0x86], text(&[0x01], &authority), text(&[0x04], path), text(&[0x0f, 0x08], &bearer)].concat()
    };
    let window = [&[0, 4][..], &1_024_u32.to_be_bytes()].concat();
    let begin = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &window)].concat();
    let mut stream = connect_from(Ipv4Addr::new(127, 0, 1, 200), server);
    stream.write_all(&begin).expect("the preface goes out");
    let request = |number: u32, path| frame(HEADERS, 5, 2 * number + 1, &head(path));
    stream.write_all(&request(0, first)).expect("a first request goes out");
    let mut said = [0; 9];
    loop {
        stream.read_exact(&mut said).expect("a frame");
        let length = u32::from_be_bytes([0, said[0], said[1], said[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).expect("a payload");
        if said[3] == HEADERS {
            assert_eq!(payload[0], 0x88, "`:status: 200`");
            break;
        }
    }
    for number in 1..u32::from(count) {
        stream.write_all(&request(number, LIST)).expect("a request goes out");
    }
    stream
}
