//! The listener on real sockets, spoken to in raw bytes.

mod bodies;
mod capacity;
mod commands;
mod connections;
mod deadlines;
mod framing;
mod http2;
mod shares;
mod stopping;
mod tls;
mod turns;
mod unread;

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::id::TenantId;
use http::header::{ALLOW, CONTENT_LENGTH, LOCATION};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::shares::accounts::AccountBytes;

use super::{BodyError, Limits, Listeners, RequestBody, Stop, StrangersLimits, Unread, bind, is_refused_method, serve};

/// A limit may be enforced this late.
const LATE: Duration = Duration::from_secs(1);
/// Longer than anything takes that has no limit itself, even on a busy machine.
const MOMENT: Duration = Duration::from_secs(30);

/// When this process was not given the processor, and for how long.
static STALLS: Mutex<Vec<(Instant, Duration)>> = Mutex::new(Vec::new());

/// Notes every short sleep that became a long one.
async fn note_stalls() {
    const SHORT: Duration = Duration::from_millis(5);
    loop {
        let began = Instant::now();
        sleep(SHORT).await;
        let over = began.elapsed().saturating_sub(SHORT);
        if over > Duration::from_millis(20) {
            STALLS.lock().unwrap().push((Instant::now(), over));
        }
    }
}

/// How long this process was stalled within this time, and a moment before.
fn stalled(within: Duration) -> Duration {
    let stalls = STALLS.lock().unwrap();
    stalls.iter().filter(|(at, _)| at.elapsed() <= within + LATE).map(|(_, over)| over).sum()
}

/// The real limits, about ten times shorter.
fn limits() -> Limits {
    Limits {
        connections: 1_000,
        first_byte: Duration::from_millis(500),
        head: Duration::from_secs(1),
        body_idle: Duration::from_millis(700),
        body_total: Duration::from_millis(1_500),
        write_stall: Duration::from_secs(1),
        keep_alive_idle: Duration::from_millis(1_200),
        drain: Duration::from_secs(2),
        ..Limits::default().without_shares()
    }
}

/// A listener with a few made-up routes, and what it has seen.
struct Server {
    address: SocketAddr,
    stop: watch::Sender<Stop>,
    serving: JoinHandle<usize>,
    seen: Arc<Seen>,
}

struct Seen {
    open: AtomicUsize,
    paths: Mutex<Vec<String>>,
    /// Lets one request to `/held` be answered.
    go: Notify,
    accounts: Arc<AccountBytes>,
}

/// The account of callers that are known.
fn tenant() -> TenantId {
    "tnt_0123456789abcdef01234567".parse().unwrap()
}

impl Server {
    fn start(limits: Limits) -> Self {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        Self::on(address, listener.into(), limits)
    }

    /// With the address of one of the listeners.
    fn on(address: SocketAddr, listeners: Listeners, limits: Limits) -> Self {
        tokio::spawn(note_stalls());
        let (stop, asked) = watch::channel(Stop::Not);
        let (open, paths, go) = (AtomicUsize::new(0), Mutex::default(), Notify::new());
        let seen = Arc::new(Seen { open, paths, go, accounts: AccountBytes::of_requests() });
        let large = Bytes::from(vec![b'x'; 32 << 20]);
        let probes = Arc::clone(&seen);
        let make = move |peer: SocketAddr, _: Unread| {
            assert!(peer.ip().is_loopback());
            probes.open.fetch_add(1, Ordering::SeqCst);
            Probe { seen: Arc::clone(&probes), large: large.clone() }
        };
        Self { address, stop, serving: tokio::spawn(serve(listeners, limits, asked, make)), seen }
    }

    /// Connects and sends something.
    async fn send(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes.as_ref()).await.unwrap();
        stream
    }

    fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    fn paths(&self) -> Vec<String> {
        self.seen.paths.lock().unwrap().clone()
    }

    /// Waits until `count` connections are open.
    async fn until_open(&self, count: usize) {
        self.until(&format!("{count} are open"), || self.open() == count).await;
    }

    /// Waits until `count` requests have come.
    async fn until_asked(&self, count: usize) {
        self.until(&format!("{count} requests have come"), || self.paths().len() == count).await;
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let reached = async {
            while !is_so() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let seen = || format!("{} are open, {} requests have come", self.open(), self.paths().len());
        assert!(timeout(MOMENT, reached).await.is_ok(), "never: {what}; {}", seen());
    }
}

/// The service of one connection; it lives as long as the connection.
struct Probe {
    seen: Arc<Seen>,
    large: Bytes,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.seen.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl hyper::service::Service<Request<RequestBody>> for Probe {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<RequestBody>) -> Self::Future {
        let (seen, large) = (Arc::clone(&self.seen), self.large.clone());
        Box::pin(async move {
            seen.paths.lock().unwrap().push(request.uri().to_string());
            Ok(answer(request, &seen, large).await)
        })
    }
}

async fn answer(request: Request<RequestBody>, seen: &Seen, large: Bytes) -> Response<Full<Bytes>> {
    let text = |status, text: String| {
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response
    };
    if is_refused_method(request.method()) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, String::new());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    match request.uri().path() {
        "/read" => match request.into_body().collect().await {
            Ok(body) => text(StatusCode::OK, format!("read {}", body.to_bytes().len())),
            Err(BodyError::TimedOut) => text(StatusCode::REQUEST_TIMEOUT, String::new()),
            Err(BodyError::Broken(_)) => text(StatusCode::BAD_REQUEST, String::new()),
        },
        "/known-and-read" => {
            let limits = request.extensions().get::<StrangersLimits>().unwrap();
            limits.lift(&seen.accounts, &(&tenant()).into()).unwrap();
            seen.paths.lock().unwrap().push("lifted".to_owned());
            let body = request.into_body().collect().await.unwrap();
            text(StatusCode::OK, format!("read {}", body.to_bytes().len()))
        }
        "/read-and-hang" => {
            drop(request.into_body().collect().await);
            seen.paths.lock().unwrap().push("read".to_owned());
            pending().await
        }
        "/large" => Response::new(Full::from(large)),
        "/slow" => {
            sleep(Duration::from_millis(500)).await;
            text(StatusCode::OK, "slow".to_owned())
        }
        "/held" => {
            seen.go.notified().await;
            text(StatusCode::OK, "held".to_owned())
        }
        "/hang" => pending().await,
        "/known" => {
            let limits = request.extensions().get::<StrangersLimits>();
            let lifted = limits.map(|limits| limits.lift(&seen.accounts, &(&tenant()).into()));
            let said = match lifted {
                None => "no limits",
                Some(Ok(())) => "lifted",
                Some(Err(_)) => "refused",
            };
            text(StatusCode::OK, said.to_owned())
        }
        _ => {
            let mut response = text(StatusCode::FOUND, String::new());
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("https://example.com/"));
            response
        }
    }
}

/// The head and the body of the next answer.
async fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let read = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("an answer, not the end of the connection"));
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let mut lines = head.lines();
        let length = lines.find_map(|line| line.strip_prefix(&format!("{CONTENT_LENGTH}: ")));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await.unwrap();
        (head, String::from_utf8(body).unwrap())
    };
    timeout(MOMENT, read).await.expect("an answer in time")
}

/// Everything until the connection ends, and how long that took.
async fn read_to_end(mut stream: impl AsyncReadExt + Unpin) -> (String, Duration) {
    let began = Instant::now();
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = timeout(4 * MOMENT, stream.read_to_end(&mut bytes)).await.expect("an end of the connection");
    (String::from_utf8_lossy(&bytes).into_owned(), began.elapsed())
}

/// Whether this took at most the limit and what enforcing it may add. While the process is stalled its limits pause,
/// and afterwards it has much to catch up on.
fn is_in_time(after: Duration, limit: Duration) -> bool {
    after <= limit + LATE + 2 * stalled(after)
}

#[track_caller]
fn assert_ended(what: &str, after: Duration, limit: Duration) {
    // If the clock was read late at the start, less time was seen.
    let seen = after + Duration::from_millis(20) + stalled(after);
    assert!(seen >= limit, "{what}: closed after {after:?}, before {limit:?}");
    assert!(is_in_time(after, limit), "{what}: closed after {after:?}, not {limit:?}");
}
