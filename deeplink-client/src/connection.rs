//! What every call of a client needs: where the service is, the credential, limits, and what clients share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deeplink_core::secret::Random;
use http::HeaderValue;
use tokio::time::Instant;
use url::{Host, Url};

use crate::auth::{Auth, AuthKind};
use crate::error::{Error, Result};
use crate::payer::Payer;
use crate::retry::{Budget, Retry};
use crate::transport::Transport;

/// The state of a [`crate::Client`] and its operations. Clones share everything.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) base: Url,
    pub(crate) auth: Auth,
    /// Pays for requests if there is no key.
    pub(crate) payer: Option<Arc<dyn Payer>>,
    pub(crate) limits: Limits,
    pub(crate) user_agent: HeaderValue,
    pub(crate) pause: Pause,
    pub(crate) shared: Arc<Shared>,
    pub(crate) allow_insecure_http: bool,
}

/// The state that clients with different credentials also share.
pub(crate) struct Shared {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) budget: Budget,
    random: Mutex<Random>,
}

impl Shared {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, budget: Budget::new(), random: Mutex::new(Random::system()) }
    }

    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Default time limits and retries of a call.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) call: Duration,
    pub(crate) attempt: Duration,
    pub(crate) retry: Retry,
}

impl Default for Limits {
    fn default() -> Self {
        Self { call: Duration::from_secs(90), attempt: Duration::from_secs(30), retry: Retry::default() }
    }
}

/// Until when the service asked this credential to wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pause(Arc<Mutex<Option<Instant>>>);

impl Pause {
    pub(crate) fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn extend(&self, until: Instant) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(held.map_or(until, |before| before.max(until)));
    }
}

impl Connection {
    pub(crate) fn new(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("base_url", &self.0.base.as_str())
            .field("auth", &self.0.auth)
            .finish_non_exhaustive()
    }
}

/// Fails where a credential would be sent unencrypted to another machine.
pub(crate) fn check_secure(base: &Url, auth: &Auth, allowed: bool) -> Result<()> {
    if allowed || auth.kind() == AuthKind::None || is_confidential(base) {
        return Ok(());
    }
    Err(Error::builder("a credential cannot be sent over plain http to another machine; use https"))
}

/// Whether data sent there cannot be read on the network path.
pub(crate) fn is_confidential(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || loopback
}
