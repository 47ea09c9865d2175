//! The body of a request: limits the time that it may take, and what is left of one that nobody reads.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use super::exchange::Head;
use super::state::ConnectionState;
use super::state::timeouts::HURRIED_TIMEOUT;

/// A body that was not read ends an HTTP/1 connection, unless the rest of it has arrived and is no larger than this.
const SMALL_BODY: usize = 8 << 10;

/// A request body, which fails if it does not arrive in time. Only time spent waiting for the client counts, so a handler may
/// pause between reads.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    /// `None` for a request without a body.
    state: Option<Arc<ConnectionState>>,
    wait: Option<Box<Wait>>,
    /// Over HTTP/1, until the body is read: then the request waits for nothing that its client delays.
    head: Option<Arc<Head>>,
}

/// Why a request body could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The client stopped sending, or sent too slowly.
    #[error("the request body did not arrive in time")]
    TimedOut,
    /// The client disconnected or sent an invalid body.
    #[error("the request body could not be read")]
    Broken(#[source] hyper::Error),
}

/// The timer of a body; created only if a body does not arrive with its head.
#[derive(Debug)]
struct Wait {
    sleep: Pin<Box<Sleep>>,
    /// When the body was first waited for.
    began: Instant,
    /// When the read that is pending began.
    waiting: Option<Instant>,
}

impl Wait {
    fn new() -> Self {
        let began = Instant::now();
        Self { sleep: Box::pin(sleep_until(began)), began, waiting: None }
    }

    /// Completes when the client's time is up.
    fn poll_timeout(&mut self, state: &ConnectionState, cx: &mut Context<'_>) -> Poll<()> {
        let waiting = *self.waiting.get_or_insert_with(Instant::now);
        loop {
            let (now, deadline) = (Instant::now(), state.body_deadline(self.began, waiting));
            if now >= deadline {
                return Poll::Ready(());
            }
            // The deadline may be shortened in the meantime.
            self.sleep.as_mut().reset(deadline.min(now + HURRIED_TIMEOUT));
            ready!(self.sleep.as_mut().poll(cx));
        }
    }
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, state: &Arc<ConnectionState>, head: Option<Arc<Head>>) -> Self {
        let state = (!incoming.is_end_stream()).then(|| Arc::clone(state));
        Self { incoming, state, wait: None, head }
    }

    /// Reads what has arrived and returns whether that was the rest of the body.
    fn drain(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = 0;
        while !self.incoming.is_end_stream() && read <= SMALL_BODY {
            match Pin::new(&mut self.incoming).poll_frame(&mut cx) {
                Poll::Ready(None) => return true,
                Poll::Ready(Some(Ok(frame))) => read += frame.data_ref().map_or(0, Bytes::len),
                Poll::Ready(Some(Err(_))) | Poll::Pending => return false,
            }
        }
        self.incoming.is_end_stream()
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let Some(state) = &self.state else { return Poll::Pending };
        let wait = self.wait.get_or_insert_with(|| Box::new(Wait::new()));
        ready!(wait.poll_timeout(state, cx));
        state.set_slow();
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
                    wait.waiting = None;
                }
                if frame.is_none() || self.incoming.is_end_stream() {
                    self.head = None;
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

impl Drop for RequestBody {
    /// Over HTTP/1 the rest of a body that is not read would be taken for the next request, so the response announces that
    /// the connection ends with it.
    fn drop(&mut self) {
        if let Some(state) = self.state.take().filter(|state| !state.speaks_http2()) {
            state.set_unread_body(!self.drain());
        }
    }
}
