//! Certificates for connections: chosen by name, from memory, and re-read every few seconds.
//!
//! The database decides: from the next reading on, a name that is no longer a verified domain has no certificate, and a
//! renewed certificate is served, on every node. `work::certificates` orders them.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, ServerConfig};
use tokio::sync::{Notify, Semaphore};
use zeroize::Zeroizing;

use crate::clock::Clock;
use crate::db::{Db, DbError, certificates};
use crate::ttl_cache::TtlCache;
use crate::vault::{DecryptError, Vault};

/// Names kept in memory, those without a certificate included. A certificate takes some 10 KiB.
const MAX_NAMES: usize = 4_096;
/// Concurrent lookups of names: they use the connections of visits, of which most must stay free.
const MAX_LOOKUPS: usize = 1;
/// How long a database that has just failed is not asked: handshakes must not wait for it one by one.
const AWAY_MILLIS: u64 = 1_000;

/// A certificate that is served.
#[derive(Debug)]
struct Served {
    id: String,
    config: Arc<ServerConfig>,
}

/// The certificates in memory.
pub(crate) struct Certificates {
    db: Db,
    clock: Clock,
    vault: Vault,
    /// The service's own name, which no tenant verifies; empty without one.
    own_name: String,
    names: TtlCache<Option<Arc<Served>>>,
    lookups: Semaphore,
    /// Until when the database counts as unavailable.
    away_until: AtomicU64,
    /// Seals tickets with which clients resume their session; shared by all names, each ticket bound to its name.
    tickets: Option<Arc<dyn ProducesTickets>>,
    /// Stops the work on certificates with the service.
    pub(crate) stop: Notify,
}

/// Why a stored certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("its key cannot be decrypted: {0}")]
    Sealed(#[from] DecryptError),
    #[error("it is not PEM: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("it cannot be used for TLS: {0}")]
    Tls(#[from] rustls::Error),
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Database(#[from] DbError),
    #[error(transparent)]
    Unusable(#[from] Unusable),
}

impl Certificates {
    pub(crate) fn new(db: Db, clock: Clock, vault: Vault, own_name: String) -> Self {
        Self {
            db,
            clock,
            vault,
            own_name,
            names: TtlCache::new(MAX_NAMES),
            lookups: Semaphore::new(MAX_LOOKUPS),
            away_until: AtomicU64::new(0),
            // Without tickets every connection needs a full handshake.
            tickets: rustls::crypto::aws_lc_rs::Ticketer::new().ok(),
            stop: Notify::new(),
        }
    }

    /// A new certificate for this name was stored on this node: it is read at once. Other names keep their state, and
    /// so does this one while the database cannot be read.
    pub(crate) async fn changed(&self, name: &str) {
        // A reading in progress may have seen the old one.
        self.names.forget(name);
        self.read_again(name).await;
    }

    /// Whether memory knows a name: that it has no certificate, or that it had one lately.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        let now = self.clock.monotonic_millis();
        self.names.get(name, now).is_some() || self.names.old(name, now).flatten().is_some()
    }

    /// The TLS configuration for a name, if there is a certificate for it.
    pub(crate) async fn of(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.find(name).await.map(|served| Arc::clone(&served.config))
    }

    async fn find(&self, name: &str) -> Option<Arc<Served>> {
        let now = self.clock.monotonic_millis();
        if let Some(known) = self.names.get(name, now) {
            return known;
        }
        let _place = self.lookups.acquire().await.ok()?;
        // Another waiter may have read it in the meantime.
        let now = self.clock.monotonic_millis();
        if let Some(known) = self.names.get(name, now) {
            return known;
        }
        if now < self.away_until.load(Ordering::Relaxed) {
            return self.names.old(name, now).flatten();
        }
        self.read_again(name).await
    }

    async fn read_again(&self, name: &str) -> Option<Arc<Served>> {
        let now = self.clock.monotonic_millis();
        let since = self.names.since(name);
        let old = self.names.old(name, now).flatten();
        match self.load(name, old.as_deref()).await {
            Ok(Read::Same) => {
                self.names.fill(name, old.clone(), since, now);
                old
            }
            Ok(Read::Other(found)) => {
                let found = found.map(Arc::new);
                self.names.fill(name, found.clone(), since, now);
                found
            }
            // While the database cannot be read, a stale value is the better answer.
            Err(ReadError::Database(_)) => {
                self.away_until.store(now + AWAY_MILLIS, Ordering::Relaxed);
                old
            }
            Err(error) => {
                tracing::error!(name, %error, "stored certificate cannot be used");
                self.names.fill(name, None, since, now);
                None
            }
        }
    }

    async fn load(&self, name: &str, old: Option<&Served>) -> Result<Read, ReadError> {
        let known = old.map(|served| served.id.as_str());
        let mut reader = self.db.look_up().await?;
        let stored = certificates::find(&mut reader.conn(), name, &self.own_name, known).await?;
        drop(reader);
        let Some(stored) = stored else { return Ok(Read::Other(None)) };
        let (Some(chain), Some(sealed)) = (stored.chain, stored.sealed_key) else { return Ok(Read::Same) };
        let key = Zeroizing::new(self.vault.open("certificates", &stored.id, &sealed).map_err(Unusable::from)?);
        let config = server_config(&chain, &key, self.tickets.clone())?;
        Ok(Read::Other(Some(Served { id: stored.id, config: Arc::new(config) })))
    }
}

/// The result of reading a certificate again.
enum Read {
    Same,
    Other(Option<Served>),
}

/// The TLS configuration for a certificate: TLS 1.2 and later, HTTP/2 first. Fails if the key does not belong to the
/// certificate.
pub(crate) fn server_config(
    chain: &str,
    key: &[u8],
    tickets: Option<Arc<dyn ProducesTickets>>,
) -> Result<ServerConfig, Unusable> {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Sessions are resumed by tickets, which the client keeps.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if let Some(tickets) = tickets {
        config.ticketer = tickets;
    }
    Ok(config)
}
