//! The listener: accepts connections, limits their number and their times, and stops without losing a request.
//!
//! `axum::serve` has no deadline for a request head, and hyper's own does not cover a socket that never sends.
//! `deadline` enforces ours, `socket` and `exchange` report to `state`, `framing` detects what hyper's parser hides.
//! Nothing here knows routes.

mod connection;
mod deadline;
mod exchange;
mod frames;
mod framing;
mod socket;
mod state;
#[cfg(test)]
mod tests;
mod tls;

use std::convert::Infallible;
use std::error::Error;
use std::future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::service::Service;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch::Receiver};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::connection::Protocols;
use self::deadline::Shared;
pub use self::exchange::{BodyError, RequestBody};
pub use self::framing::is_refused_method;
pub use self::tls::Certificates;

/// Interval of rounds of a graceful stop.
const STOP_ROUND_INTERVAL: Duration = Duration::from_millis(50);
/// Pause after a failed accept, doubled each time up to the maximum.
const MIN_ACCEPT_PAUSE: Duration = Duration::from_millis(20);
const MAX_ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// The listen backlog; the kernel lowers it to its own limit.
const BACKLOG: u32 = 4_096;
/// File descriptors reserved for the database, the spill file and outgoing connections.
const RESERVED_FILES: usize = 64;
/// More than there can be file descriptors, and within what the semaphore can count.
const MAX_CONNECTIONS: u32 = 1 << 24;

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
    /// While the client accepts no byte of a response.
    pub write_stall: Duration,
    /// Between two requests.
    pub keep_alive_idle: Duration,
    /// For requests in progress on a graceful stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 15_000,
            first_byte: Duration::from_secs(5),
            head: Duration::from_secs(10),
            body_idle: Duration::from_secs(15),
            body_total: Duration::from_secs(30),
            write_stall: Duration::from_secs(30),
            keep_alive_idle: Duration::from_secs(75),
            drain: Duration::from_secs(6),
        }
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

/// Opens a listener with a backlog for bursts: beyond the usual 128, clients would retry only after a second.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not fail because of connections of the last run in TIME_WAIT.
    socket.set_reuseaddr(true)?;
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
/// `service` makes the service of one connection from the address of its peer.
pub async fn serve<M, S, B>(
    listeners: impl Into<Listeners>,
    limits: Limits,
    mut stop: Receiver<Stop>,
    service: M,
) -> usize
where
    M: Fn(SocketAddr) -> S,
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listeners = listeners.into();
    let gate = Gate::new(limits);
    let _sweep = AbortOnDropHandle::new(tokio::spawn(Arc::clone(&gate.shared).sweep()));
    let protocols = Arc::new(Protocols::new());
    let admit = |Accepted { stream, peer, certificates }: Accepted, permit: OwnedSemaphorePermit| {
        // Responses are written at once, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let protocols = Arc::clone(&protocols);
        let (service, state) = (service(peer), gate.shared.add());
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
        if let Ok(permit) = Arc::clone(&gate.permits).try_acquire_owned() {
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

/// Limits the number of connections.
struct Gate {
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    max: u32,
}

impl Gate {
    fn new(limits: Limits) -> Self {
        let available = open_files().map_or(usize::MAX, |files| files.saturating_sub(RESERVED_FILES).max(1));
        let max = u32::try_from(limits.connections.min(available)).unwrap_or(u32::MAX).min(MAX_CONNECTIONS);
        Self { shared: Shared::new(limits), permits: Arc::new(Semaphore::new(max as usize)), max }
    }

    /// The next connection, with a permit.
    async fn next(&self, listeners: &Listeners) -> (Accepted, OwnedSemaphorePermit) {
        let connection = self.accept(listeners).await;
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return (connection, permit);
        }
        self.shared.set_crowded(true);
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        self.shared.set_crowded(false);
        match permit {
            Ok(permit) => (connection, permit),
            // The semaphore is never closed.
            Err(_) => future::pending().await,
        }
    }

    async fn accept(&self, listeners: &Listeners) -> Accepted {
        let mut pause = MIN_ACCEPT_PAUSE;
        loop {
            match listeners.accept().await {
                Ok(connection) => return connection,
                Err(error) if is_about_the_client(&error) => {}
                // Out of descriptors or memory: both are freed when connections end, so idle ones are ended sooner.
                Err(error) => {
                    if pause == MIN_ACCEPT_PAUSE {
                        tracing::warn!(%error, "cannot accept connections; will retry");
                    }
                    self.shared.set_crowded(true);
                    sleep(pause).await;
                    self.shared.set_crowded(false);
                    pause = (2 * pause).min(MAX_ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Waits for all connections to end, and cuts those that do not in time.
    async fn drain(&self, stop: &mut Receiver<Stop>) -> usize {
        let began = Instant::now();
        let end = began + self.shared.limits.drain;
        let mut all_permits = pin!(self.permits.acquire_many(self.max));
        loop {
            self.shared.wind_down(began.elapsed());
            tokio::select! {
                biased;
                _ = &mut all_permits => return 0,
                () = stop_requested(stop, Stop::AtOnce) => break,
                () = sleep_until(end) => break,
                () = sleep(STOP_ROUND_INTERVAL) => {}
            }
        }
        let cut = self.shared.cut_all();
        // They end at their next poll.
        let _ = timeout(MAX_ACCEPT_PAUSE, all_permits).await;
        cut
    }
}

/// Whether accepting failed for this one client only.
fn is_about_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// The limit of open files of this process, if known.
fn open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
