//! The client: where the service is, who calls, and what all calls share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deeplink_core::secret::Random;
use http::HeaderValue;
use tokio::time::Instant;
use url::Url;

use crate::api::{
    Affiliates, Analytics, Apps, Domains, Events, Keys, Lifecycle, Links, Public, PublishableKeys, Sessions, Sources,
    Team, Webhooks,
};
use crate::auth::{Auth, AuthKind};
use crate::builder::{ClientBuilder, check_secure};
use crate::error::Result;
use crate::raw::RawCall;
use crate::retry::{Budget, Retry};
use crate::transport::Transport;

/// A client of the service. Clones are cheap and share connections, retry budget and pause.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) base: Url,
    pub(crate) auth: Auth,
    pub(crate) limits: Limits,
    pub(crate) user_agent: HeaderValue,
    pub(crate) pause: Pause,
    pub(crate) shared: Arc<Shared>,
    pub(crate) allow_insecure_http: bool,
}

/// What clients with different credentials share too.
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

/// Time limits and retries that a call starts with.
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

impl Client {
    /// Starts a client of the service at `base_url`, such as `https://api.example.com`.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] {
    /// use deeplink_client::{Client, SecretKey};
    ///
    /// let dl = Client::builder("https://api.example.com").secret_key(SecretKey::new("dl_live_…")).build()?;
    /// assert_eq!(dl.base_url().as_str(), "https://api.example.com/");
    /// # }
    /// # Ok::<(), deeplink_client::Error>(())
    /// ```
    pub fn builder(base_url: impl AsRef<str>) -> ClientBuilder {
        ClientBuilder::new(base_url.as_ref())
    }

    /// The same client with other credentials: same connections and retry budget, its own pause.
    pub fn with_auth(&self, auth: impl Into<Auth>) -> Result<Self> {
        let (inner, auth) = (&*self.0, auth.into());
        check_secure(&inner.base, &auth, inner.allow_insecure_http)?;
        Ok(Self(Arc::new(Inner {
            base: inner.base.clone(),
            auth,
            limits: inner.limits.clone(),
            user_agent: inner.user_agent.clone(),
            pause: Pause::default(),
            shared: Arc::clone(&inner.shared),
            allow_insecure_http: inner.allow_insecure_http,
        })))
    }

    /// Where the service is.
    pub fn base_url(&self) -> &Url {
        &self.0.base
    }

    /// Which kind of credential this client has.
    pub fn auth_kind(&self) -> AuthKind {
        self.0.auth.kind()
    }

    /// Operations that need no credential.
    pub fn public(&self) -> Public {
        Public(self.clone())
    }

    /// Signing up and signing in.
    pub fn sessions(&self) -> Sessions {
        Sessions(self.clone())
    }

    /// The people of the team.
    pub fn team(&self) -> Team {
        Team(self.clone())
    }

    /// Secret keys.
    pub fn keys(&self) -> Keys {
        Keys(self.clone())
    }

    /// Publishable keys.
    pub fn publishable_keys(&self) -> PublishableKeys {
        PublishableKeys(self.clone())
    }

    /// Affiliates and their credentials.
    pub fn affiliates(&self) -> Affiliates {
        Affiliates(self.clone())
    }

    /// Links.
    pub fn links(&self) -> Links {
        Links(self.clone())
    }

    /// Apps that open the links.
    pub fn apps(&self) -> Apps {
        Apps(self.clone())
    }

    /// Host names that the links live on.
    pub fn domains(&self) -> Domains {
        Domains(self.clone())
    }

    /// What apps, pages and servers report: clicks, installs, users, conversions.
    pub fn lifecycle(&self) -> Lifecycle {
        Lifecycle(self.clone())
    }

    /// Addresses that conversions can be posted to without a key.
    pub fn sources(&self) -> Sources {
        Sources(self.clone())
    }

    /// Addresses that events are posted to.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks(self.clone())
    }

    /// Events as they happen.
    pub fn events(&self) -> Events {
        Events(self.clone())
    }

    /// What links led to.
    pub fn analytics(&self) -> Analytics {
        Analytics(self.clone())
    }

    /// Any request at all, with this client's credential, retries and limits. `path` starts with `/` and may have a
    /// query; the reply is a value whatever its status.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::JSON;
    /// let reply = dl.request(http::Method::POST, "/v1/links").body(JSON, "{}").await?;
    /// assert_eq!(reply.status, 201);
    /// # Ok(()) });
    /// ```
    pub fn request(&self, method: http::Method, path: impl AsRef<str>) -> RawCall {
        RawCall::new(self, method, path.as_ref())
    }

    pub(crate) fn of(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base_url", &self.0.base.as_str())
            .field("auth", &self.0.auth)
            .finish_non_exhaustive()
    }
}
