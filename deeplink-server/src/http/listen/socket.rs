//! The socket of one connection: passes bytes on, reports progress to the state, and closes without losing the response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::frames::FrameScan;
use super::framing::HeadScan;
use super::state::{Command, ConnectionState};

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
    blocked: bool,
    /// Our side has been closed.
    shut: bool,
}

impl<S: Transport> Socket<S> {
    pub(super) fn new(stream: S, state: Arc<ConnectionState>) -> Self {
        Self { stream, state, scan: HeadScan::new(), frames: None, half_head: false, blocked: false, shut: false }
    }

    fn scan(&mut self, bytes: &[u8]) {
        let in_head = match &mut self.frames {
            Some(frames) => {
                frames.feed(bytes);
                frames.in_head()
            }
            None => self.scan_http1(bytes),
        };
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

    fn wrote(&mut self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.is_blocked(outcome.is_pending());
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
        ready!(Pin::new(&mut me.stream).poll_read(cx, buf))?;
        let fresh = &buf.filled()[before..];
        if !fresh.is_empty() {
            me.scan(fresh);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Transport> AsyncWrite for Socket<S> {
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
            // A response without a body is one buffer, and `send` is cheaper than `writev`.
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
