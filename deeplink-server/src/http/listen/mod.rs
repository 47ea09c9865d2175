//! The listener: accepts connections, limits their number and their times, and stops without losing a request.
//!
//! `axum::serve` has no deadline for a request head, and hyper's own does not cover a socket that never sends.
//! `deadline` and `body` enforce ours, `socket` and `exchange` report to `state`, `framing` detects what hyper's parser hides.
//! `gate` and `share` keep one address from taking all connections, `unread` keeps clients that do not read from taking
//! all memory. Nothing here knows routes.

mod body;
mod connection;
mod deadline;
mod exchange;
mod files;
mod frames;
mod framing;
mod gate;
mod share;
mod socket;
mod state;
#[cfg(test)]
mod tests;
mod tls;
mod unread;

use std::convert::Infallible;
use std::error::Error;
use std::future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::service::Service;
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch::Receiver;
use tokio_util::task::AbortOnDropHandle;

pub use self::body::{BodyError, RequestBody};
use self::connection::Protocols;
pub(crate) use self::exchange::StrangersLimits;
pub use self::files::OpenFiles;
pub use self::framing::is_refused_method;
use self::gate::{ConnectionPermit, Gate};
pub(crate) use self::share::Share;
pub use self::tls::Certificates;
pub use self::unread::Unread;
pub(crate) use self::unread::{Free, Repeatable};
pub use crate::shares::budget::Excess;
use crate::shares::budget::{Budget, SHARES, SITES};

/// The listen backlog; the kernel lowers it to its own limit.
const BACKLOG: u32 = 4_096;
/// Bytes of answers that the kernel takes for one connection before they can be sent; without a limit it takes megabytes for
/// a client that asks for much and reads nothing. A slow reader makes room for more in steps of half of this.
const MAX_UNSENT: u32 = 32 << 10;
/// How long the kernel keeps a connection whose client accepts nothing, also after it was closed here.
const KERNEL_TIMEOUT: Duration = Duration::from_mins(1);
/// File descriptors reserved for the database, the click journal and outgoing connections.
const RESERVED_FILES: u64 = 64;
/// More than there can be file descriptors, and within what a semaphore can count.
const MAX_CONNECTIONS: usize = 1 << 24;

/// Limits of connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections open at once; more wait in the kernel's queue.
    pub connections: usize,
    /// From accept to the first byte.
    pub first_byte: Duration,
    /// From the first byte of a request head to its last.
    pub head: Duration,
    /// Between two reads of a request body.
    pub body_idle: Duration,
    /// For a whole request body.
    pub body_total: Duration,
    /// For a request to begin, behind the limit of an unauthenticated HTTP/2 connection or behind answers that its
    /// address has not accepted.
    pub stream_wait: Duration,
    /// While the client accepts no byte of a response.
    pub write_stall: Duration,
    /// Between two requests.
    pub keep_alive_idle: Duration,
    /// For requests in progress on a graceful stop.
    pub drain: Duration,
    /// Bytes of answers that clients have not accepted yet, on all connections; one address may have an eighth.
    pub unread: usize,
    /// The same for one connection; at this number its next request waits.
    pub unread_per_connection: usize,
    /// Bytes of requests in progress over HTTP/2, and of those with a body over HTTP/1, by their estimated size; one address
    /// may have an eighth. Requests of strangers without a body have a budget of their own.
    pub heads: usize,
    /// The same for requests of strangers without a body.
    pub visits: usize,
    /// Bytes of incomplete request heads and TLS records, on all connections with more than 4 KiB of it; their buffers take
    /// several times as much.
    pub partial: usize,
    /// Networks of reverse proxies, whose connections carry many clients and count against no share.
    pub trusted: Vec<IpNet>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            first_byte: Duration::from_secs(5),
            head: Duration::from_secs(10),
            body_idle: Duration::from_secs(15),
            body_total: Duration::from_secs(30),
            stream_wait: Duration::from_secs(2),
            write_stall: Duration::from_secs(30),
            keep_alive_idle: Duration::from_secs(75),
            drain: Duration::from_secs(6),
            unread: 24 << 20,
            unread_per_connection: 1 << 20,
            heads: 64 << 20,
            visits: 32 << 20,
            partial: 16 << 20,
            trusted: Vec::new(),
        }
    }
}

impl Limits {
    /// The same, with at most as many connections as a process can have that may open `files` files.
    pub fn within(self, files: u64) -> Self {
        let places = usize::try_from(files.saturating_sub(RESERVED_FILES)).unwrap_or(usize::MAX);
        Self { connections: self.connections.min(places).clamp(1, MAX_CONNECTIONS), ..self }
    }

    /// The same, where every peer is trusted and has no share.
    pub fn without_shares(self) -> Self {
        let any = [IpAddr::from([0_u8; 4]), IpAddr::from([0_u8; 16])].map(|any| IpNet::new_assert(any, 0));
        Self { trusted: any.to_vec(), ..self }
    }

    /// Connections that one address may have open, unless it is trusted.
    pub fn connections_per_address(&self) -> usize {
        (self.connections / SHARES).max(1)
    }

    /// Connections that the IPv6 addresses of one site may have open.
    fn connections_per_site(&self) -> usize {
        (self.connections / SITES).max(1)
    }

    /// Connections of one address that are served to their end although others wait for a place.
    fn connections_always(&self) -> usize {
        (self.connections_per_address() / SHARES).max(2)
    }

    /// Bytes of answers that clients have not accepted yet.
    fn unread_budget(&self) -> Budget {
        // By default 1 MiB: most answers.
        Budget { all: self.unread, always: self.unread / 24, reserve: 0 }
    }

    /// Bytes of requests in progress of strangers, without a body.
    fn visits_budget(&self) -> Budget {
        // By default 256 KiB: a dozen requests, or 64 that were answered.
        Budget { all: self.visits, always: self.visits / 128, reserve: 0 }
    }

    /// Bytes of requests in progress.
    fn heads_budget(&self) -> Budget {
        // By default 256 KiB: a dozen requests.
        Budget { all: self.heads, always: self.heads / 256, reserve: 0 }
    }
}

/// Whether and how the server must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stop {
    /// Keep serving.
    #[default]
    Not,
    /// Finish requests in progress within [`Limits::drain`], then stop.
    Gracefully,
    /// Stop without waiting.
    AtOnce,
}

/// Opens a listener with a backlog for bursts: beyond the usual 128, clients would retry only after a second. On Linux the
/// kernel holds little for its connections, and not for long.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not fail because of connections of the last run in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    // Accepted sockets inherit both.
    #[cfg(target_os = "linux")]
    {
        let options = socket2::SockRef::from(&socket);
        options.set_tcp_notsent_lowat(MAX_UNSENT)?;
        options.set_tcp_user_timeout(Some(KERNEL_TIMEOUT))?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The listeners for plain HTTP and, if configured, TLS. They share all limits.
pub struct Listeners {
    plain: TcpListener,
    secure: Option<(TcpListener, Arc<dyn Certificates>)>,
}

impl From<TcpListener> for Listeners {
    fn from(plain: TcpListener) -> Self {
        Self { plain, secure: None }
    }
}

impl Listeners {
    /// A plain listener and one with TLS.
    pub fn with_tls(plain: TcpListener, secure: TcpListener, certificates: Arc<dyn Certificates>) -> Self {
        Self { plain, secure: Some((secure, certificates)) }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        let Some((secure, certificates)) = &self.secure else {
            return self.plain.accept().await.map(|(stream, peer)| Accepted { stream, peer, certificates: None });
        };
        tokio::select! {
            accepted = self.plain.accept() => accepted.map(|(stream, peer)| Accepted { stream, peer, certificates: None }),
            accepted = secure.accept() => accepted.map(|(stream, peer)| {
                Accepted { stream, peer, certificates: Some(Arc::clone(certificates)) }
            }),
        }
    }

    /// Closes the listeners and accepts what is in their backlogs.
    fn into_backlog(self) -> impl Iterator<Item = Accepted> {
        let connection = |certificates: Option<Arc<dyn Certificates>>| {
            move |(stream, peer)| Accepted { stream, peer, certificates: certificates.clone() }
        };
        let secure =
            self.secure.map(|(listener, certificates)| (drain_backlog(listener), connection(Some(certificates))));
        let secure = secure.into_iter().flat_map(|(queue, connection)| queue.into_iter().map(connection));
        drain_backlog(self.plain).into_iter().map(connection(None)).chain(secure)
    }
}

/// A new connection.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    /// `Some` with TLS.
    certificates: Option<Arc<dyn Certificates>>,
}

/// Serves until `stop` changes (a dropped sender means a graceful stop), then returns the number of connections that were
/// cut.
///
/// `service` makes the service of one connection from the address of its peer and the answers that the peer has not read.
pub async fn serve<M, S, B>(
    listeners: impl Into<Listeners>,
    limits: Limits,
    mut stop: Receiver<Stop>,
    service: M,
) -> usize
where
    M: Fn(SocketAddr, Unread) -> S,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + Sync + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listeners = listeners.into();
    let gate = Gate::new(limits);
    let _sweep = AbortOnDropHandle::new(tokio::spawn(Arc::clone(&gate.shared).sweep()));
    let protocols = Arc::new(Protocols::new());
    let admit = |Accepted { stream, peer, certificates }: Accepted, permit: ConnectionPermit| {
        // Responses are written at once, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let protocols = Arc::clone(&protocols);
        let state = gate.shared.add(permit.share());
        let service = service(peer, Unread::new(Arc::clone(&state)));
        // Two kinds of tasks, because one for both would cost memory for plain connections.
        if let Some(certificates) = certificates {
            tokio::spawn(async move {
                protocols.serve_secured(stream, certificates, service, state).await;
                drop(permit);
            });
        } else {
            tokio::spawn(async move {
                protocols.serve(stream, service, state).await;
                drop(permit);
            });
        }
    };
    loop {
        tokio::select! {
            biased;
            () = stop_requested(&mut stop, Stop::Gracefully) => break,
            (connection, permit) = gate.next(&listeners) => admit(connection, permit),
        }
    }
    gate.shared.set_stopping();
    // Connections in the backlog are served too: dropping the listener would reset them.
    for connection in listeners.into_backlog() {
        if let Some(permit) = gate.permit_at_once(&connection) {
            admit(connection, permit);
        }
    }
    gate.drain(&mut stop).await
}

/// Completes when the server must stop at least this fast.
async fn stop_requested(stop: &mut Receiver<Stop>, how: Stop) {
    if stop.wait_for(|requested| *requested >= how).await.is_err() && how > Stop::Gracefully {
        future::pending::<()>().await;
    }
}

/// Closes the listener and accepts what is in its backlog, directly from the system: the runtime may not have seen it yet.
fn drain_backlog(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accept = || {
        let (stream, peer) = listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    };
    std::iter::from_fn(accept).collect()
}
