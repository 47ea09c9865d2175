//! The listening end: HTTP/1.1 and HTTP/2 on a port of this machine.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use deeplink_core::event::Event;
use deeplink_core::signature::{SERVICE_SIGNATURE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::recent::Recent;
use super::{MOST_IN_HAND, Post, Receipt, Target};
use crate::clock;
use crate::webhook::{Error, MAX_BODY, Verifier};

/// Connections at one time.
const MOST_CONNECTIONS: usize = 4 * MOST_IN_HAND;
/// Longest that a request's headers, and then its body, may take to come.
const READ_LIMIT: Duration = Duration::from_secs(9);

/// Takes requests on a port.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
}

/// What every request meets.
struct Desk {
    verifier: Verifier,
    forward: Option<(Post, Target)>,
    recent: Recent,
    hands: Semaphore,
    receipts: mpsc::Sender<Receipt>,
}

impl Receiver {
    /// Takes a port; 0 is any free one.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes requests until the receipts are dropped. Those that are believed go to the program behind, if there is one, and
    /// its status goes back; without one they are answered 200. What is not believed is answered 401 and goes nowhere.
    pub fn run(self, verifier: Verifier, forward: Option<(Post, Target)>) -> mpsc::Receiver<Receipt> {
        let (receipts, kept) = mpsc::channel(MOST_IN_HAND);
        let desk = Arc::new(Desk {
            verifier,
            forward,
            recent: Recent::default(),
            hands: Semaphore::new(MOST_IN_HAND),
            receipts,
        });
        tokio::spawn(accept(self.listener, desk));
        kept
    }
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = desk.receipts.closed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if connections.len() < MOST_CONNECTIONS => {
                connections.spawn(talk(stream, Arc::clone(&desk)));
            }
            Ok(_) => {}
            // Too many open files, or a caller who left: neither lasts.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn talk(stream: tokio::net::TcpStream, desk: Arc<Desk>) {
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(READ_LIMIT);
    server.http2().timer(TokioTimer::new()).keep_alive_interval(READ_LIMIT);
    let service = service_fn(move |request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(desk.take(request).await) }
    });
    // How a connection ends is its caller's affair.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

type Reply = Response<Full<Bytes>>;

impl Desk {
    async fn take(&self, request: Request<Incoming>) -> Reply {
        if request.method() != Method::POST {
            let mut reply = refusal(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "events are posted");
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return reply;
        }
        let Ok(_hand) = self.hands.try_acquire() else {
            let mut reply = refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "64 requests are in hand");
            reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return reply;
        };
        let (parts, body) = request.into_parts();
        let body = match tokio::time::timeout(READ_LIMIT, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(why)) if why.is::<LengthLimitError>() => {
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "the body is longer than 1 MiB");
            }
            Ok(Err(_)) => return refusal(StatusCode::BAD_REQUEST, "bad_request", "the body broke off"),
            Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long"),
        };
        self.judge(&parts.headers, body).await
    }

    async fn judge(&self, headers: &HeaderMap, body: Bytes) -> Reply {
        let (at, start) = (clock::now(), Instant::now());
        let headers = signature_headers(headers);
        let verified = self.verifier.verify(&headers, &body);
        let is_signed = verified.is_ok();
        let signed_id = verified.as_ref().ok().and_then(|verified| verified.id).map(str::to_owned);
        let event = verified.and_then(|_| Event::parse(&body).map_err(Error::Parse));
        // Only what is signed is remembered: everything else is anybody's.
        let repeats = |id: &String| is_signed && !self.recent.add(id);
        let told = || headers.get(WEBHOOK_ID)?.to_str().ok().map(str::to_owned);
        let id = signed_id.or_else(|| event.as_ref().ok()?.event_id().map(|id| id.as_str().to_owned()));
        let is_repeated = id.as_ref().is_some_and(repeats);
        let forwarded = match (&self.forward, &event) {
            (Some((post, to)), Ok(_)) => Some(post.send(to, &headers, &body).await),
            _ => None,
        };
        let status = answer(&event, forwarded.as_ref());
        let reply = match &event {
            Ok(_) => plain(status),
            Err(why) => refusal(status, code(why), &why.to_string()),
        };
        let receipt = Receipt {
            at,
            body,
            event,
            id: id.or_else(told),
            is_repeated,
            forwarded,
            answered: Some(status.as_u16()),
            took: start.elapsed(),
            headers,
        };
        // Whoever reads the receipts may be slow: the sender waits, which is what it would meet at a slow receiver.
        let _ = self.receipts.send(receipt).await;
        reply
    }
}

/// What the sender gets: the status of the program behind, or what is wrong with the request.
fn answer(event: &Result<Event, Error>, forwarded: Option<&Result<super::Answer, super::Fault>>) -> StatusCode {
    match (event, forwarded) {
        (Ok(_), None) => StatusCode::OK,
        (Ok(_), Some(Ok(answer))) => StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY),
        (Ok(_), Some(Err(fault))) if fault.is_timeout => StatusCode::GATEWAY_TIMEOUT,
        (Ok(_), Some(Err(_))) => StatusCode::BAD_GATEWAY,
        (Err(Error::Parse(_)), _) => StatusCode::BAD_REQUEST,
        (Err(_), _) => StatusCode::UNAUTHORIZED,
    }
}

fn code(why: &Error) -> &'static str {
    if matches!(why, Error::Parse(_)) { "invalid_event" } else { "invalid_signature" }
}

/// What goes on to the program behind: nothing else of the request is signed or needed.
fn signature_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in [SERVICE_SIGNATURE, WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, "content-type"] {
        let name = http::HeaderName::from_static(name);
        for value in headers.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

fn plain(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = status;
    reply
}

fn refusal(status: StatusCode, code: &'static str, error: &str) -> Reply {
    let body = serde_json::json!({ "error": error, "code": code }).to_string();
    let mut reply = Response::new(Full::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}
