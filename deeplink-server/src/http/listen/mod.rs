//! The listener: accepts connections, bounds how many there are and how long each may take, and stops without
//! losing a request.
//!
//! `axum::serve` has no deadline for a request head, and hyper's own does not cover a socket that never sends.
//! `deadline` enforces ours, `socket` and `exchange` report to `watch`, `framing` sees what the parser no longer shows.
//! What a request means is decided elsewhere; nothing here knows a route.

mod connection;
mod deadline;
mod exchange;
mod frames;
mod framing;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
mod watch;

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

/// Between two rounds of a graceful stop.
const ROUND: Duration = Duration::from_millis(50);
/// Waited after a failed accept, doubled up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Connections the kernel may hold for us; it lowers this to its own limit.
const QUEUE: u32 = 4_096;
/// Descriptors kept back for the database, the spill file and calls to others.
const RESERVED_FILES: usize = 64;
/// Far more than descriptors, and what the semaphore can count.
const MOST_PLACES: u32 = 1 << 24;

/// How much and how long a connection may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections open at once; more wait in the kernel's queue.
    pub connections: usize,
    /// From accept to the first byte.
    pub first_byte: Duration,
    /// From the first byte of a request head to its last.
    pub head: Duration,
    /// Between two pieces of a request body.
    pub body_idle: Duration,
    /// For a whole request body.
    pub body_total: Duration,
    /// While the client takes no byte of an answer.
    pub write_stall: Duration,
    /// Between two requests.
    pub keep_alive_idle: Duration,
    /// For the requests that are being answered when the server is asked to stop.
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

/// Whether, and how, the server is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stop {
    /// Go on serving.
    #[default]
    Not,
    /// Answer what has been asked, within [`Limits::drain`], then stop.
    Gracefully,
    /// Stop without waiting for anybody.
    AtOnce,
}

/// Opens a listener whose queue outlasts a burst: with the usual 128 places a connection too many is repeated by its
/// client only after a second.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for the connections of the last run to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(QUEUE)
}

/// Where connections arrive: in clear and, where that is set up, for TLS. Both share all limits.
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
    /// Two ways in, the second one with TLS.
    pub fn with_tls(plain: TcpListener, secure: TcpListener, certificates: Arc<dyn Certificates>) -> Self {
        Self { plain, secure: Some((secure, certificates)) }
    }

    async fn accept(&self) -> io::Result<Arrival> {
        let Some((secure, certificates)) = &self.secure else {
            return self.plain.accept().await.map(|(stream, peer)| Arrival { stream, peer, certificates: None });
        };
        tokio::select! {
            accepted = self.plain.accept() => accepted.map(|(stream, peer)| Arrival { stream, peer, certificates: None }),
            accepted = secure.accept() => accepted.map(|(stream, peer)| {
                Arrival { stream, peer, certificates: Some(Arc::clone(certificates)) }
            }),
        }
    }

    /// Closes the listeners and takes what waits in their queues.
    fn into_queue(self) -> impl Iterator<Item = Arrival> {
        let arrival = |certificates: Option<Arc<dyn Certificates>>| {
            move |(stream, peer)| Arrival { stream, peer, certificates: certificates.clone() }
        };
        let secure = self.secure.map(|(listener, certificates)| (queue_of(listener), arrival(Some(certificates))));
        let secure = secure.into_iter().flat_map(|(queue, arrival)| queue.into_iter().map(arrival));
        queue_of(self.plain).into_iter().map(arrival(None)).chain(secure)
    }
}

/// A connection at the door.
struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    /// With TLS.
    certificates: Option<Arc<dyn Certificates>>,
}

/// Serves until `stop` says otherwise (a dropped sender asks for a graceful stop), then returns how many
/// connections had to be cut.
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
    let door = Door::new(limits);
    let _sweep = AbortOnDropHandle::new(tokio::spawn(Arc::clone(&door.shared).sweep()));
    let protocols = Arc::new(Protocols::new());
    let admit = |Arrival { stream, peer, certificates }: Arrival, place: OwnedSemaphorePermit| {
        // Answers are written in one piece; waiting to fill a segment would only delay them.
        let _ = stream.set_nodelay(true);
        let protocols = Arc::clone(&protocols);
        let (service, watch) = (service(peer), door.shared.watch());
        // Two tasks rather than one that is either: a connection without TLS would pay for it with memory.
        if let Some(certificates) = certificates {
            tokio::spawn(async move {
                protocols.serve_secured(stream, certificates, service, watch).await;
                drop(place);
            });
        } else {
            tokio::spawn(async move {
                protocols.serve(stream, service, watch).await;
                drop(place);
            });
        }
    };
    loop {
        tokio::select! {
            biased;
            () = asked(&mut stop, Stop::Gracefully) => break,
            (arrival, place) = door.next(&listeners) => admit(arrival, place),
        }
    }
    door.shared.set_stopping();
    // Whoever has connected before the door closes is still answered: dropping the listener resets them.
    for arrival in listeners.into_queue() {
        if let Ok(place) = Arc::clone(&door.places).try_acquire_owned() {
            admit(arrival, place);
        }
    }
    door.empty(&mut stop).await
}

/// Completes when the server is asked to stop at least like this.
async fn asked(stop: &mut Receiver<Stop>, how: Stop) {
    if stop.wait_for(|asked| *asked >= how).await.is_err() && how > Stop::Gracefully {
        future::pending::<()>().await;
    }
}

/// Closes the listener and takes what waits in its queue. Asks the system itself: the runtime may not have noticed yet.
fn queue_of(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accept = || {
        let (stream, peer) = listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    };
    std::iter::from_fn(accept).collect()
}

/// Who may come in, and who is inside.
struct Door {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    all: u32,
}

impl Door {
    fn new(limits: Limits) -> Self {
        let most = open_files().map_or(usize::MAX, |files| files.saturating_sub(RESERVED_FILES).max(1));
        let all = u32::try_from(limits.connections.min(most)).unwrap_or(u32::MAX).min(MOST_PLACES);
        Self { shared: Shared::new(limits), places: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// The next connection, once there is a place for it.
    async fn next(&self, listeners: &Listeners) -> (Arrival, OwnedSemaphorePermit) {
        let arrival = self.accept(listeners).await;
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return (arrival, place);
        }
        self.shared.set_crowded(true);
        let place = Arc::clone(&self.places).acquire_owned().await;
        self.shared.set_crowded(false);
        match place {
            Ok(place) => (arrival, place),
            // The semaphore is never closed.
            Err(_) => future::pending().await,
        }
    }

    async fn accept(&self, listeners: &Listeners) -> Arrival {
        let mut pause = SHORTEST_PAUSE;
        loop {
            match listeners.accept().await {
                Ok(arrival) => return arrival,
                Err(error) if is_about_the_client(&error) => {}
                // No descriptors or no memory: both come back when connections end, so idle ones are hurried.
                Err(error) => {
                    if pause == SHORTEST_PAUSE {
                        tracing::warn!(%error, "connections cannot be accepted, trying again");
                    }
                    self.shared.set_crowded(true);
                    sleep(pause).await;
                    self.shared.set_crowded(false);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Waits for everybody to leave, and puts out who does not.
    async fn empty(&self, stop: &mut Receiver<Stop>) -> usize {
        let began = Instant::now();
        let end = began + self.shared.limits.drain;
        let mut everybody = pin!(self.places.acquire_many(self.all));
        loop {
            self.shared.wind_down(began.elapsed());
            tokio::select! {
                biased;
                _ = &mut everybody => return 0,
                () = asked(stop, Stop::AtOnce) => break,
                () = sleep_until(end) => break,
                () = sleep(ROUND) => {}
            }
        }
        let cut = self.shared.cut_all();
        // They end at their next poll, which is now.
        let _ = timeout(LONGEST_PAUSE, everybody).await;
        cut
    }
}

/// Whether accepting failed for this one client only.
fn is_about_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// How many files this process may have open, where the system tells.
fn open_files() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
