//! The TLS handshake of a new connection.
//!
//! The time limits of a request head apply to it. Certificates are looked up elsewhere; a name without one is refused before
//! any cryptography.

use std::io::{self, Write};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::socket::Transport;
use super::state::ConnectionState;
use crate::http::client_ip::limit_key;

/// A fatal alert `unrecognized_name` (RFC 6066, section 3) as a plaintext record, because there are no keys yet.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Bytes of an answer that a TLS session holds in encrypted form while the client does not read, in place of the usual 64 KiB:
/// one record.
const MAX_BUFFERED: usize = 16 << 10;

/// Looks up certificates.
pub trait Certificates: Send + Sync + 'static {
    /// The TLS configuration for a name (in lower case, without trailing dot). `None`: no certificate. The client is the
    /// address that is limited; `None` for a trusted proxy.
    fn of<'a>(&'a self, name: &'a str, client: Option<IpAddr>) -> BoxFuture<'a, Option<Arc<ServerConfig>>>;
}

/// The TCP stream below TLS; reports the first byte to the state.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    state: Arc<ConnectionState>,
    has_received: bool,
}

/// The TLS stream, or `None` if the client disconnected, was refused or does not use TLS.
pub(super) async fn secured(
    stream: TcpStream,
    state: &Arc<ConnectionState>,
    certificates: &dyn Certificates,
) -> Option<TlsStream<Wire>> {
    let peer = stream.peer_addr().ok().filter(|_| !state.share.is_trusted);
    let client = peer.map(|peer| limit_key(peer.ip()));
    let wire = Wire { stream, state: Arc::clone(state), has_received: false };
    // Errors here are caused by the client, and rustls has sent an alert.
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), wire).await.ok()?;
    let name = start.client_hello().server_name().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    let config = match name {
        Some(name) => certificates.of(&name, client).await,
        None => None,
    };
    let Some(config) = config else {
        // Best effort.
        let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
        let _ = start.io.shutdown().await;
        return None;
    };
    let mut stream = start.into_stream(config).await.ok()?;
    stream.get_mut().1.set_buffer_limit(Some(MAX_BUFFERED));
    state.secured();
    Some(stream)
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut me.stream).poll_read(cx, buf))?;
        me.state.received(buf.filled().len() - before);
        if !me.has_received && buf.filled().len() > before {
            me.has_received = true;
            me.state.half_head(true);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl Transport for TlsStream<Wire> {
    const BUFFERS: bool = true;

    fn try_send(&mut self, text: &[u8]) {
        let (wire, session) = self.get_mut();
        let mut out = NonBlocking(&wire.stream);
        if session.writer().write_all(text).is_ok() {
            while session.wants_write() && session.write_tls(&mut out).is_ok_and(|wrote| wrote > 0) {}
        }
    }

    fn reset_on_close(&self) {
        let _ = self.get_ref().0.stream.set_zero_linger();
    }
}

/// Writes as much as the kernel accepts without waiting.
struct NonBlocking<'s>(&'s TcpStream);

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
