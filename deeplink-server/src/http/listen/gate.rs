//! Admits connections: limits their number, in total and per address.
//!
//! Beyond the share of their address, connections are closed at once: if they waited, each would hold a descriptor or block
//! others in the queue. Beyond the maximum, one takes the place of one whose address has more, else it waits, and those
//! behind it in the kernel's queue.

use std::io::{self, Read, Write};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch::Receiver};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::deadline::{Shared, TICK, lock};
use super::files::OpenFiles;
use super::share::{Addresses, Entry, Share};
use super::{Accepted, Limits, Listeners, Stop, stop_requested};

/// Interval of rounds of a graceful stop.
const STOP_ROUND_INTERVAL: Duration = Duration::from_millis(50);
/// Pause after a failed accept, doubled each time up to the maximum.
const MIN_ACCEPT_PAUSE: Duration = Duration::from_millis(20);
const MAX_ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// At most one log line per interval says that an address has used up its share.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    cache-control: no-store\r\nx-content-type-options: nosniff\r\ncontent-type: application/json\r\n\
    content-length: 109\r\n\r\n\
    {\"error\":\"too many connections from your IP address or network; close one and try again\",\"code\":\"overloaded\"}";

/// Limits the number of connections.
pub(super) struct Gate {
    pub(super) shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    addresses: Arc<Addresses>,
    max: u32,
    warned: Mutex<Option<Instant>>,
}

/// A connection's permit, one of a limited number, held until it is dropped.
pub(super) struct ConnectionPermit {
    entry: Entry,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionPermit {
    pub(super) fn share(&self) -> Arc<Share> {
        Arc::clone(&self.entry.share)
    }
}

impl Gate {
    pub(super) fn new(limits: Limits) -> Self {
        let limits = limits.within(OpenFiles::now().soft);
        let max = limits.connections;
        Self {
            permits: Arc::new(Semaphore::new(max)),
            addresses: Addresses::new(&limits),
            max: u32::try_from(max).unwrap_or(u32::MAX),
            warned: Mutex::default(),
            shared: Shared::new(limits),
        }
    }

    /// The next connection, with a permit.
    pub(super) async fn next(&self, listeners: &Listeners) -> (Accepted, ConnectionPermit) {
        loop {
            let connection = self.accept(listeners).await;
            let Some(entry) = self.addresses.enter(connection.peer.ip()) else {
                self.turn_away(connection);
                continue;
            };
            if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
                return (connection, ConnectionPermit { entry, _permit: permit });
            }
            match self.wait_for_permit(&entry.share).await {
                Some(permit) => return (connection, ConnectionPermit { entry, _permit: permit }),
                None => self.turn_away(connection),
            }
        }
    }

    /// Waits for one of the permits, all of which are taken. `None` if the address has many itself and others have no
    /// more.
    async fn wait_for_permit(&self, of: &Share) -> Option<OwnedSemaphorePermit> {
        self.shared.set_waiting(true);
        let has_many = of.open() > self.shared.limits.connections_always() / 2;
        let permit = loop {
            if !self.shared.make_room(of) && has_many {
                break None;
            }
            // What loses little may have changed.
            if let Ok(permit) = timeout(TICK, Arc::clone(&self.permits).acquire_owned()).await {
                break permit.ok();
            }
        };
        self.shared.set_waiting(false);
        permit
    }

    /// A permit for a connection, if there is one now.
    pub(super) fn permit_at_once(&self, connection: &Accepted) -> Option<ConnectionPermit> {
        let entry = self.addresses.enter(connection.peer.ip())?;
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        Some(ConnectionPermit { entry, _permit: permit })
    }

    async fn accept(&self, listeners: &Listeners) -> Accepted {
        let mut pause = MIN_ACCEPT_PAUSE;
        loop {
            match listeners.accept().await {
                Ok(connection) => {
                    if pause > MIN_ACCEPT_PAUSE {
                        self.shared.set_waiting(false);
                    }
                    return connection;
                }
                Err(error) if is_about_the_client(&error) => {}
                // Out of descriptors or memory: both are freed when connections end, so slow ones are ended sooner.
                Err(error) => {
                    if pause == MIN_ACCEPT_PAUSE {
                        tracing::warn!(%error, "cannot accept connections; will retry");
                    }
                    self.shared.set_waiting(true);
                    sleep(pause).await;
                    pause = (2 * pause).min(MAX_ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Closes a connection of an address that has used up its share. Over plain HTTP the client is told why, if that is
    /// possible without waiting.
    fn turn_away(&self, connection: Accepted) {
        let mut warned = lock(&self.warned);
        if warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
            *warned = Some(Instant::now());
            tracing::warn!(
                most = self.shared.limits.connections_per_address(),
                "an IP address or IPv6 /48 has reached its connection limit; if it is a reverse proxy, add it to \
                 DEEPLINK_TRUSTED_PROXIES"
            );
        }
        if connection.certificates.is_none() {
            // The client may have gone already.
            let _ = refuse(connection.stream);
        }
    }

    /// Waits for all connections to end, and closes those that do not in time.
    pub(super) async fn drain(&self, stop: &mut Receiver<Stop>) -> usize {
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

fn refuse(stream: TcpStream) -> io::Result<()> {
    let mut stream = stream.into_std()?;
    // Bytes that were not read would make the kernel reset the connection, and the client could lose the answer.
    let _ = stream.read(&mut [0; 4096]);
    stream.write_all(TOO_MANY)
}

/// Whether accepting failed for this one client only.
fn is_about_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_has_the_length_it_says() {
        let text = str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{text}");
        let record: serde_json::Value = serde_json::from_str(body).unwrap();
        let error = "too many connections from your IP address or network; close one and try again";
        assert_eq!(record, serde_json::json!({ "error": error, "code": "overloaded" }));
    }
}
