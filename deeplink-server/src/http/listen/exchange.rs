//! One request and its answer: tells the connection's watch when each begins and ends, refuses what is framed
//! ambiguously, and bounds the time a body may take.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use super::framing::{self, Coding, Trust};
use super::watch::Watch;

/// Header lines a request may have; over HTTP/1 the parser refuses more by itself.
const MAX_HEADERS: usize = 100;

/// The caller's service, as one connection uses it.
pub(super) struct Exchanges<S> {
    service: S,
    watch: Arc<Watch>,
}

impl<S> Exchanges<S> {
    pub(super) fn new(service: S, watch: Arc<Watch>) -> Self {
        Self { service, watch }
    }

    /// Which answer the framing of this request deserves by itself, and whether nothing behind it may be read: then
    /// nothing that follows can pass for another request.
    fn judge(&self, request: &Request<Incoming>) -> (Option<StatusCode>, bool) {
        let headers = request.headers();
        let trust = self.watch.trust();
        if headers.len() > MAX_HEADERS {
            return (Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE), true);
        }
        if trust == Trust::Doubtful {
            return (Some(StatusCode::BAD_REQUEST), true);
        }
        // A request with a coding is never at its end with its head, whatever the coding.
        if request.body().is_end_stream() {
            return (None, false);
        }
        match framing::coding(headers) {
            Coding::None => (None, trust == Trust::Unread),
            Coding::Chunked => (None, true),
            Coding::Other => (Some(StatusCode::BAD_REQUEST), true),
        }
    }
}

impl<S, B> Service<Request<Incoming>> for Exchanges<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes> + Unpin,
{
    type Response = Response<Reply<B>>;
    type Error = Infallible;
    type Future = Answer<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let exchange = Exchange::begin(&self.watch);
        let (refusal, last) = self.judge(&request);
        let coming = match refusal {
            Some(_) => None,
            None => Some(self.service.call(request.map(|body| RequestBody::new(body, &self.watch)))),
        };
        Answer { coming, refusal: refusal.unwrap_or_default(), last, exchange: Some(exchange) }
    }
}

/// Counts as a request in progress until it is dropped.
#[derive(Debug)]
struct Exchange {
    watch: Arc<Watch>,
    answered: bool,
}

impl Exchange {
    fn begin(watch: &Arc<Watch>) -> Self {
        watch.begin_exchange();
        Self { watch: Arc::clone(watch), answered: false }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.watch.answered(self.answered);
        self.watch.end_exchange();
    }
}

pin_project! {
    /// The answer on its way from the caller's service.
    pub(super) struct Answer<F> {
        #[pin]
        coming: Option<F>,
        refusal: StatusCode,
        last: bool,
        exchange: Option<Exchange>,
    }
}

impl<F, B> Future for Answer<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<Reply<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let me = self.project();
        let answer = match me.coming.as_pin_mut() {
            Some(coming) => Some(ready!(coming.poll(cx))?),
            None => None,
        };
        let mut exchange = me.exchange.take();
        if let Some(exchange) = &mut exchange {
            exchange.answered = true;
            *me.last |= exchange.watch.is_closing();
        }
        let mut response = match answer {
            Some(answer) => answer.map(|body| Reply { body: Some(body), exchange }),
            None => refused(*me.refusal, exchange),
        };
        if *me.last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(response))
    }
}

fn refused<B>(status: StatusCode, exchange: Option<Exchange>) -> Response<Reply<B>> {
    let mut response = Response::new(Reply { body: None, exchange });
    *response.status_mut() = status;
    response
}

/// The body of an answer. The exchange ends with it.
#[derive(Debug)]
pub(super) struct Reply<B> {
    body: Option<B>,
    exchange: Option<Exchange>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Reply<B> {
    type Data = Piece;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        Poll::Ready(
            frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| Piece::new(bytes, self.exchange.as_ref())))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// Bytes of an answer. Over HTTP/2 a client can stop one answer while the connection itself flows, so the watch is
/// told when they move; over HTTP/1 the socket tells it.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    watch: Option<Arc<Watch>>,
}

impl Piece {
    fn new(bytes: Bytes, exchange: Option<&Exchange>) -> Self {
        let watch = exchange.map(|exchange| &exchange.watch).filter(|watch| watch.speaks_http2()).cloned();
        if let Some(watch) = &watch {
            watch.piece_made();
        }
        Self { bytes, watch }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(watch) = &self.watch {
            watch.piece_moved();
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.piece_sent();
        }
    }
}

/// The body of a request, which fails when it is not delivered in time. Only time spent waiting for the client
/// counts, so a handler may take as long as it likes between two pieces.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    /// Absent for a request without a body.
    watch: Option<Arc<Watch>>,
    wait: Option<Box<Wait>>,
}

/// Why a request body could not be read to its end.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The client stopped sending, or sent too slowly.
    #[error("the request body did not arrive in time")]
    TimedOut,
    /// The client went away or sent something that is no body.
    #[error("the request body could not be read")]
    Broken(#[source] hyper::Error),
}

/// The time spent waiting for a body; only a body that does not come with its head has one.
#[derive(Debug)]
struct Wait {
    sleep: Pin<Box<Sleep>>,
    /// When the whole body has to be here.
    end: Instant,
    /// The next piece has been asked for.
    asked: bool,
}

impl Wait {
    fn new(total: Duration) -> Self {
        let end = Instant::now() + total;
        Self { sleep: Box::pin(sleep_until(end)), end, asked: false }
    }

    /// Completes when the client has used up its time.
    fn poll_over(&mut self, idle: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if !self.asked {
            self.asked = true;
            self.sleep.as_mut().reset((Instant::now() + idle).min(self.end));
        }
        self.sleep.as_mut().poll(cx)
    }
}

impl RequestBody {
    fn new(incoming: Incoming, watch: &Arc<Watch>) -> Self {
        let watch = (!incoming.is_end_stream()).then(|| Arc::clone(watch));
        Self { incoming, watch, wait: None }
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let Some(watch) = &self.watch else { return Poll::Pending };
        let wait = self.wait.get_or_insert_with(|| Box::new(Wait::new(watch.limits().body_total)));
        ready!(wait.poll_over(watch.limits().body_idle, cx));
        watch.is_slow();
        Poll::Ready(BodyError::TimedOut)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(wait) = &mut self.wait {
                    wait.asked = false;
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Broken)))
            }
            Poll::Pending => self.poll_late(cx).map(|late| Some(Err(late))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
