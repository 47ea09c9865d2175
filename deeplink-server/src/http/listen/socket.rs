//! The bytes of one connection: passes them on, watches their progress, and closes politely.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::frames::FrameScan;
use super::framing::HeadScan;
use super::watch::{Order, Watch};

const TIMED_OUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What carries the bytes of HTTP: the connection itself, or TLS on it.
pub(super) trait Carrier: AsyncRead + AsyncWrite + Unpin {
    /// Whether it takes bytes that it has not sent yet, so that only a flush tells whether they can leave.
    const BUFFERS: bool;

    /// Sends what can be sent at once. Whether it arrives is the client's concern.
    fn say_without_waiting(&mut self, text: &[u8]);

    /// Makes the kernel drop what is queued when this is closed.
    fn reset_on_close(&self);
}

impl Carrier for TcpStream {
    const BUFFERS: bool = false;

    fn say_without_waiting(&mut self, text: &[u8]) {
        let _ = self.try_write(text);
    }

    fn reset_on_close(&self) {
        let _ = self.set_zero_linger();
    }
}

#[derive(Debug)]
pub(super) struct Socket<S: Carrier> {
    stream: S,
    watch: Arc<Watch>,
    scan: HeadScan,
    /// Once the connection speaks HTTP/2.
    frames: Option<FrameScan>,
    // What the watch was last told, so that telling it costs nothing when nothing has changed.
    half_head: bool,
    blocked: bool,
    /// Our side has been closed.
    shut: bool,
}

impl<S: Carrier> Socket<S> {
    pub(super) fn new(stream: S, watch: Arc<Watch>) -> Self {
        Self { stream, watch, scan: HeadScan::new(), frames: None, half_head: false, blocked: false, shut: false }
    }

    fn arrived(&mut self, bytes: &[u8]) {
        let in_head = match &mut self.frames {
            Some(frames) => {
                frames.feed(bytes);
                frames.in_head()
            }
            None => self.arrived_in_text(bytes),
        };
        if in_head != self.half_head {
            self.half_head = in_head;
            self.watch.half_head(in_head);
        }
    }

    /// HTTP/1, or what may become HTTP/2.
    fn arrived_in_text(&mut self, bytes: &[u8]) -> bool {
        let trust = self.scan.trust();
        let rest = self.scan.feed(bytes);
        if self.scan.trust() != trust {
            self.watch.set_trust(self.scan.trust());
        }
        if self.scan.is_http2() && !self.scan.in_head() {
            self.watch.is_http2();
            let mut frames = FrameScan::new();
            frames.feed(rest);
            return self.frames.insert(frames).in_head();
        }
        self.scan.in_head()
    }

    fn wrote(&mut self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_blocked(outcome.is_pending());
        outcome
    }

    fn is_blocked(&mut self, blocked: bool) {
        if blocked != self.blocked {
            self.blocked = blocked;
            self.watch.blocked(blocked);
        }
    }

    /// Whether the client may still be sending: then closing at once would reset the connection and could take the
    /// answer (or the notice that there will be none) with it.
    fn expects_more(&self) -> bool {
        self.watch.may_linger() && (self.watch.order() == Order::Retire || !self.scan.at_boundary())
    }
}

impl<S: Carrier> AsyncRead for Socket<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut me.stream).poll_read(cx, buf))?;
        let fresh = &buf.filled()[before..];
        if !fresh.is_empty() {
            me.arrived(fresh);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Carrier> AsyncWrite for Socket<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let outcome = Pin::new(&mut me.stream).poll_write(cx, buf);
        me.wrote(outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let me = self.get_mut();
        let outcome = match bufs {
            // An answer without a body is one piece, and `send` is cheaper than `writev`.
            [only] => Pin::new(&mut me.stream).poll_write(cx, only),
            _ => Pin::new(&mut me.stream).poll_write_vectored(cx, bufs),
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
            me.watch.shut();
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

impl<S: Carrier> Drop for Socket<S> {
    fn drop(&mut self) {
        if self.watch.timed_out_in_head() {
            self.stream.say_without_waiting(TIMED_OUT);
        }
        if self.blocked {
            // Nobody reads what is queued; without this the kernel would hold it for minutes.
            self.stream.reset_on_close();
        }
        self.watch.leave();
    }
}
