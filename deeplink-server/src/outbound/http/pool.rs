//! A pool of idle connections for posts.
//!
//! An idle connection is not polled. What arrived meanwhile, in particular its end, shows when it is taken from the
//! pool.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{CallError, HEAD, Terms};
use crate::outbound::dial::Stream;

/// How long a connection may be idle. Some servers close theirs after five seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum idle connections.
const MAX_IDLE: usize = 256;
/// Bytes of an answer's body that are read so that its connection can be used again.
const DRAIN: usize = 16 << 10;
/// How long the rest of an answer may take once its status is known.
const REST_TIMEOUT: Duration = Duration::from_secs(1);
/// How long before the post's deadline reading the rest is given up, so that the answer is returned in time.
const MARGIN: Duration = Duration::from_millis(50);

/// What a connection can be used for: the same scheme, host and port (RFC 6454).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    pub(super) fn of(url: &Url) -> Self {
        Self {
            scheme: url.scheme().to_owned(),
            host: url.host_str().unwrap_or_default().to_owned(),
            port: url.port_or_known_default().unwrap_or_default(),
        }
    }
}

/// The idle connections.
#[derive(Default)]
pub(super) struct Pool(Mutex<HashMap<Origin, Vec<PooledConnection>>>);

impl Pool {
    /// The most recently used open connection.
    pub(super) fn take(&self, origin: &Origin) -> Option<PooledConnection> {
        let mut idle = self.idle();
        let at_origin = idle.get_mut(origin)?;
        let taken = std::iter::from_fn(|| at_origin.pop()).find_map(PooledConnection::if_open);
        if at_origin.is_empty() {
            idle.remove(origin);
        }
        taken
    }

    /// Adds a connection, if there is room.
    pub(super) fn put(&self, origin: Origin, mut kept: PooledConnection) {
        kept.used = Instant::now();
        let mut idle = self.idle();
        if idle.values().map(Vec::len).sum::<usize>() < MAX_IDLE {
            idle.entry(origin).or_default().push(kept);
        }
    }

    /// Closes the connections to an origin.
    pub(super) fn close_all(&self, origin: &Origin) {
        self.idle().remove(origin);
    }

    /// Closes connections that were idle for too long.
    pub(super) fn close_idle(&self) {
        self.idle().retain(|_, at_origin| {
            at_origin.retain(|kept| kept.used.elapsed() < IDLE_TIMEOUT);
            !at_origin.is_empty()
        });
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Origin, Vec<PooledConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that can carry another post.
pub(super) struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<TokioIo<Metered>, Full<Bytes>>>>,
    /// What may still be read.
    left: Arc<AtomicUsize>,
    /// The address that was checked and dialled.
    pub(super) peer: SocketAddr,
    /// When the host's addresses were last checked.
    pub(super) judged: Instant,
    used: Instant,
}

/// The response to a post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PostResponse {
    pub(crate) status: StatusCode,
    /// The first bytes of the body, as many as were asked for.
    pub(crate) body_start: Vec<u8>,
}

/// Maximum bytes of one response, interim ones included.
const MAX_RESPONSE: usize = HEAD + DRAIN;

impl PooledConnection {
    /// Speaks HTTP over a new connection.
    pub(super) async fn new(stream: Box<dyn Stream>, peer: SocketAddr) -> Result<Self, CallError> {
        let left = Arc::new(AtomicUsize::new(MAX_RESPONSE));
        let stream = Metered { stream, left: Arc::clone(&left) };
        let mut client = http1::Builder::new();
        client.max_buf_size(HEAD);
        let (sender, connection) = client.handshake(TokioIo::new(stream)).await.map_err(CallError::Answer)?;
        let now = Instant::now();
        Ok(Self { sender, connection: Box::pin(connection), left, peer, judged: now, used: now })
    }

    /// Itself, unless it was idle for too long or was closed by the other side.
    fn if_open(mut self) -> Option<Self> {
        let is_open = self.used.elapsed() < IDLE_TIMEOUT && self.is_idle();
        is_open.then_some(self)
    }

    /// Whether no response is pending and the next request can be sent.
    fn is_idle(&mut self) -> bool {
        (&mut self.connection).now_or_never().is_none() && !self.sender.is_closed()
    }

    /// Whether not a byte came back for the last post.
    pub(super) fn got_nothing(&self) -> bool {
        self.left.load(Ordering::Relaxed) == MAX_RESPONSE
    }

    /// Sends a request and reads the answer, up to `terms.largest` bytes of its body, before the time is over. Also
    /// returns whether the connection can be kept.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        terms: &Terms,
    ) -> Result<(PostResponse, bool), CallError> {
        self.left.store(MAX_RESPONSE, Ordering::Relaxed);
        let mut ended = false;
        let (sender, connection) = (&mut self.sender, &mut self.connection);
        let answer = async {
            sender.ready().await.map_err(CallError::Answer)?;
            let response = sender.send_request(request).await.map_err(CallError::Answer)?;
            Ok::<_, CallError>(read(response, terms).await)
        };
        // The connection may end before the rest of the body is read; the answer tells how it ended.
        let driven = async {
            drop(connection.await);
            ended = true;
            std::future::pending().await
        };
        let (answer, is_whole) = tokio::select! {
            answer = answer => answer?,
            never = driven => never,
        };
        let can_be_kept = is_whole && !ended && self.is_idle();
        Ok((answer, can_be_kept))
    }
}

/// The beginning of the answer, and whether all of it was read. Once the status is known nothing fails any more: the
/// receiver has answered, and the rest does not matter.
async fn read(response: Response<Incoming>, terms: &Terms) -> (PostResponse, bool) {
    let begin = terms.largest;
    let last = terms.end().checked_sub(MARGIN).unwrap_or(terms.began);
    let mut answer = PostResponse { status: response.status(), body_start: Vec::new() };
    let mut body = response.into_body();
    let rest = async {
        let mut read = 0;
        loop {
            let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
            if read >= begin && read.saturating_add(announced) > DRAIN {
                return false;
            }
            let piece = match body.frame().await {
                None => return true,
                Some(Err(_)) => return false,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            read += piece.len();
            let room = begin.saturating_sub(answer.body_start.len());
            answer.body_start.extend_from_slice(&piece[..piece.len().min(room)]);
        }
    };
    let is_whole = timeout_at(last.min(Instant::now() + REST_TIMEOUT), rest).await.unwrap_or(false);
    (answer, is_whole)
}

/// A stream of which only a limited number of bytes is read, before, in and after the answer.
struct Metered {
    stream: Box<dyn Stream>,
    left: Arc<AtomicUsize>,
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buf);
        // One task at a time has the connection.
        let left = self.left.load(Ordering::Relaxed);
        let Some(left) = left.checked_sub(buf.filled().len() - before) else {
            return Poll::Ready(Err(io::Error::other("the response is too long")));
        };
        self.left.store(left, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
