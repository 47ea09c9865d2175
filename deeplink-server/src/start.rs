//! Starts a service from a configuration, and stops it without losing anything.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::api::mcp;
use crate::certificates::Certificates;
use crate::clicks::Clicks;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::{Access, Db, DbError, OpenError, public_url as kept_url};
use crate::http::listen::{self, Limits, Listeners, OpenFiles, Stop};
use crate::http::misses;
use crate::metrics::Metrics;
use crate::service::Service;
use crate::state::{App, Shared};
use crate::vault::{UnlockError, Vault};
use crate::work::{self, Work, notices};
use crate::{operators, pages, routes};

/// How long a shutdown waits for pending clicks to be stored.
const LAST_CLICKS: Duration = Duration::from_secs(2);
/// How long a shutdown waits for a mail that is being sent.
const LAST_WORK: Duration = Duration::from_millis(500);

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] OpenError),
    /// The master keys do not match.
    #[error(transparent)]
    Keys(#[from] UnlockError),
    /// The service cannot listen on the address.
    #[error("cannot listen on {address}: {error}{}", remedy(address, flag, error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The flag that sets it.
        flag: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
    /// The data directory cannot be used.
    #[error("the data directory cannot be used: {0}")]
    Files(#[from] std::io::Error),
}

/// What to do about an address that is in use.
fn remedy(address: &SocketAddr, flag: &str, error: &std::io::Error) -> String {
    if error.kind() != std::io::ErrorKind::AddrInUse {
        return String::new();
    }
    let next = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(8081));
    format!("; choose another address, such as {flag} {next}")
}

/// A running service.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it serves https, if it does.
    pub tls_address: Option<SocketAddr>,
    /// Where operators reach it, if configured.
    pub admin_address: Option<SocketAddr>,
    app: Shared,
    stop: watch::Sender<Stop>,
    serving: JoinHandle<usize>,
    /// How long requests in progress may take once it stops.
    drain: Duration,
    work: Work,
}

/// Starts the service: once this returns, requests are answered.
pub async fn start(config: Config, clock: Clock) -> Result<Running, StartError> {
    let limits = Limits::default();
    // Here and not where a test begins, because the limit applies to the whole process.
    let files = OpenFiles::raise().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot raise the limit on open files");
        OpenFiles::now()
    });
    let connections = limits.clone().within(files.soft).connections;
    if connections < limits.connections {
        tracing::info!(files = files.soft, connections, "limit on open files reduces the number of connections");
    } else {
        tracing::debug!(files = files.soft, connections, "limit on open files");
    }
    start_with(config, clock, limits).await
}

/// As [`start`], with limits of connections that a test can shorten.
pub async fn start_with(config: Config, clock: Clock, mut limits: Limits) -> Result<Running, StartError> {
    limits.trusted.extend(&config.trusted_proxies);
    let listen_on = |flag, address| async move {
        let listener = listen::bind(address).map_err(|error| StartError::Listen { address, flag, error })?;
        let bound = listener.local_addr().map_err(|error| StartError::Listen { address, flag, error })?;
        Ok::<_, StartError>((listener, bound))
    };
    let db = Db::open(config.database.as_str(), Access::Serve, config.database_timeout).await?;
    let (listener, address) = listen_on("--listen", config.listen).await?;
    let public_url = config.public_url_at(address);
    let vault = Vault::unlock(&config, &db, &public_url).await?;
    if let Err(error) = kept_url::keep(&db, &public_url).await {
        tracing::warn!(%error, "the public URL could not be stored; until the next start, `tenant signin` may print links with another base URL");
    }
    let clicks = Clicks::start(db.clone(), clock.clone(), &config.data_dir, config.enforce_quotas)?;
    let admin = match config.admin_listen {
        Some(address) => Some(listen_on("--admin-listen", address).await?),
        None => None,
    };
    let tls = match &config.tls {
        Some(tls) => Some(listen_on("--tls-listen", tls.listen).await?),
        None => None,
    };
    let metrics = Metrics::new(pages::PATHS.iter().copied().chain([mcp::PATH]));
    let app = Arc::new(App::new(config, public_url, db, clock, vault, clicks, metrics));
    let (stop, stopping) = watch::channel(Stop::Not);
    let admin_address = admin.as_ref().map(|(_, bound)| *bound);
    if let Some((listener, _)) = admin {
        tokio::spawn(operators::serve(listener, Arc::clone(&app), stopping.clone()));
    }
    if let Some(url) = app.db.postgres_url().map(str::to_owned) {
        tokio::spawn(notices::listen(Arc::clone(&app), url));
    } else {
        tokio::spawn(notices::watch_file(Arc::clone(&app)));
    }
    let certificates = app.config.tls.as_ref().map(|_| {
        let own_name = app.own_secured_name().to_owned();
        Arc::new(Certificates::new(app.db.clone(), app.clock.clone(), app.vault.clone(), own_name))
    });
    if let Some(facilitator) = &app.facilitator {
        // So that the first request learns its price.
        Box::pin(facilitator.ask(app.clock.monotonic_millis())).await;
    }
    let work = work::start(&app, certificates.as_ref());
    let router = routes::router(Arc::clone(&app));
    let tls_address = tls.as_ref().map(|(_, bound)| *bound);
    let listeners = match tls.zip(certificates.clone()) {
        Some(((secure, _), certificates)) => {
            let handshakes = Handshakes { app: Arc::clone(&app), certificates };
            Listeners::with_tls(listener, secure, Arc::new(handshakes))
        }
        None => listener.into(),
    };
    let drain = limits.drain;
    let serving = tokio::spawn({
        let app = Arc::clone(&app);
        async move {
            listen::serve(listeners, limits, stopping, |peer, unread| {
                Service::new(Arc::clone(&app), router.clone(), peer, unread)
            })
            .await
        }
    });
    Ok(Running { address, tls_address, admin_address, app, stop, serving, drain, work })
}

/// The certificates for handshakes. A name without one is a miss of the client's address.
struct Handshakes {
    app: Shared,
    certificates: Arc<Certificates>,
}

impl listen::Certificates for Handshakes {
    fn of<'a>(&'a self, name: &'a str, client: Option<IpAddr>) -> BoxFuture<'a, Option<Arc<ServerConfig>>> {
        let Self { app, certificates } = self;
        async move {
            let found = certificates.of(name);
            let Some(client) = client else { return found.await };
            let is_known = certificates.is_known(name);
            // Over its limit, a client is told that the name has no certificate.
            misses::look_up(app, client, is_known, found.map(Ok)).await.ok().flatten()
        }
        .boxed()
    }
}

impl Running {
    /// Where people reach the service.
    pub fn public_url(&self) -> &url::Url {
        &self.app.public_url
    }

    #[cfg(test)]
    pub(crate) fn certificates(&self) -> &Certificates {
        self.work.certificates().expect("TLS of our own")
    }

    /// Takes an account's share of lists and reports until the result is dropped; with `waiting` its whole queue too,
    /// so that further ones are refused. For tests.
    pub fn hold_reports(&self, tenant: &TenantId, waiting: bool) -> impl Send + use<> {
        self.app.hold_reports(tenant, waiting)
    }

    /// Takes every read connection, except those for visits and credentials, until the result is dropped. For tests.
    pub async fn hold_readers(&self) -> Result<impl Send + use<>, DbError> {
        self.app.db.read_all().await
    }

    /// How often visits and credentials have asked the database. For tests.
    pub fn lookups(&self) -> u64 {
        self.app.db.looked_up()
    }

    /// Waits until every click that this node has answered is stored and counted; two seconds at most. For tests.
    pub async fn count_clicks(&self) {
        self.app.clicks.counted().await;
    }

    /// The state, for commands and tests of this crate.
    pub(crate) fn app(&self) -> &Shared {
        &self.app
    }

    /// Resolves when the database could not be synced: the process must exit with an error.
    pub async fn failed(&self) {
        self.app.db.failed().await;
    }

    /// Asks for a stop, and can ask for a faster one later.
    pub fn ask_to_stop(&self, how: Stop) {
        self.app.stopping.store(true, Ordering::Relaxed);
        self.app.streams.stop();
        self.app.ending.cancel();
        self.stop.send_if_modified(|now| {
            let sooner = how > *now;
            *now = how.max(*now);
            sooner
        });
    }

    /// A way to ask for a faster stop while [`Running::stopped`] waits.
    pub fn stop_sender(&self) -> watch::Sender<Stop> {
        self.stop.clone()
    }

    /// Waits until every admitted request is answered, then stores what is pending and closes the database. Returns the
    /// number of connections that had to be cut.
    pub async fn stopped(mut self) -> usize {
        let drained = Instant::now() + self.drain;
        let cut = (&mut self.serving).await.unwrap_or(0);
        self.app.stopping.store(true, Ordering::Relaxed);
        self.app.ending.cancel();
        let hurry = || {
            let mut asked = self.stop.subscribe();
            async move { drop(asked.wait_for(|asked| *asked == Stop::AtOnce).await) }
        };
        // The payer may have disconnected; what they paid for is done all the same.
        self.app.payments.close();
        tokio::select! {
            _ = timeout_at(drained, self.app.payments.wait()) => {}
            () = hurry() => {}
        }
        // Delivery attempts get some more time, unless a faster stop was asked for.
        self.work.finish(&self.app, LAST_WORK, hurry()).await;
        self.app.clicks.drain(LAST_CLICKS).await;
        self.app.db.close().await;
        cut
    }
}
