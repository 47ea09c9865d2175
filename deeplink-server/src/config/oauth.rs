//! Identity providers to sign in with.

use std::fmt;

use secrecy::SecretString;
use url::{Host, Url};

use super::{BadSetting, Environment, optional};

/// The providers that are set up.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OauthProviders {
    /// Google.
    pub google: Option<OauthProvider>,
    /// GitHub.
    pub github: Option<OauthProvider>,
}

/// A provider, and who we are to it.
#[derive(Clone)]
#[non_exhaustive]
pub struct OauthProvider {
    /// Our id there.
    pub client_id: String,
    /// Our secret there.
    pub client_secret: SecretString,
    /// Where its endpoints are; without one they are the provider's own.
    pub base: Option<Url>,
}

impl fmt::Debug for OauthProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthProvider").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

impl OauthProvider {
    /// A provider at an address of its own; for servers inside tests.
    pub fn new(client_id: impl Into<String>, client_secret: impl Into<String>, base: Url) -> Self {
        Self { client_id: client_id.into(), client_secret: SecretString::from(client_secret.into()), base: Some(base) }
    }

    /// From the three variables of a provider, of which the first two go together. `None`: nobody signs in with it.
    pub(super) fn read(
        name: &str,
        client_id: Option<&str>,
        base: Option<&str>,
        environment: &Environment,
    ) -> Result<Option<Self>, BadSetting> {
        let [id, secret, place] =
            ["CLIENT_ID", "CLIENT_SECRET", "ISSUER_BASE"].map(|part| format!("DEEPLINK_OAUTH_{name}_{part}"));
        let client_secret = environment.secret(&secret)?;
        let base = optional(&place, base, base_url)?;
        let alone = |variable: String, other: &str| {
            let problem = format!("has no effect without {other}: set both or none");
            Err(BadSetting { variable, problem })
        };
        match (client_id.filter(|id| !id.is_empty()), client_secret) {
            (Some(client_id), Some(client_secret)) => {
                Ok(Some(Self { client_id: client_id.to_owned(), client_secret: client_secret.into(), base }))
            }
            (Some(_), None) => alone(id, &secret),
            (None, Some(_)) => alone(secret, &id),
            (None, None) if base.is_some() => alone(place, &id),
            (None, None) => Ok(None),
        }
    }
}

/// A place for endpoints: https, or plain http on this machine.
fn base_url(text: &str) -> Result<Url, String> {
    let form = || format!("{text:?} is not an https URL, such as https://accounts.example.com");
    let url = Url::parse(text).map_err(|_| form())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user or password has no place here".into());
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
        "http" => Err("plain http is spoken with this machine only".into()),
        _ => Err(form()),
    }
}
