//! The listening end: HTTP/1.1 and HTTP/2 on a port of this machine.

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use deeplink_core::event::Event;
use deeplink_core::signature::{SERVICE_SIGNATURE, SERVICE_TEST, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::recent::Recent;
use super::{FORWARD_LIMIT, MOST_IN_HAND, Post, Receipt, Target};
use crate::clock;
use crate::webhook::{Error, MAX_BODY, Verifier};

/// Connections at one time.
const MOST_CONNECTIONS: usize = 4 * MOST_IN_HAND;
/// Longest that a request's headers may take to come, and then its body. What the body took, the program behind has not.
const READ_LIMIT: Duration = FORWARD_LIMIT;

/// Takes requests on a port.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
}

/// A receiver that runs. Dropped, it runs on until its receipts are closed or dropped too.
#[derive(Debug)]
pub struct Serving(JoinHandle<()>);

impl Serving {
    /// Waits until the requests in hand are answered, which is at most nine seconds after the receipts were closed or dropped.
    pub async fn ended(self) {
        // It is never aborted, and a panic of it has been told already.
        let _ = self.0.await;
    }
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

    /// Takes requests until the receipts are closed or dropped; what is in hand then is still answered, see
    /// [`Serving::ended`]. Those that are believed go to the program behind, if there is one, and its status goes back;
    /// without one they are answered 200. What is not believed is answered 401 and goes nowhere.
    pub fn run(self, verifier: Verifier, forward: Option<(Post, Target)>) -> (mpsc::Receiver<Receipt>, Serving) {
        let (receipts, kept) = mpsc::channel(MOST_IN_HAND);
        let desk = Arc::new(Desk {
            verifier,
            forward,
            recent: Recent::default(),
            hands: Semaphore::new(MOST_IN_HAND),
            receipts,
        });
        (kept, Serving(tokio::spawn(serve(self.listener, desk))))
    }
}

async fn serve(listener: TcpListener, desk: Arc<Desk>) {
    let mut connections = JoinSet::new();
    accept(listener, &desk, &mut connections).await;
    // The program behind may have taken what is in hand: cut off, the sender would send it again.
    let _ = tokio::time::timeout(FORWARD_LIMIT, async { while connections.join_next().await.is_some() {} }).await;
}

async fn accept(listener: TcpListener, desk: &Arc<Desk>, connections: &mut JoinSet<()>) {
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = desk.receipts.closed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if connections.len() < MOST_CONNECTIONS => {
                connections.spawn(talk(stream, Arc::clone(desk)));
            }
            Ok((stream, _)) => turn_away(stream),
            // Too many open files, or a caller who left: neither lasts.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Says that there are too many connections, as far as that goes at once: whoever does not read it holds nothing up.
fn turn_away(stream: TcpStream) {
    const FULL: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(FULL);
    }
}

async fn talk(stream: TcpStream, desk: Arc<Desk>) {
    let has_asked = AtomicBool::new(false);
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(READ_LIMIT);
    server.http2().timer(TokioTimer::new()).keep_alive_interval(READ_LIMIT);
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(desk.take(request).await) }
    });
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    // hyper's own limits begin once it is known which HTTP is spoken, which one who says nothing leaves open.
    let silence = async {
        tokio::time::sleep(READ_LIMIT).await;
        if has_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    // How a connection ends is its caller's affair.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = silence => return,
        () = desk.receipts.closed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

type Reply = Response<Full<Bytes>>;

impl Desk {
    async fn take<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let start = Instant::now();
        if request.method() != Method::POST {
            let why = (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "events are posted");
            let mut reply = self.refuse(request.headers(), why, start).await;
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return reply;
        }
        let Ok(_hand) = self.hands.try_acquire() else {
            let mut reply = refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "64 requests are in hand");
            reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return reply;
        };
        let (parts, body) = request.into_parts();
        let why = match tokio::time::timeout(READ_LIMIT, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => return self.judge(&parts.headers, body.to_bytes(), start.elapsed()).await,
            Ok(Err(why)) if why.is::<LengthLimitError>() => {
                (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "the body is longer than 1 MiB")
            }
            Ok(Err(_)) => (StatusCode::BAD_REQUEST, "bad_request", "the body broke off"),
            Err(_) => (StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long"),
        };
        self.refuse(&parts.headers, why, start).await
    }

    /// Answers a request of which no body was read, and tells of it like of any other.
    async fn refuse(
        &self,
        headers: &HeaderMap,
        (status, code, why): (StatusCode, &'static str, &'static str),
        start: Instant,
    ) -> Reply {
        let headers = signature_headers(headers);
        let receipt = Receipt {
            at: clock::now(),
            body: Bytes::new(),
            event: Err(Error::Missing),
            refused: Some(why),
            id: told_id(&headers),
            is_repeated: false,
            forwarded: None,
            answered: Some(status.as_u16()),
            took: start.elapsed(),
            headers,
        };
        let _ = self.receipts.send(receipt).await;
        refusal(status, code, why)
    }

    /// Answers a request that took so long to come.
    async fn judge(&self, headers: &HeaderMap, body: Bytes, over: Duration) -> Reply {
        let (at, start) = (clock::now(), Instant::now());
        let headers = signature_headers(headers);
        let verified = self.verifier.verify_both(&headers, &body);
        let is_signed = verified.is_ok();
        let signed_id = verified.as_ref().ok().and_then(|verified| verified.id).map(str::to_owned);
        let event = verified.and_then(|_| Event::parse(&body).map_err(Error::Parse));
        // Only what is signed is remembered: everything else is anybody's.
        let repeats = |id: &String| is_signed && !self.recent.add(id);
        let told = || told_id(&headers).filter(|_| !is_signed);
        let id = signed_id.or_else(|| event.as_ref().ok()?.event_id().map(|id| id.as_str().to_owned()));
        let is_repeated = id.as_ref().is_some_and(repeats);
        let forwarded = match (&self.forward, &event) {
            (Some((post, to)), Ok(_)) => Some(post.send_after(over, to, &headers, &body).await),
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
            refused: None,
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

/// The id that somebody wrote there, signed or not.
fn told_id(headers: &HeaderMap) -> Option<String> {
    headers.get(WEBHOOK_ID)?.to_str().ok().map(str::to_owned)
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

/// What goes on to the program behind: nothing else of the request is signed or needed, but for whether it is made up.
fn signature_headers(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in [SERVICE_SIGNATURE, SERVICE_TEST, WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, "content-type"] {
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

#[cfg(test)]
mod tests {
    use deeplink_core::event::EventKind;
    use deeplink_core::event::sample::sample;
    use futures_util::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::webhook::WebhookSecret;

    fn verifier() -> Verifier {
        Verifier::new([WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]).expect("a secret")
    }

    /// A receiver, and connections to it that have said this much.
    async fn connected(count: usize, said: &[u8]) -> (Vec<TcpStream>, SocketAddr, mpsc::Receiver<Receipt>) {
        let receiver = Receiver::bind("127.0.0.1:0".parse().expect("an address")).await.expect("a port");
        let address = receiver.address();
        let (receipts, _) = receiver.run(verifier(), None);
        let mut streams = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(said).await.expect("written");
            streams.push(stream);
        }
        (streams, address, receipts)
    }

    /// What goes on says all that the service said: the signatures, and that an event is made up.
    #[test]
    fn what_goes_on_says_what_the_service_said() {
        let mut headers = HeaderMap::new();
        for name in ["x-service-signature", "x-service-test", "webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, HeaderValue::from_static("true"));
        }
        let said = headers.clone();
        headers.insert("cookie", HeaderValue::from_static("x=1"));
        assert_eq!(signature_headers(&headers), said);
    }

    /// Whoever never asks anything is not waited for longer than a request's headers are, even if it begins like HTTP/2.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asks_nothing_ends() {
        for said in ["", "P", "PRI * HTT", "POST / HTTP/1.1\r\n"] {
            let start = Instant::now();
            let (mut streams, _, _receipts) = connected(1, said.as_bytes()).await;
            // What it is told, if anything, is hyper's affair.
            let _ = streams[0].read_to_end(&mut Vec::new()).await;
            let took = start.elapsed();
            assert!((READ_LIMIT..READ_LIMIT + Duration::from_secs(1)).contains(&took), "{said:?}: {took:?}");
        }
    }

    /// Who finds all connections taken is told so.
    #[tokio::test]
    async fn one_connection_too_many_is_turned_away_with_a_word() {
        let (_streams, address, _receipts) = connected(MOST_CONNECTIONS, b"").await;
        let mut late = TcpStream::connect(address).await.expect("a connection");
        let mut told = String::new();
        late.read_to_string(&mut told).await.expect("an answer");
        assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("Retry-After: 1"), "{told}");
    }

    /// The service hangs up after ten seconds, whatever of them the body took.
    #[tokio::test(start_paused = true)]
    async fn a_slow_body_and_a_silent_program_share_the_limit() {
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let to = format!("http://{}/", silent.local_addr().expect("an address")).parse().expect("a target");
        let verifier = verifier();
        let (receipts, mut kept) = mpsc::channel(1);
        let desk = Desk {
            verifier: verifier.clone(),
            forward: Some((Post::new(FORWARD_LIMIT, &[]).expect("a client"), to)),
            recent: Recent::default(),
            hands: Semaphore::new(1),
            receipts,
        };
        let body = Bytes::from(sample(&EventKind::Click, 1).expect("a sample").raw);
        let headers = verifier.sign(&body, "evt_1", clock::now()).expect("headers");
        let late = stream::once(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok::<_, Infallible>(Frame::data(body))
        });
        let mut request = Request::post("/").body(StreamBody::new(late)).expect("a request");
        *request.headers_mut() = headers;
        let start = Instant::now();
        let reply = desk.take(request).await;
        assert_eq!((reply.status(), start.elapsed().as_secs()), (StatusCode::GATEWAY_TIMEOUT, FORWARD_LIMIT.as_secs()));
        assert!(kept.recv().await.expect("a receipt").is_valid());
    }
}
