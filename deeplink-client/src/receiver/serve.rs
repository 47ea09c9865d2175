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
use super::{FORWARD_LIMIT, MAX_IN_FLIGHT, Post, Receipt, Target};
use crate::clock;
use crate::webhook::{Error, MAX_BODY, Verifier};

/// Maximum concurrent connections.
const MAX_CONNECTIONS: usize = 4 * MAX_IN_FLIGHT;
/// Time limit for a request's headers, and then for its body. Time spent on the body is taken from the program's.
const READ_LIMIT: Duration = FORWARD_LIMIT;

/// Accepts requests on a port.
#[derive(Debug)]
pub struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
}

/// A running receiver. Dropping it does not stop it; closing or dropping its receipts does.
#[derive(Debug)]
pub struct Serving(JoinHandle<()>);

impl Serving {
    /// Waits until the requests in progress have been answered, at most nine seconds after the receipts were closed or
    /// dropped.
    pub async fn ended(self) {
        // It is never aborted, and its panic was reported already.
        let _ = self.0.await;
    }
}

/// What all connections share.
struct Shared {
    verifier: Verifier,
    forward: Option<(Post, Target)>,
    recent: Recent,
    slots: Semaphore,
    receipts: mpsc::Sender<Receipt>,
}

impl Receiver {
    /// Binds a port; 0 for any free one.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts requests until the receipts are closed or dropped; requests in progress still get a response,
    /// see [`Serving::ended`]. Valid requests are forwarded to the server, if there is one, and its status is returned;
    /// without one, the response is 200. Unsigned requests get a 401 response and are not forwarded.
    pub fn run(self, verifier: Verifier, forward: Option<(Post, Target)>) -> (mpsc::Receiver<Receipt>, Serving) {
        let (receipts, kept) = mpsc::channel(MAX_IN_FLIGHT);
        let shared = Arc::new(Shared {
            verifier,
            forward,
            recent: Recent::default(),
            slots: Semaphore::new(MAX_IN_FLIGHT),
            receipts,
        });
        (kept, Serving(tokio::spawn(serve(self.listener, shared))))
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    accept(listener, &shared, &mut connections).await;
    // The program may have accepted requests in progress: cut off, the sender would send them again.
    let _ = tokio::time::timeout(FORWARD_LIMIT, async { while connections.join_next().await.is_some() {} }).await;
}

async fn accept(listener: TcpListener, shared: &Arc<Shared>, connections: &mut JoinSet<()>) {
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            () = shared.receipts.closed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) if connections.len() < MAX_CONNECTIONS => {
                connections.spawn(serve_connection(stream, Arc::clone(shared)));
            }
            Ok((stream, _)) => refuse_connection(stream),
            // Too many open files, or a client that disconnected: neither lasts.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Answers 503 without blocking: a client that does not read it delays nothing.
fn refuse_connection(stream: TcpStream) {
    const FULL: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(FULL);
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<Shared>) {
    let has_asked = AtomicBool::new(false);
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(READ_LIMIT);
    server.http2().timer(TokioTimer::new()).keep_alive_interval(READ_LIMIT);
    let service = service_fn(|request| {
        has_asked.store(true, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.take(request).await) }
    });
    let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service));
    // hyper's own limits begin once the HTTP version is known; a silent client never gets that far.
    let silence = async {
        tokio::time::sleep(READ_LIMIT).await;
        if has_asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    // Connection errors concern the client only.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = silence => return,
        () = shared.receipts.closed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

type Reply = Response<Full<Bytes>>;

impl Shared {
    async fn take<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let start = Instant::now();
        if request.method() != Method::POST {
            let why = (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "use POST");
            let mut reply = self.refuse(request.headers(), why, start).await;
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            return reply;
        }
        let Ok(_slot) = self.slots.try_acquire() else {
            let mut reply = refusal(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "64 requests are in progress");
            reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return reply;
        };
        let (parts, body) = request.into_parts();
        let why = match tokio::time::timeout(READ_LIMIT, Limited::new(body, MAX_BODY).collect()).await {
            Ok(Ok(body)) => return self.judge(&parts.headers, body.to_bytes(), start.elapsed()).await,
            Ok(Err(why)) if why.is::<LengthLimitError>() => {
                (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", "the body is longer than 1 MiB")
            }
            Ok(Err(_)) => (StatusCode::BAD_REQUEST, "bad_request", "the body was truncated"),
            Err(_) => (StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long"),
        };
        self.refuse(&parts.headers, why, start).await
    }

    /// Refuses a request whose body was not read, with a receipt like any other.
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
            id: claimed_id(&headers),
            is_repeated: false,
            forwarded: None,
            answered: Some(status.as_u16()),
            took: start.elapsed(),
            headers,
        };
        let _ = self.receipts.send(receipt).await;
        refusal(status, code, why)
    }

    /// Verifies, forwards and answers a request; `over` is the time already spent on reading it.
    async fn judge(&self, headers: &HeaderMap, body: Bytes, over: Duration) -> Reply {
        let (at, start) = (clock::now(), Instant::now());
        let headers = signature_headers(headers);
        let verified = self.verifier.verify_both(&headers, &body);
        let is_signed = verified.is_ok();
        let signed_id = verified.as_ref().ok().and_then(|verified| verified.id).map(str::to_owned);
        let event = verified.and_then(|_| Event::parse(&body).map_err(Error::Parse));
        // Only signed ids are remembered: anyone can send others.
        let repeats = |id: &String| is_signed && !self.recent.add(id);
        let claimed = || claimed_id(&headers).filter(|_| !is_signed);
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
            id: id.or_else(claimed),
            is_repeated,
            forwarded,
            answered: Some(status.as_u16()),
            took: start.elapsed(),
            headers,
        };
        // The reader of receipts may be slow: the sender then waits, as with any slow receiver.
        let _ = self.receipts.send(receipt).await;
        reply
    }
}

/// The id in the header, signed or not.
fn claimed_id(headers: &HeaderMap) -> Option<String> {
    headers.get(WEBHOOK_ID)?.to_str().ok().map(str::to_owned)
}

/// The status for the sender: that of the program, or of the error.
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

/// The headers to forward: the signed ones, the test marker and the content type.
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

    /// A receiver, and connections to it that have sent these bytes.
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

    /// All headers of the service are forwarded: the signatures and the test marker.
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

    /// A silent connection ends after the time for a request's headers, even if it starts like HTTP/2.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_asks_nothing_ends() {
        for said in ["", "P", "PRI * HTT", "POST / HTTP/1.1\r\n"] {
            let start = Instant::now();
            let (mut streams, _, _receipts) = connected(1, said.as_bytes()).await;
            // What it is answered, if anything, is up to hyper.
            let _ = streams[0].read_to_end(&mut Vec::new()).await;
            let took = start.elapsed();
            assert!((READ_LIMIT..READ_LIMIT + Duration::from_secs(1)).contains(&took), "{said:?}: {took:?}");
        }
    }

    /// A connection beyond the limit is refused with 503.
    #[tokio::test]
    async fn one_connection_too_many_is_turned_away_with_a_word() {
        let (_streams, address, _receipts) = connected(MAX_CONNECTIONS, b"").await;
        let mut late = TcpStream::connect(address).await.expect("a connection");
        let mut answer = String::new();
        late.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: 1"), "{answer}");
    }

    /// The service hangs up after ten seconds, however much of that the body took.
    #[tokio::test(start_paused = true)]
    async fn a_slow_body_and_a_silent_program_share_the_limit() {
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let to = format!("http://{}/", silent.local_addr().expect("an address")).parse().expect("a target");
        let verifier = verifier();
        let (receipts, mut kept) = mpsc::channel(1);
        let shared = Shared {
            verifier: verifier.clone(),
            forward: Some((Post::new(FORWARD_LIMIT, &[]).expect("a client"), to)),
            recent: Recent::default(),
            slots: Semaphore::new(1),
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
        let reply = shared.take(request).await;
        assert_eq!((reply.status(), start.elapsed().as_secs()), (StatusCode::GATEWAY_TIMEOUT, FORWARD_LIMIT.as_secs()));
        assert!(kept.recv().await.expect("a receipt").is_valid());
    }
}
