//! The socket of one connection: passes bytes on, reports progress to the state, and closes without losing the response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::frames::FrameScan;
use super::framing::HeadScan;
use super::state::{Command, ConnectionState, OPEN_HEAD_BYTES};

/// Bytes that a connection sends before others have their turn. The kernel would take some megabytes at once, and copying
/// those for a few clients that read fast delays all answers.
const TURN: usize = 64 << 10;
const REQUEST_TIMEOUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A transport for HTTP: TCP, or TLS over TCP.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Whether it buffers bytes, so that only a flush shows whether they can be sent.
    const BUFFERS: bool;

    /// Sends as much as is possible without waiting.
    fn try_send(&mut self, text: &[u8]);

    /// Makes the kernel discard queued data on close.
    fn reset_on_close(&self);
}

impl Transport for TcpStream {
    const BUFFERS: bool = false;

    fn try_send(&mut self, text: &[u8]) {
        let _ = self.try_write(text);
    }

    fn reset_on_close(&self) {
        let _ = self.set_zero_linger();
    }
}

#[derive(Debug)]
pub(super) struct Socket<S: Transport> {
    stream: S,
    state: Arc<ConnectionState>,
    scan: HeadScan,
    /// Set once the connection uses HTTP/2.
    frames: Option<FrameScan>,
    // What was last reported, so that only changes are.
    half_head: bool,
    is_partial: bool,
    blocked: bool,
    /// Our side has been closed.
    shut: bool,
    /// Bytes sent in this turn.
    sent: usize,
}

impl<S: Transport> Socket<S> {
    pub(super) fn new(stream: S, state: Arc<ConnectionState>) -> Self {
        Self {
            stream,
            state,
            scan: HeadScan::new(),
            frames: None,
            half_head: false,
            is_partial: false,
            blocked: false,
            shut: false,
            sent: 0,
        }
    }

    fn scan(&mut self, bytes: &[u8]) {
        let in_head = match &mut self.frames {
            Some(frames) => {
                frames.feed(bytes);
                frames.in_head()
            }
            None => self.scan_http1(bytes),
        };
        let is_partial = in_head || self.frames.as_ref().is_some_and(FrameScan::in_frame);
        match (is_partial, self.is_partial) {
            _ if self.frames.as_ref().is_some_and(FrameScan::has_open_head) => self.state.holds(OPEN_HEAD_BYTES),
            (false, _) => self.state.holds(0),
            (true, false) => self.state.holds(bytes.len()),
            // Below TLS, some were reported when they came, but a record is decoded at once and read in parts.
            (true, true) => self.state.received(bytes.len()),
        }
        self.is_partial = is_partial;
        if in_head != self.half_head {
            self.half_head = in_head;
            self.state.half_head(in_head);
        }
    }

    /// Scans HTTP/1, or an HTTP/2 preface.
    fn scan_http1(&mut self, bytes: &[u8]) -> bool {
        let framing = self.scan.framing();
        let rest = self.scan.feed(bytes);
        if self.scan.framing() != framing {
            self.state.set_framing(self.scan.framing());
        }
        if self.scan.is_http2() && !self.scan.in_head() {
            self.state.set_http2();
            let mut frames = FrameScan::new();
            frames.feed(rest);
            return self.frames.insert(frames).in_head();
        }
        self.scan.in_head()
    }

    /// Ends the turn of a connection that has sent enough; it is polled again once others were. HTTP tries once more before it
    /// yields, so that a poll sends at most twice as much.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.sent < TURN {
            return Poll::Ready(());
        }
        self.sent = 0;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn wrote(&mut self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_blocked(outcome.is_pending());
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.sent += bytes;
        }
        outcome
    }

    fn is_blocked(&mut self, blocked: bool) {
        if blocked != self.blocked {
            self.blocked = blocked;
            self.state.blocked(blocked);
        }
    }

    /// Whether the client may still be sending: closing at once would then reset the connection, and the client could lose the
    /// response.
    fn expects_more(&self) -> bool {
        self.state.may_linger() && (self.state.command() == Command::Drain || !self.scan.at_boundary())
    }
}

impl<S: Transport> AsyncRead for Socket<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let before = buf.filled().len();
        let outcome = Pin::new(&mut me.stream).poll_read(cx, buf);
        if outcome.is_pending() {
            me.state.has_read_all();
        }
        ready!(outcome)?;
        let fresh = &buf.filled()[before..];
        if me.frames.is_none() {
            // A client that reads each answer before its next request ends its own turn.
            me.sent = 0;
        }
        if !fresh.is_empty() {
            me.scan(fresh);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Transport> AsyncWrite for Socket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        ready!(me.poll_turn(cx));
        let outcome = Pin::new(&mut me.stream).poll_write(cx, &buf[..buf.len().min(TURN)]);
        me.wrote(outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        ready!(me.poll_turn(cx));
        let mut room = TURN;
        let fits = |buf: &&IoSlice<'_>| {
            let fits = buf.len() <= room;
            room = room.saturating_sub(buf.len());
            fits
        };
        let bufs = &bufs[bufs.iter().take_while(|buf| buf.is_empty()).count()..];
        let outcome = match (bufs.iter().take_while(fits).count(), bufs) {
            (_, []) => Poll::Ready(Ok(0)),
            // A response without a body is one buffer, and `send` is cheaper than `writev`.
            (0 | 1, [first, ..]) => Pin::new(&mut me.stream).poll_write(cx, &first[..first.len().min(TURN)]),
            (count, _) => Pin::new(&mut me.stream).poll_write_vectored(cx, &bufs[..count]),
        };
        me.wrote(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let outcome = Pin::new(&mut me.stream).poll_flush(cx);
        if S::BUFFERS {
            me.is_blocked(outcome.is_pending());
        }
        outcome
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        if !me.shut {
            ready!(Pin::new(&mut me.stream).poll_shutdown(cx))?;
            me.shut = true;
            me.state.shut();
        }
        let mut dropped = [0; 4096];
        while me.expects_more() {
            let mut buf = ReadBuf::new(&mut dropped);
            ready!(Pin::new(&mut me.stream).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Transport> Drop for Socket<S> {
    fn drop(&mut self) {
        if self.state.timed_out_in_head() {
            self.stream.try_send(REQUEST_TIMEOUT);
        }
        if self.blocked {
            // The client does not read; without this the kernel would keep the queued data for minutes.
            self.stream.reset_on_close();
        }
        self.state.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use super::super::Limits;
    use super::super::deadline::Shared;
    use super::*;

    /// A transport that takes everything at once, as the kernel does for a client that reads fast.
    struct Greedy(Vec<u8>);

    impl AsyncRead for Greedy {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Greedy {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.0.extend_from_slice(buf);
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            for buf in bufs {
                self.0.extend_from_slice(buf);
            }
            Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Counts how often a connection asks to be polled again.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Transport for Greedy {
        const BUFFERS: bool = false;

        fn try_send(&mut self, _: &[u8]) {}

        fn reset_on_close(&self) {}
    }

    /// R1: however fast a client reads, its connection sends a bounded part of a large answer before others have their turn,
    /// and nothing is lost or counts as blocked meanwhile.
    #[tokio::test]
    async fn r1_a_large_answer_is_sent_in_turns() {
        let answer: Vec<u8> = (0..TURN * 3 + 5).map(|nth| u8::try_from(nth % 251).unwrap()).collect();
        let cuts: [&[usize]; 6] = [&[], &[0], &[100], &[TURN - 1], &[TURN + 1], &[100, TURN, 2 * TURN]];
        for cuts in cuts {
            let state = Shared::new(Limits::default()).add(Arc::default());
            let mut socket = Socket::new(Greedy(Vec::new()), Arc::clone(&state));
            let (mut written, mut turns, wakes) = (0, 0, Arc::<Wakes>::default());
            let waker = Waker::from(Arc::clone(&wakes));
            while written < answer.len() {
                let mut cx = Context::from_waker(&waker);
                let starts = std::iter::once(written).chain(cuts.iter().copied().filter(|cut| *cut > written));
                let ends = cuts.iter().copied().filter(|cut| *cut > written).chain([answer.len()]);
                let bufs: Vec<_> = starts.zip(ends).map(|(from, to)| IoSlice::new(&answer[from..to])).collect();
                match Pin::new(&mut socket).poll_write_vectored(&mut cx, &bufs) {
                    Poll::Ready(sent) => written += sent.unwrap(),
                    Poll::Pending => turns += 1,
                }
                assert!(written <= (turns + 1) * 2 * TURN, "{written} bytes in {turns} turns");
            }
            assert!(turns >= 1 && !socket.blocked, "{turns} turns");
            assert_eq!(wakes.0.load(Ordering::SeqCst), turns, "it is polled again after each turn");
            assert!(socket.stream.0 == answer, "{cuts:?}");
        }
    }
}
