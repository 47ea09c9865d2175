//! One request and its response: reports their start and end to the connection's state, and refuses ambiguous framing.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use super::Excess;
use super::body::RequestBody;
use super::deadline::lock;
use super::framing::{self, Coding, Framing};
use super::state::{ConnectionState, Pool};
use crate::shares::accounts::{AccountBytes, Holder};

/// Bytes of an HTTP/2 request that was answered and whose response is not read: its stream and its headers.
const ANSWERED_BYTES: usize = 4 << 10;
/// Maximum header lines of a request; over HTTP/1 the parser enforces the same.
const MAX_HEADERS: usize = 100;

/// Wraps the application's service for one connection.
pub(super) struct Exchanges<S> {
    service: Arc<S>,
    state: Arc<ConnectionState>,
}

impl<S> Exchanges<S> {
    pub(super) fn new(service: S, state: Arc<ConnectionState>) -> Self {
        Self { service: Arc::new(service), state }
    }

    /// The refusal of a request by its framing, and whether the connection ends with it, so that nothing that follows can
    /// pass for another request.
    fn check_framing(&self, request: &Request<Incoming>) -> (Option<StatusCode>, bool) {
        let headers = request.headers();
        let framing = self.state.framing();
        if headers.len() > MAX_HEADERS {
            return (Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE), true);
        }
        if framing == Framing::Ambiguous {
            return (Some(StatusCode::BAD_REQUEST), true);
        }
        // A request with a transfer coding always has a body.
        if request.body().is_end_stream() {
            return (None, false);
        }
        match framing::coding(headers) {
            Coding::None => (None, framing == Framing::Unscanned),
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
    type Future = Answer<S>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let mut exchange = Exchange::begin(&self.state);
        let lets_others_first = self.state.is_pipelined();
        let (status, last) = self.check_framing(&request);
        let mut refusal = status.map(Refusal::without_text);
        let mut turn = None;
        // Over HTTP/1 a request without a body waits for nothing that its client delays, and a connection has one of them.
        let can_wait = self.state.speaks_http2() || !request.body().is_end_stream();
        let mut head = None;
        if can_wait && refusal.is_none() {
            match Head::take(&self.state, request.headers().len(), !request.body().is_end_stream()) {
                Ok(taken) => head = Some(Arc::new(taken)),
                Err(Excess::OfAddress) => refusal = Some(Refusal::TOO_MANY_OF_ADDRESS),
                Err(Excess::OfAccount | Excess::OfAll) => refusal = Some(Refusal::TOO_MANY_OF_ALL),
            }
        }
        if self.state.speaks_http2() && refusal.is_none() {
            turn = self.state.wait_for_stream();
            exchange.has_stream = turn.is_none();
            exchange.head = head.take();
        }
        let may_be_known = can_wait || request.headers().contains_key(AUTHORIZATION);
        if may_be_known && refusal.is_none() {
            let counted = head.as_ref().or(exchange.head.as_ref()).map(Arc::downgrade).unwrap_or_default();
            request.extensions_mut().insert(StrangersLimits { state: Arc::clone(&self.state), head: counted });
        }
        let (mut waiting, mut coming) = (None, None);
        let request = request.map(|body| RequestBody::new(body, &self.state, head));
        if refusal.is_none() {
            match turn {
                Some(turn) => waiting = Some(Box::new(Waiting { turn, service: Arc::clone(&self.service), request })),
                None => coming = Some(self.service.call(request)),
            }
        }
        Answer { lets_others_first, waiting, coming, refusal, last, exchange: Some(exchange) }
    }
}

/// The limits of a request whose caller is not known, to be lifted once it is: on concurrent HTTP/2 requests, and on memory
/// while many requests are in progress.
#[derive(Debug, Clone)]
pub(crate) struct StrangersLimits {
    state: Arc<ConnectionState>,
    /// Gone once the request waits for nothing that its client delays.
    head: Weak<Head>,
}

impl StrangersLimits {
    /// Lifts the limits: the request was authenticated, so that it counts for its account. Fails if that has too many.
    pub(crate) fn lift(&self, accounts: &Arc<AccountBytes>, holder: &Holder) -> Result<(), &'static str> {
        self.state.set_known();
        self.head.upgrade().map_or(Ok(()), |head| head.move_to(accounts, holder))
    }
}

/// What a request counts while it is in progress, until it is dropped: for strangers or, once its caller is known, for its
/// account.
#[derive(Debug)]
pub(super) struct Head {
    state: Arc<ConnectionState>,
    pool: Pool,
    counted: Mutex<Counted>,
}

#[derive(Debug)]
struct Counted {
    bytes: usize,
    account: Option<(Arc<AccountBytes>, Holder)>,
}

impl Head {
    fn take(state: &Arc<ConnectionState>, headers: usize, has_body: bool) -> Result<Self, Excess> {
        let (pool, bytes) = state.take_head(headers, has_body)?;
        Ok(Self { state: Arc::clone(state), pool, counted: Mutex::new(Counted { bytes, account: None }) })
    }

    /// Counts it for an account instead of strangers.
    fn move_to(&self, accounts: &Arc<AccountBytes>, holder: &Holder) -> Result<(), &'static str> {
        let mut counted = lock(&self.counted);
        if counted.account.is_none() {
            accounts.take(holder, counted.bytes)?;
            counted.account = Some((Arc::clone(accounts), holder.clone()));
            self.state.give_head_back(self.pool, counted.bytes);
        }
        Ok(())
    }

    /// Counts less: the application has answered, and only the stream and its response are left.
    fn answered(&self) {
        let mut counted = lock(&self.counted);
        let less = counted.bytes.saturating_sub(ANSWERED_BYTES);
        counted.bytes -= less;
        self.give_back(&counted, less);
    }

    fn give_back(&self, counted: &Counted, bytes: usize) {
        match &counted.account {
            Some((accounts, holder)) => accounts.give_back(holder, bytes),
            None => self.state.give_head_back(self.pool, bytes),
        }
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        let counted = lock(&self.counted);
        self.give_back(&counted, counted.bytes);
    }
}

/// A request in progress, until it is dropped.
#[derive(Debug)]
struct Exchange {
    state: Arc<ConnectionState>,
    answered: bool,
    /// It counts among the HTTP/2 requests that have begun.
    has_stream: bool,
    /// Over HTTP/2, until its end: a connection may have many of them.
    head: Option<Arc<Head>>,
}

impl Exchange {
    fn begin(state: &Arc<ConnectionState>) -> Self {
        state.begin_exchange();
        Self { state: Arc::clone(state), answered: false, has_stream: false, head: None }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.state.answered(self.answered);
        self.state.end_exchange();
        if self.has_stream {
            self.state.end_stream();
        }
    }
}

/// A request that may not begin yet. The application has not seen it: what it keeps of a request is much larger.
struct Waiting<S> {
    turn: BoxFuture<'static, bool>,
    service: Arc<S>,
    request: Request<RequestBody>,
}

pin_project! {
    /// The pending response of the application's service.
    pub(super) struct Answer<S>
    where
        S: Service<Request<RequestBody>>,
    {
        // A client that pipelines requests would else have many answered before other connections have their turn.
        lets_others_first: bool,
        waiting: Option<Box<Waiting<S>>>,
        #[pin]
        coming: Option<S::Future>,
        refusal: Option<Refusal>,
        last: bool,
        exchange: Option<Exchange>,
    }
}

impl<S, B> Future for Answer<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>,
{
    type Output = Result<Response<Reply<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut me = self.project();
        if std::mem::take(me.lets_others_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(waiting) = me.waiting {
            let may_begin = ready!(waiting.turn.as_mut().poll(cx));
            match (me.waiting.take(), me.exchange.as_mut()) {
                (Some(waiting), Some(exchange)) if may_begin => {
                    exchange.has_stream = true;
                    me.coming.set(Some(waiting.service.call(waiting.request)));
                }
                _ => *me.refusal = Some(Refusal::TOO_MANY),
            }
        }
        let answer = match me.coming.as_pin_mut() {
            Some(coming) => Some(ready!(coming.poll(cx))?),
            None => None,
        };
        let mut exchange = me.exchange.take();
        if let Some(exchange) = &mut exchange {
            exchange.answered = true;
            if let Some(head) = &exchange.head {
                head.answered();
            }
            *me.last |= exchange.state.is_closing() || exchange.state.has_unread_body();
        }
        let mut response = match answer {
            Some(answer) => answer.map(|body| Reply { body: Some(body), text: None, exchange }),
            None => refused(me.refusal.unwrap_or(Refusal::TOO_MANY), exchange),
        };
        if *me.last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(response))
    }
}

/// Why the application does not see a request.
#[derive(Debug, Clone, Copy)]
struct Refusal {
    status: StatusCode,
    /// JSON; for most refusals the status suffices.
    text: Option<&'static [u8]>,
}

impl Refusal {
    const TOO_MANY: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        text: Some(
            b"{\"error\":\"too many concurrent requests on a connection that has not authenticated; send fewer and try again\",\
            \"code\":\"overloaded\"}",
        ),
    };
    const TOO_MANY_OF_ADDRESS: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        text: Some(
            b"{\"error\":\"too many concurrent requests from your IP address; send fewer and try again\",\
            \"code\":\"overloaded\"}",
        ),
    };
    const TOO_MANY_OF_ALL: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        text: Some(b"{\"error\":\"too many concurrent requests; try again in a second\",\"code\":\"overloaded\"}"),
    };

    fn without_text(status: StatusCode) -> Self {
        Self { status, text: None }
    }
}

/// The response to a refused request.
fn refused<B>(refusal: Refusal, exchange: Option<Exchange>) -> Response<Reply<B>> {
    let text = refusal.text.map(Bytes::from_static);
    let has_text = text.is_some();
    let mut response = Response::new(Reply { body: None, text, exchange });
    *response.status_mut() = refusal.status;
    if has_text {
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(RETRY_AFTER, 1.into());
    }
    response
}

/// A response body. The exchange ends with it.
#[derive(Debug)]
pub(super) struct Reply<B> {
    body: Option<B>,
    /// Our own text instead of a body.
    text: Option<Bytes>,
    exchange: Option<Exchange>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Reply<B> {
    type Data = Chunk;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Chunk>, B::Error>>> {
        let Some(body) = &mut self.body else {
            let text = self.text.take().map(|text| Ok(Frame::data(Chunk::new(text, self.exchange.as_ref()))));
            return Poll::Ready(text);
        };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        Poll::Ready(
            frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| Chunk::new(bytes, self.exchange.as_ref())))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().map_or(self.text.is_none(), Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let own = || SizeHint::with_exact(self.text.as_ref().map_or(0, |text| text.len() as u64));
        self.body.as_ref().map_or_else(own, Body::size_hint)
    }
}

/// Bytes of a response. Over HTTP/2 a client can stall one response while the connection progresses, so progress is reported
/// to the state here; over HTTP/1 the socket does.
#[derive(Debug)]
pub(super) struct Chunk {
    bytes: Bytes,
    state: Option<Arc<ConnectionState>>,
}

impl Chunk {
    fn new(bytes: Bytes, exchange: Option<&Exchange>) -> Self {
        let state = exchange.map(|exchange| &exchange.state).filter(|state| state.speaks_http2()).cloned();
        if let Some(state) = &state {
            state.chunk_queued();
        }
        Self { bytes, state }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(state) = &self.state {
            state.chunk_progress(count as u64);
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(state) = &self.state {
            state.chunk_sent();
        }
    }
}
