//! The memory of the server while answers are not read and bodies are not completed, each on a separate server.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::load;
use crate::process::Server;
use crate::scenario::{Failure, Plan};
use crate::service::Service;
use crate::shares;

/// Streams opened on one connection.
const STREAMS: u32 = 128;
/// Public routes: unchanging documents, pages, and answers for a link.
const PUBLIC: &[&str] = &[
    "/docs",
    "/docs/reference/links",
    "/docs/search?q=link",
    "/openapi.json",
    "/llms.txt",
    "/sdk/deeplink.js",
    "/sdk/deeplink.d.ts",
    "/signin",
    "/health",
    "/robots.txt",
    "/r/page",
];
/// HTTP/2 frame types and flags, RFC 9113 section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A link with a landing page, and 100 links of 8 KB for a list of 1 MB.
async fn service(plan: &Plan) -> Result<Service, Failure> {
    let service = Service::fresh(plan).await?;
    let page =
        r#"{"custom_id":"page","web_url":"https://example.com/","agent_context":{"action":"purchase","cta":"Buy"}}"#;
    load::once(&service.server.address, &service.post("/v1/links", page)).await?;
    let long = "d".repeat(1_950);
    let template = format!(
        r#"{{"web_url":"https://example.com/{long}","ios_deep_link":"myapp://{long}","metadata":{{"note":"{long}{long}"}}}}"#
    );
    service.make_links("big-", 100, &template).await?;
    Ok(service)
}

pub(crate) async fn run(plan: &Plan) -> Result<(), Failure> {
    for path in PUBLIC {
        let service = service(plan).await?;
        let before = Usage::of(&service.server)?;
        let held = stalled(&service.server.address, path).await?;
        settle().await;
        before.print(&service.server, &format!("{STREAMS} unread streams of {path}"))?;
        drop(held);
        service.server.stop().await?;
    }
    let service = service(plan).await?;
    let before = Usage::of(&service.server)?;
    let mut held = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(&service.server.address).await?;
        stream.write_all(&shares::get(service.key(), "/v1/links?limit=100")).await?;
        held.push(stream);
    }
    settle().await;
    before.print(&service.server, "60 unread lists of 1 MB")?;
    drop(held);
    service.server.stop().await?;
    Box::pin(bodies(plan)).await
}

/// The cost of bodies: a list of invalid rows, and forms that are never completed.
async fn bodies(plan: &Plan) -> Result<(), Failure> {
    let service = service(plan).await?;
    let before = Usage::of(&service.server)?;
    let rows = vec!["{}"; 349_520].join(",");
    let request = service.post("/v1/links/bulk", &format!("{{\"links\":[{rows}]}}"));
    for _ in 0..8 {
        load::once(&service.server.address, &request).await?;
    }
    before.print(&service.server, "8 bulk bodies of 349,520 rows")?;
    service.server.stop().await?;

    let service = self::service(plan).await?;
    let key = shown_key(&service).await?;
    let before = Usage::of(&service.server)?;
    let mut held = Vec::new();
    for _ in 0..30 {
        held.push(Box::pin(bodies_over_http2(&service.server.address, &key)).await?);
    }
    settle().await;
    before.print(&service.server, "30 connections of 120 bodies of 64 KB that do not end")?;
    drop(held);
    tokio::time::sleep(Duration::from_secs(10)).await;
    before.print(&service.server, "the same 10 s after they were closed")?;
    service.server.stop().await?;

    for (what, request) in
        [("idle connections", "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"), ("half-sent forms", HALF_SENT)]
    {
        let service = self::service(plan).await?;
        let before = Usage::of(&service.server)?;
        let held = from_addresses(&service.server.address, request).await?;
        settle().await;
        before.print(&service.server, &format!("{} {what} of {ADDRESSES} addresses over HTTP/1", held.len()))?;
        drop(held);
        tokio::time::sleep(Duration::from_secs(10)).await;
        before.print(&service.server, "the same 10 s after they were closed")?;
        service.server.stop().await?;
    }
    Ok(())
}

/// A form without its last bytes.
const HALF_SENT: &str = "POST /v1/auth/callback HTTP/1.1\r\nHost: localhost\r\n\
    Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 4000\r\n\r\nt";
/// Addresses from which connections are opened, and how many from each. Linux answers all of 127.0.0.0/8.
const ADDRESSES: u8 = 8;
const CONNECTIONS_EACH: usize = 1_000;

/// Connections from several addresses that have each sent this.
async fn from_addresses(address: &str, request: &str) -> Result<Vec<TcpStream>, Failure> {
    let mut held = Vec::new();
    for last in (1..=ADDRESSES).flat_map(|last| std::iter::repeat_n(last, CONNECTIONS_EACH)) {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 1, last], 0)))?;
        let mut stream = socket.connect(address.parse()?).await?;
        stream.write_all(request.as_bytes()).await?;
        held.push(stream);
    }
    Ok(held)
}

/// A publishable key: its bodies count as those of unknown callers.
async fn shown_key(service: &Service) -> Result<String, Failure> {
    let domain = r#"{"domain":"bench.localhost"}"#;
    let address = &service.server.address;
    load::once(address, &service.post("/v1/domains", domain)).await?;
    let (status, body) = load::once(address, &service.post("/v1/auth/publishable-keys", domain)).await?;
    let key = body.split('"').find(|part| part.starts_with("pk_")).ok_or_else(|| format!("{status}: {body}"))?;
    Ok(key.to_owned())
}

/// Gives the server time to process the requests.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(3)).await;
}

/// Memory and CPU time at one point in time.
struct Usage {
    memory_mb: f64,
    cpu_seconds: f64,
}

impl Usage {
    fn of(server: &Server) -> Result<Self, Failure> {
        Ok(Self { memory_mb: server.memory_mb()?.0, cpu_seconds: server.cpu_seconds()? })
    }

    fn print(&self, server: &Server, what: &str) -> Result<(), Failure> {
        let (now, most) = server.memory_mb()?;
        let used = server.cpu_seconds()? - self.cpu_seconds;
        println!(
            "shares     {what}: RSS {:+.1} MB (at most {:+.1}) on {:.1}, {used:.2} s of CPU",
            now - self.memory_mb,
            most - self.memory_mb,
            self.memory_mb
        );
        Ok(())
    }
}

/// A connection with answers that are not read: a window of 1 KiB for each stream.
async fn stalled(address: &str, path: &str) -> Result<TcpStream, Failure> {
    let mut out = opening(1_024);
    for nth in 0..STREAMS {
        let mut block = vec![0x82, 0x86];
        literal(&mut block, 4, path);
        literal(&mut block, 1, "localhost");
        literal(&mut block, 16, "br, gzip");
        frame(&mut out, HEADERS, END_HEADERS | END_STREAM, 2 * nth + 1, &block);
    }
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&out).await?;
    Ok(stream)
}

/// A connection with 120 bodies of 64 KB, each without its last byte.
async fn bodies_over_http2(address: &str, key: &str) -> Result<TcpStream, Failure> {
    let mut out = opening(65_535);
    for nth in 0..120 {
        let mut block = vec![0x83, 0x86];
        literal(&mut block, 4, &format!("/v1/lifecycle/click?key={key}"));
        literal(&mut block, 1, "localhost");
        literal(&mut block, 31, "application/json");
        frame(&mut out, HEADERS, END_HEADERS, 2 * nth + 1, &block);
        for _ in 0..4 {
            frame(&mut out, DATA, 0, 2 * nth + 1, &[b'a'; 16_000]);
        }
    }
    let mut stream = TcpStream::connect(address).await?;
    // The server may stop reading, or end the connection: only what it accepted counts.
    let (mut reading, mut writing) = stream.split();
    let read = async {
        let mut ignored = vec![0; 16 << 10];
        while reading.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
    };
    tokio::select! {
        _ = writing.write_all(&out) => {}
        () = read => {}
        () = tokio::time::sleep(Duration::from_secs(2)) => {}
    }
    Ok(stream)
}

/// The client's preface and SETTINGS with this SETTINGS_INITIAL_WINDOW_SIZE (RFC 9113 sections 3.4 and 6.5.2).
fn opening(window: u32) -> Vec<u8> {
    let mut out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let mut setting = vec![0, 4];
    setting.extend(window.to_be_bytes());
    frame(&mut out, SETTINGS, 0, 0, &setting);
    out
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend(&length[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

/// A header with a name of the static table, not indexed, without Huffman coding (RFC 7541 section 6.2.2). Values are shorter
/// than 127 bytes.
fn literal(block: &mut Vec<u8>, name: u8, value: &str) {
    if name < 15 {
        block.push(name);
    } else {
        block.extend([15, name - 15]);
    }
    block.push(u8::try_from(value.len()).unwrap_or(0));
    block.extend(value.as_bytes());
}
