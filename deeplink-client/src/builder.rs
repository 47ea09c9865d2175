//! The builder of a [`Client`], and the checks on its settings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deeplink_core::secret::{PublishableKey, SecretKey, Token};
use http::HeaderValue;
use url::Url;

use crate::auth::Auth;
use crate::client::Client;
use crate::connection::{Connection, Inner, Limits, Pause, Shared, check_secure, is_confidential};
use crate::error::{Error, Result};
use crate::payer::Payer;
use crate::retry::Retry;
use crate::transport::{HttpTransport, Transport};

/// A layer around a transport.
type Wrap = Box<dyn FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport> + Send>;

/// Collects the settings of a [`Client`]. [`ClientBuilder::build`] returns an error for an invalid value.
#[must_use]
pub struct ClientBuilder {
    base_url: String,
    auth: Auth,
    payer: Option<Arc<dyn Payer>>,
    limits: Limits,
    connect_timeout: Option<Duration>,
    user_agent: Option<String>,
    proxy: Option<String>,
    roots: Vec<Vec<u8>>,
    reqwest: Option<reqwest::Client>,
    transport: Option<Arc<dyn Transport>>,
    wrap: Vec<Wrap>,
    allow_insecure_http: bool,
}

impl ClientBuilder {
    pub(crate) fn new(base_url: &str) -> Self {
        Self {
            base_url: base_url.to_owned(),
            auth: Auth::None,
            payer: None,
            limits: Limits::default(),
            connect_timeout: None,
            user_agent: None,
            proxy: None,
            roots: Vec::new(),
            reqwest: None,
            transport: None,
            wrap: Vec::new(),
            allow_insecure_http: false,
        }
    }

    /// Sets the credential.
    pub fn auth(mut self, auth: impl Into<Auth>) -> Self {
        self.auth = auth.into();
        self
    }

    /// Calls with this secret key.
    pub fn secret_key(self, key: impl Into<SecretKey>) -> Self {
        self.auth(Auth::SecretKey(key.into()))
    }

    /// Calls with this publishable key, as apps and pages do.
    pub fn publishable_key(self, key: impl Into<PublishableKey>) -> Self {
        self.auth(Auth::PublishableKey(key.into()))
    }

    /// Calls as a signed-in user, with the token of the session.
    pub fn session(self, token: impl Into<Token>) -> Self {
        self.auth(Auth::Session(token.into()))
    }

    /// Pays for requests if the client has no key: when a response requires a payment, this signs one, once per call. Further
    /// attempts carry the same payment, which is charged once.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |_| {
    /// use deeplink_client::deeplink_core::x402::{Network, Usdc};
    /// use deeplink_client::mock::{MockTransport, fixtures};
    /// use deeplink_client::transport::BoxFuture;
    /// use deeplink_client::{Client, CreateLink, Payer, Requirement};
    /// use http::Method;
    /// use serde_json::{Value, json};
    ///
    /// const NETWORK: Network = Network::BASE_SEPOLIA;
    /// const ASSET: &str = Usdc::ON_BASE_SEPOLIA.asset;
    /// /// 0.01 USDC, which has 6 decimals.
    /// const MAX_PRICE: u64 = 10_000;
    ///
    /// struct Wallet;
    ///
    /// impl Payer for Wallet {
    ///     fn pay<'a>(
    ///         &'a self,
    ///         requirement: &'a Requirement,
    ///     ) -> BoxFuture<'a, Result<Value, Box<dyn std::error::Error + Send + Sync>>> {
    ///         Box::pin(async move {
    ///             // An amount means nothing until the token is known.
    ///             if !NETWORK.is(&requirement.network) || !NETWORK.same(&requirement.asset, ASSET) {
    ///                 return Err("not in USDC on Base Sepolia".into());
    ///             }
    ///             if requirement.amount.parse::<u64>()? > MAX_PRICE {
    ///                 return Err("too expensive".into());
    ///             }
    ///             // Signed by a wallet's library in a real program.
    ///             Ok(json!({"signature": "0x…", "authorization": {"to": requirement.pay_to}}))
    ///         })
    ///     }
    /// }
    ///
    /// let asked = fixtures::payment_required("10000");
    /// let mock = MockTransport::new()
    ///     .on(Method::POST, "/v1/links").json(402, asked).json(201, fixtures::created_link("spring-42"));
    /// let dl = Client::builder("https://api.example.com").payer(Wallet).transport(mock.clone()).build()?;
    /// let made = dl.links().create(&CreateLink::new()).full().await?;
    /// assert_eq!((made.value.link_id.as_str(), mock.calls().len()), ("spring-42", 2));
    /// # Ok(()) });
    /// ```
    pub fn payer(mut self, payer: impl Payer) -> Self {
        self.payer = Some(Arc::new(payer));
        self
    }

    /// Time limit for a call, including all attempts and waits; 90 s by default.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limits.call = limit;
        self
    }

    /// Time limit for one attempt, including its body; 30 s by default.
    pub fn attempt_timeout(mut self, limit: Duration) -> Self {
        self.limits.attempt = limit;
        self
    }

    /// Time limit for connecting; 5 s by default.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = Some(limit);
        self
    }

    /// Sets how failed attempts are retried.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.limits.retry = retry;
        self
    }

    /// Puts the caller's name before the client's own in `User-Agent`.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = Some(name.into());
        self
    }

    /// Sends everything through this proxy instead of the one set in the environment.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Also trusts this certificate (PEM).
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.roots.push(pem.into());
        self
    }

    /// Uses this HTTP client. Its own settings apply: connections, proxies, certificates, redirects (which should be
    /// off).
    pub fn reqwest_client(mut self, client: reqwest::Client) -> Self {
        self.reqwest = Some(client);
        self
    }

    /// Sends requests with this instead of over HTTP.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Puts a layer around the transport, for recording or logging traffic.
    pub fn wrap_transport(
        mut self,
        wrap: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport> + Send + 'static,
    ) -> Self {
        self.wrap.push(Box::new(wrap));
        self
    }

    /// Allows credentials to be sent over plain `http` to another machine.
    pub fn allow_insecure_http(mut self, allow: bool) -> Self {
        self.allow_insecure_http = allow;
        self
    }

    /// Creates the client.
    pub fn build(self) -> Result<Client> {
        let base = parse_base(&self.base_url)?;
        check_secure(&base, &self.auth, self.allow_insecure_http)?;
        if self.payer.is_some() && !self.allow_insecure_http && !is_confidential(&base) {
            return Err(Error::builder("a payment cannot be sent over plain http to another machine; use https"));
        }
        if self.limits.call.is_zero() || self.limits.attempt.is_zero() || self.connect_timeout == Some(Duration::ZERO) {
            return Err(Error::builder("a time limit must be greater than zero"));
        }
        let own = concat!("deeplink-client/", env!("CARGO_PKG_VERSION"));
        let user_agent = self.user_agent.as_ref().map_or_else(|| own.to_owned(), |name| format!("{name} {own}"));
        let user_agent = HeaderValue::try_from(user_agent)
            .map_err(|_| Error::builder("the user agent contains characters that a header cannot contain"))?;
        let settings = self.connect_timeout.is_some() || self.proxy.is_some() || !self.roots.is_empty();
        let mut transport: Arc<dyn Transport> = match (self.transport, self.reqwest) {
            (Some(_), Some(_)) => return Err(Error::builder("use either a transport or a reqwest client, not both")),
            (Some(_), None) | (None, Some(_)) if settings => {
                return Err(Error::builder("connection settings do not apply to a custom transport"));
            }
            (Some(transport), None) => transport,
            (None, Some(client)) => Arc::new(HttpTransport(client)),
            (None, None) => {
                check_tls(&base)?;
                Arc::new(HttpTransport(http_client(self.connect_timeout, self.proxy.as_deref(), &self.roots)?))
            }
        };
        for wrap in self.wrap {
            transport = wrap(transport);
        }
        Ok(Client(Connection::new(Inner {
            base,
            auth: self.auth,
            payer: self.payer,
            limits: self.limits,
            user_agent,
            pause: Pause::default(),
            shared: Arc::new(Shared::new(transport)),
            allow_insecure_http: self.allow_insecure_http,
        })))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("auth", &self.auth).finish_non_exhaustive()
    }
}

fn parse_base(text: &str) -> Result<Url> {
    let url = Url::parse(text).map_err(|why| Error::builder(format!("the base URL is not a URL: {why}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(Error::builder("the base URL must start with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::builder("the base URL must not contain a user name or password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Error::builder("the base URL must not have a query or fragment"));
    }
    Ok(url)
}

fn check_tls(base: &Url) -> Result<()> {
    if base.scheme() == "https" && !cfg!(feature = "rustls") {
        return Err(Error::builder("https requires the feature `rustls`"));
    }
    Ok(())
}

/// Less than the 75 s after which the service closes an idle connection: it cannot answer a request sent at that moment.
const POOL_IDLE: Duration = Duration::from_mins(1);

fn http_client(connect: Option<Duration>, proxy: Option<&str>, roots: &[Vec<u8>]) -> Result<reqwest::Client> {
    let wrong = |what: &'static str| move |why: reqwest::Error| Error::from_source(crate::Kind::Builder, what, why);
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect.unwrap_or(Duration::from_secs(5)))
        .pool_idle_timeout(POOL_IDLE)
        .tcp_nodelay(true);
    if let Some(proxy) = proxy {
        let known = Url::parse(proxy).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !known {
            return Err(Error::builder("the proxy must be a URL that starts with http:// or https://"));
        }
        builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(wrong("the proxy is not a URL"))?);
    }
    builder = trust(builder, roots)?;
    builder.build().map_err(wrong("the HTTP client cannot be built"))
}

/// Makes a client also trust these certificates (PEM).
#[cfg(feature = "rustls")]
pub(crate) fn trust(mut builder: reqwest::ClientBuilder, roots: &[Vec<u8>]) -> Result<reqwest::ClientBuilder> {
    let wrong = "the root certificate is not PEM";
    for pem in roots {
        let certificates = reqwest::Certificate::from_pem_bundle(pem)
            .map_err(|why| Error::from_source(crate::Kind::Builder, wrong, why))?;
        if certificates.is_empty() {
            return Err(Error::builder(wrong));
        }
        builder = certificates.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
    }
    Ok(builder)
}

#[cfg(not(feature = "rustls"))]
fn trust(builder: reqwest::ClientBuilder, roots: &[Vec<u8>]) -> Result<reqwest::ClientBuilder> {
    if roots.is_empty() { Ok(builder) } else { Err(Error::builder("certificates require the feature `rustls`")) }
}
