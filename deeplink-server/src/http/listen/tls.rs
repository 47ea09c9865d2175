//! TLS on a connection that was just accepted: from the first byte to the stream on which HTTP is spoken.
//!
//! A handshake is a head of its own: the same deadlines hold, and the sweep ends what is late. Which certificate a name
//! has is asked elsewhere; a name without one is refused before anything is computed for it.

use std::io::{self, Write};
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

use super::socket::Carrier;
use super::watch::Watch;

/// A fatal alert `unrecognized_name` (RFC 6066, section 3), as a record in clear: no keys are agreed on yet.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Knows the certificates that are served.
pub trait Certificates: Send + Sync + 'static {
    /// What a connection to this name (in lower case, without final dot) is secured with. `None`: nobody here goes by
    /// that name.
    fn of<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<Arc<ServerConfig>>>;
}

/// The bytes below TLS: tells the watch when the first one has arrived.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    watch: Arc<Watch>,
    spoken: bool,
}

/// The stream inside TLS, or `None` when the client went away, was refused or speaks something else.
pub(super) async fn secured(
    stream: TcpStream,
    watch: &Arc<Watch>,
    certificates: &dyn Certificates,
) -> Option<TlsStream<Wire>> {
    let wire = Wire { stream, watch: Arc::clone(watch), spoken: false };
    // What goes wrong here is the client's doing, and rustls has told it.
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), wire).await.ok()?;
    let name = start.client_hello().server_name().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    let config = match name {
        Some(name) => certificates.of(&name).await,
        None => None,
    };
    let Some(config) = config else {
        // A courtesy: whether it can be delivered is the client's concern.
        let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
        let _ = start.io.shutdown().await;
        return None;
    };
    let stream = start.into_stream(config).await.ok()?;
    watch.secured();
    Some(stream)
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let me = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut me.stream).poll_read(cx, buf))?;
        if !me.spoken && buf.filled().len() > before {
            me.spoken = true;
            me.watch.half_head(true);
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

impl Carrier for TlsStream<Wire> {
    const BUFFERS: bool = true;

    fn say_without_waiting(&mut self, text: &[u8]) {
        let (wire, session) = self.get_mut();
        let mut out = Unwaiting(&wire.stream);
        if session.writer().write_all(text).is_ok() {
            while session.wants_write() && session.write_tls(&mut out).is_ok_and(|wrote| wrote > 0) {}
        }
    }

    fn reset_on_close(&self) {
        let _ = self.get_ref().0.stream.set_zero_linger();
    }
}

/// Writes what the kernel takes at once.
struct Unwaiting<'s>(&'s TcpStream);

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
