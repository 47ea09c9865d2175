//! OAuth providers to sign in with.

use std::fmt;

use secrecy::SecretString;
use url::{Host, Url};

use super::{BadSetting, Environment, optional};

/// The configured providers.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OauthProviders {
    /// Google.
    pub google: Option<OauthProvider>,
    /// GitHub.
    pub github: Option<OauthProvider>,
}

/// A provider and our client credentials.
#[derive(Clone)]
#[non_exhaustive]
pub struct OauthProvider {
    /// Our client ID.
    pub client_id: String,
    /// Our client secret.
    pub client_secret: SecretString,
    /// Base URL of the endpoints; `None` uses the provider's own.
    pub base: Option<Url>,
}

impl fmt::Debug for OauthProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthProvider").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

impl OauthProvider {
    /// A provider at the given base URL; for servers inside tests.
    pub fn new(client_id: impl Into<String>, client_secret: impl Into<String>, base: Url) -> Self {
        Self { client_id: client_id.into(), client_secret: SecretString::from(client_secret.into()), base: Some(base) }
    }

    /// Reads the three variables of a provider; client ID and secret must be set together. `None`: not configured.
    pub(super) fn read(
        name: &str,
        client_id: Option<&str>,
        base: Option<&str>,
        environment: &Environment,
    ) -> Result<Option<Self>, BadSetting> {
        let [id, secret, issuer_base] =
            ["CLIENT_ID", "CLIENT_SECRET", "ISSUER_BASE"].map(|part| format!("DEEPLINK_OAUTH_{name}_{part}"));
        let client_secret = environment.secret(&secret)?;
        let base = optional(&issuer_base, base, base_url)?;
        match (client_id.filter(|id| !id.is_empty()), client_secret) {
            (Some(client_id), Some(client_secret)) => {
                Ok(Some(Self { client_id: client_id.to_owned(), client_secret: client_secret.into(), base }))
            }
            (Some(_), None) => Err(BadSetting::alone(&id, &secret)),
            (None, Some(_)) => Err(BadSetting::alone(&secret, &id)),
            (None, None) if base.is_some() => Err(BadSetting::alone(&issuer_base, &id)),
            (None, None) => Ok(None),
        }
    }
}

/// A base URL for endpoints: https, or plain http on this machine.
pub(super) fn base_url(text: &str) -> Result<Url, String> {
    let form = || format!("{text:?} is not an https URL such as https://accounts.example.com");
    let url = Url::parse(text).map_err(|_| form())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or password".into());
    }
    if url.query().is_some() || url.fragment().is_some() || !url.has_host() {
        return Err(form());
    }
    let own = match url.host() {
        Some(Host::Domain(host)) => host == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if own => Ok(url),
        "http" => Err("plain http is allowed only for this machine; use https".into()),
        _ => Err(form()),
    }
}
