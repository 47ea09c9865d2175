//! The client: a connection and the operations on it.

use url::Url;

use crate::api::{
    AccountSettings, Affiliates, Analytics, Apps, Audit, Billing, Domains, Events, Keys, Lifecycle, Links, Public,
    PublishableKeys, QrLogos, Sessions, Sources, Tags, Team, Webhooks,
};
use crate::auth::{Auth, AuthKind};
use crate::builder::ClientBuilder;
use crate::connection::{Connection, Inner, Pause, check_secure};
use crate::error::Result;
use crate::raw::RawCall;

/// A client of the service. Clones are cheap and share connections, retry budget and pause.
#[derive(Debug, Clone)]
pub struct Client(pub(crate) Connection);

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
        let (inner, auth) = (self.0.inner(), auth.into());
        check_secure(&inner.base, &auth, inner.allow_insecure_http)?;
        Ok(Self(Connection::new(Inner { auth, pause: Pause::default(), ..inner.clone() })))
    }

    /// Where the service is.
    pub fn base_url(&self) -> &Url {
        &self.0.inner().base
    }

    /// Which kind of credential this client has.
    pub fn auth_kind(&self) -> AuthKind {
        self.0.inner().auth.kind()
    }

    /// Operations that require no credential.
    pub fn public(&self) -> Public {
        Public(self.0.clone())
    }

    /// Signing up and signing in.
    pub fn sessions(&self) -> Sessions {
        Sessions(self.0.clone())
    }

    /// Team members.
    pub fn team(&self) -> Team {
        Team(self.0.clone())
    }

    /// Secret keys.
    pub fn keys(&self) -> Keys {
        Keys(self.0.clone())
    }

    /// Publishable keys.
    pub fn publishable_keys(&self) -> PublishableKeys {
        PublishableKeys(self.0.clone())
    }

    /// Affiliates and their credentials.
    pub fn affiliates(&self) -> Affiliates {
        Affiliates(self.0.clone())
    }

    /// Links.
    pub fn links(&self) -> Links {
        Links(self.0.clone())
    }

    /// Tags, which group links.
    pub fn tags(&self) -> Tags {
        Tags(self.0.clone())
    }

    /// Uploaded logos for QR codes.
    pub fn qr_logos(&self) -> QrLogos {
        QrLogos(self.0.clone())
    }

    /// Apps that open the links.
    pub fn apps(&self) -> Apps {
        Apps(self.0.clone())
    }

    /// Custom domains.
    pub fn domains(&self) -> Domains {
        Domains(self.0.clone())
    }

    /// What apps, pages and servers report: clicks, installs, users, conversions.
    pub fn lifecycle(&self) -> Lifecycle {
        Lifecycle(self.0.clone())
    }

    /// URLs that conversions can be posted to without a key.
    pub fn sources(&self) -> Sources {
        Sources(self.0.clone())
    }

    /// URLs that events are posted to.
    pub fn webhooks(&self) -> Webhooks {
        Webhooks(self.0.clone())
    }

    /// Events as they happen.
    pub fn events(&self) -> Events {
        Events(self.0.clone())
    }

    /// Results of links.
    pub fn analytics(&self) -> Analytics {
        Analytics(self.0.clone())
    }

    /// The account's settings.
    pub fn account(&self) -> AccountSettings {
        AccountSettings(self.0.clone())
    }

    /// Who changed what in the account.
    pub fn audit(&self) -> Audit {
        Audit(self.0.clone())
    }

    /// The account's plan.
    pub fn billing(&self) -> Billing {
        Billing(self.0.clone())
    }

    /// Any request, with this client's credential, retries and limits. `path` starts with `/` and may have a query; the
    /// response is a value, whatever its status.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::JSON;
    /// let reply = dl.request(http::Method::POST, "/v1/links").body(JSON, "{}").await?;
    /// assert_eq!(reply.status, 201);
    /// # Ok(()) });
    /// ```
    pub fn request(&self, method: http::Method, path: impl AsRef<str>) -> RawCall {
        RawCall::new(&self.0, method, path.as_ref())
    }
}
