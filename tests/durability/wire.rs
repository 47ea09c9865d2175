//! One keep-alive connection, and the exact outcome of each request: a client library that retries by itself would hide
//! what these tests look for.

use std::fmt::Write;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use deeplink_doubles::wait::PATIENCE;

/// A stopping server waits a little longer than this before it closes an idle connection.
const MAY_BE_CLOSED: Duration = Duration::from_millis(250);

/// A request, kept so that it can be repeated exactly.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: &'static str,
    path: String,
    headers: String,
    body: String,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: String::new(), body: String::new() }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        write!(self.headers, "{name}: {value}\r\n").expect("a string can be written to");
        self
    }

    pub(crate) fn json(mut self, body: &serde_json::Value) -> Self {
        self.body = body.to_string();
        self.header("content-type", "application/json")
    }

    /// The whole request as bytes.
    pub(crate) fn bytes(&self, host: SocketAddr) -> Vec<u8> {
        let Self { method, path, headers, body } = self;
        let length = if matches!(*method, "POST" | "PUT") {
            format!("content-length: {}\r\n", body.len())
        } else {
            String::new()
        };
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{headers}{length}\r\n{body}").into_bytes()
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Fate {
    Answered(Answer),
    /// It was sent, at least in part, and the connection ended before the whole answer arrived.
    Cut(String),
    /// It was not received: no connection could be made, or a new or idle one was closed before any answer.
    TurnedAway,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

/// A connection to a server, made when it is needed.
pub(crate) struct Wire {
    address: SocketAddr,
    socket: Option<BufReader<TcpStream>>,
    /// Since when it has been idle.
    idle_since: Instant,
    /// How long the last request took.
    pub(crate) took: Duration,
}

impl Wire {
    pub(crate) fn to(address: SocketAddr) -> Self {
        Self { address, socket: None, idle_since: Instant::now(), took: Duration::ZERO }
    }

    /// Repeats a request while the server says that it was not applied, as it may on a disk that stalls.
    pub(crate) async fn send_until_taken(&mut self, request: &Request) -> Fate {
        let began = Instant::now();
        loop {
            match self.send(request).await {
                Fate::Answered(answer) if answer.status == 503 && began.elapsed() < PATIENCE => {
                    sleep(Duration::from_millis(50)).await;
                }
                fate => return fate,
            }
        }
    }

    /// Sends a request once and waits for its outcome.
    pub(crate) async fn send(&mut self, request: &Request) -> Fate {
        let (mut socket, is_new) = match self.socket.take() {
            Some(socket) if is_closed(&socket) => return Fate::TurnedAway,
            Some(socket) => (socket, false),
            None => match TcpStream::connect(self.address).await {
                Ok(socket) => {
                    socket.set_nodelay(true).expect("the socket takes options");
                    (BufReader::new(socket), true)
                }
                Err(_) => return Fate::TurnedAway,
            },
        };
        let began = Instant::now();
        let (mut left_at, mut has_begun) = (None, false);
        let exchange = async {
            let written = socket.get_mut().write_all(&request.bytes(self.address)).await;
            left_at = Some(Instant::now());
            written?;
            has_begun = !socket.fill_buf().await?.is_empty();
            read_answer(&mut socket).await
        };
        let outcome = timeout(PATIENCE, exchange).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("no answer within {PATIENCE:?}: {request:?}"));
        self.took = began.elapsed();
        let idle = left_at.unwrap_or(began).duration_since(std::mem::replace(&mut self.idle_since, Instant::now()));
        match outcome {
            Ok(answer) => {
                if answer.header("connection") != Some("close") {
                    self.socket = Some(socket);
                }
                Fate::Answered(answer)
            }
            Err(_) if !has_begun && (is_new || idle >= MAY_BE_CLOSED) => Fate::TurnedAway,
            Err(error) => Fate::Cut(error.to_string()),
        }
    }
}

/// Whether the server has closed a connection already, as it may between two requests.
fn is_closed(socket: &BufReader<TcpStream>) -> bool {
    // Asks the system, since the runtime may not have noticed yet.
    let socket = socket.get_ref().as_fd().try_clone_to_owned().map(std::net::TcpStream::from);
    matches!(socket.expect("the same socket").peek(&mut [0]), Ok(0))
}

async fn read_answer(socket: &mut BufReader<TcpStream>) -> std::io::Result<Answer> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if socket.read_line(&mut head).await? == 0 {
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, format!("after {head:?}")));
        }
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut answer = Answer { status, head, body: String::new() };
    let length = answer.header("content-length").map_or(0, |length| length.parse().expect("a length"));
    assert!(answer.header("transfer-encoding").is_none(), "answers here have a length: {}", answer.head);
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await?;
    answer.body = String::from_utf8(body).expect("text");
    Ok(answer)
}
