//! Identity providers: where people are sent to sign in, and how we then learn which address they proved.
//!
//! Nothing that a provider says reaches a caller, and only an address that it has verified counts.

use std::time::Duration;

use bytes::Bytes;
use deeplink_core::secret::Token;
use deeplink_core::user::Email;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use oauth2::basic::BasicClient;
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointNotSet,
    EndpointSet, HttpRequest, HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, TokenResponse,
    TokenUrl,
};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use url::Url;

use super::http::{Call, CallError, Http, Terms};
use crate::config::{Config, OauthProvider};

/// How long all calls of one sign-in may take.
const TOTAL: Duration = Duration::from_secs(8);
/// Largest answer of a provider, in bytes.
const LARGEST: usize = 64 << 10;
/// Sign-ins that wait for a provider at once.
const MAX_CONCURRENT: usize = 64;

/// A provider that people can sign in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Google,
    Github,
}

impl Name {
    /// Every provider.
    pub(crate) const ALL: [Self; 2] = [Self::Google, Self::Github];

    /// The name in paths and rows.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Google => "google",
            Self::Github => "github",
        }
    }

    /// The provider of a path.
    pub(crate) fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    fn of(self, config: &Config) -> Option<&OauthProvider> {
        match self {
            Self::Google => config.oauth.google.as_ref(),
            Self::Github => config.oauth.github.as_ref(),
        }
    }
}

/// Why a person could not be identified.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unidentified {
    /// The provider failed, or its answer is not understood; the text is for the log.
    #[error("{0}")]
    Provider(String),
    /// It knows addresses, but has verified none of them.
    #[error("none of the user's email addresses is verified")]
    Unverified,
    /// It knows no address.
    #[error("the provider has no email address for this user")]
    NoEmail,
}

impl From<CallError> for Unidentified {
    fn from(failed: CallError) -> Self {
        Self::Provider(failed.in_short())
    }
}

type Client = BasicClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

/// The configured providers, and the client to call them.
pub(crate) struct Providers {
    http: Http,
    places: Semaphore,
    google: Option<Provider>,
    github: Option<Provider>,
}

struct Provider {
    client: Client,
    scopes: &'static [&'static str],
    emails: EmailSource,
}

/// Where a provider lists a person's addresses.
enum EmailSource {
    /// In the user's profile.
    User(String),
    /// In a separate list.
    Emails(String),
}

impl Providers {
    /// With the operator's settings.
    pub(crate) fn new(config: &Config, public_url: &Url) -> Self {
        let provider = |name: Name| {
            let made = Provider::new(name, name.of(config).filter(|_| config.sessions)?, public_url);
            // The parts were URLs before, so this should not fail.
            made.inspect_err(
                |error| tracing::error!(provider = name.as_str(), %error, "identity provider cannot be used"),
            )
            .ok()
        };
        Self {
            http: Http::for_operator(config),
            places: Semaphore::new(MAX_CONCURRENT),
            google: provider(Name::Google),
            github: provider(Name::Github),
        }
    }

    fn get(&self, name: Name) -> Option<&Provider> {
        match name {
            Name::Google => self.google.as_ref(),
            Name::Github => self.github.as_ref(),
        }
    }

    /// Whether people can sign in with it.
    pub(crate) fn has(&self, name: Name) -> bool {
        self.get(name).is_some()
    }

    /// Where a person signs in. `verifier` is sent when the code is exchanged; the provider gets its SHA-256 now (RFC
    /// 7636, section 4.2). `None`: the provider is not set up.
    pub(crate) fn address(&self, name: Name, state: &Token, verifier: &Token) -> Option<Url> {
        let provider = self.get(name)?;
        let verifier = PkceCodeVerifier::new(verifier.expose().to_owned());
        let state = CsrfToken::new(state.expose().to_owned());
        let request = provider
            .client
            .authorize_url(|| state)
            .add_scopes(provider.scopes.iter().map(|scope| Scope::new((*scope).to_owned())))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        Some(request.url().0)
    }

    /// The address of the person that a code stands for.
    pub(crate) async fn identify(&self, name: Name, code: &str, verifier: &str) -> Result<Email, Unidentified> {
        let provider = self.get(name).ok_or_else(|| Unidentified::Provider("it is not configured".into()))?;
        let Ok(_place) = self.places.try_acquire() else {
            return Err(Unidentified::Provider("too many sign-ins are waiting for providers".into()));
        };
        let terms = Terms { began: Instant::now(), total: TOTAL, largest: LARGEST };
        let token = provider
            .client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(verifier.to_owned()))
            .request_async(&Exchange { http: &self.http, terms })
            .await
            // Its answer may contain a token, so none of it is repeated.
            .map_err(|error| match error {
                oauth2::RequestTokenError::Request(failed) => Unidentified::from(failed),
                oauth2::RequestTokenError::ServerResponse(_) => Unidentified::Provider("it rejected the code".into()),
                _ => Unidentified::Provider("its response to the code could not be parsed".into()),
            })?;
        let bearer = token.access_token().secret();
        match &provider.emails {
            EmailSource::User(url) => self.get_json::<User>(url, bearer, terms).await?.verified(),
            EmailSource::Emails(url) => verified_of(&self.get_json::<Vec<Address>>(url, bearer, terms).await?),
        }
    }

    async fn get_json<T: DeserializeOwned>(&self, url: &str, bearer: &str, terms: Terms) -> Result<T, Unidentified> {
        let mut headers = HeaderMap::new();
        let mut bearer = HeaderValue::try_from(format!("Bearer {bearer}"))
            .map_err(|_| Unidentified::Provider("its token is not a valid header value".into()))?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let accepts = |status| status == StatusCode::OK;
        let call = Call { method: Method::GET, url, headers, body: Bytes::new(), accepts, terms };
        let body = self.http.call(call).await?;
        serde_json::from_slice(&body)
            .map_err(|_| Unidentified::Provider("its response is not the expected JSON".into()))
    }
}

/// The HTTP client that exchanges codes for tokens.
struct Exchange<'a> {
    http: &'a Http,
    terms: Terms,
}

impl<'c> AsyncHttpClient<'c> for Exchange<'_> {
    type Error = CallError;
    type Future = BoxFuture<'c, Result<HttpResponse, CallError>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        async move {
            let (parts, body) = request.into_parts();
            let url = parts.uri.to_string();
            let (headers, body, accepts) = (parts.headers, Bytes::from(body), |status| status == StatusCode::OK);
            let call = Call { method: parts.method, url: &url, headers, body, accepts, terms: self.terms };
            Ok(HttpResponse::new(self.http.call(call).await?.into()))
        }
        .boxed()
    }
}

impl Provider {
    fn new(name: Name, config: &OauthProvider, public_url: &Url) -> Result<Self, url::ParseError> {
        let base = config.base.as_ref().map(|base| base.as_str().trim_end_matches('/').to_owned());
        let at = |path: &str, own: &str| base.as_ref().map_or_else(|| own.to_owned(), |base| format!("{base}{path}"));
        let (authorize, token, emails, scopes): (_, _, _, &'static [&'static str]) = match name {
            Name::Google => (
                at("/authorize", "https://accounts.google.com/o/oauth2/v2/auth"),
                at("/token", "https://oauth2.googleapis.com/token"),
                EmailSource::User(at("/userinfo", "https://openidconnect.googleapis.com/v1/userinfo")),
                &["openid", "email"],
            ),
            Name::Github => (
                at("/login/oauth/authorize", "https://github.com/login/oauth/authorize"),
                at("/login/oauth/access_token", "https://github.com/login/oauth/access_token"),
                EmailSource::Emails(at("/user/emails", "https://api.github.com/user/emails")),
                &["user:email"],
            ),
        };
        let root = public_url.as_str().trim_end_matches('/');
        let client = BasicClient::new(ClientId::new(config.client_id.clone()))
            .set_client_secret(ClientSecret::new(config.client_secret.expose_secret().to_owned()))
            .set_auth_type(AuthType::RequestBody)
            .set_auth_uri(AuthUrl::new(authorize)?)
            .set_token_uri(TokenUrl::new(token)?)
            .set_redirect_uri(RedirectUrl::new(format!("{root}/v1/auth/oauth/{}/callback", name.as_str()))?);
        Ok(Self { client, scopes, emails })
    }
}

/// What a provider says about a person (OpenID Connect Core 1.0, section 5.1).
#[derive(Deserialize)]
struct User {
    email: Option<String>,
    #[serde(default)]
    email_verified: Verified,
}

/// `true` or, as some providers write it, `"true"`.
#[derive(Default, Deserialize)]
#[serde(untagged)]
enum Verified {
    Word(String),
    Flag(bool),
    #[default]
    Absent,
}

impl User {
    fn verified(self) -> Result<Email, Unidentified> {
        let email = self.email.filter(|email| !email.is_empty()).ok_or(Unidentified::NoEmail)?;
        let verified = match self.email_verified {
            Verified::Flag(verified) => verified,
            Verified::Word(word) => word == "true",
            Verified::Absent => false,
        };
        if verified { address(&email) } else { Err(Unidentified::Unverified) }
    }
}

/// One of a person's addresses at GitHub.
#[derive(Deserialize)]
struct Address {
    email: String,
    #[serde(default)]
    primary: bool,
    #[serde(default)]
    verified: bool,
}

/// The primary address if it is verified, else the first one that is. An address that GitHub generates does not count:
/// no mail reaches it.
fn verified_of(emails: &[Address]) -> Result<Email, Unidentified> {
    if emails.is_empty() {
        return Err(Unidentified::NoEmail);
    }
    let is_theirs = |address: &&Address| !address.email.ends_with("@users.noreply.github.com");
    let mut verified = emails.iter().filter(|address| address.verified).filter(is_theirs);
    let primary = verified.clone().find(|address| address.primary).or_else(|| verified.next());
    address(&primary.ok_or(Unidentified::Unverified)?.email)
}

fn address(text: &str) -> Result<Email, Unidentified> {
    text.parse().map_err(|_| Unidentified::NoEmail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_provider_vouches_for_counts() {
        let google = |json: &str| match serde_json::from_str::<User>(json).expect("a user").verified() {
            Ok(email) => email.to_string(),
            Err(why) => why.to_string(),
        };
        let (unverified, none) = (Unidentified::Unverified.to_string(), Unidentified::NoEmail.to_string());
        for (json, expected) in [
            (r#"{"email":"A@Example.com","email_verified":true}"#, "a@example.com"),
            (r#"{"email":"a@example.com","email_verified":"true"}"#, "a@example.com"),
            (r#"{"email":"a@example.com","email_verified":false}"#, &unverified),
            (r#"{"email":"a@example.com","email_verified":"false"}"#, &unverified),
            (r#"{"email":"a@example.com"}"#, &unverified),
            (r#"{"email":"","email_verified":true}"#, &none),
            (r#"{"email":null,"email_verified":true}"#, &none),
            (r#"{"email":"no address","email_verified":true}"#, &none),
            (r#"{"sub":"1"}"#, &none),
        ] {
            assert_eq!(google(json), expected, "{json}");
        }
        let github = |json: &str| match verified_of(&serde_json::from_str::<Vec<Address>>(json).expect("a list")) {
            Ok(email) => email.to_string(),
            Err(why) => why.to_string(),
        };
        for (json, expected) in [
            (
                r#"[{"email":"b@example.com","verified":true},{"email":"a@example.com","primary":true,"verified":true}]"#,
                "a@example.com",
            ),
            (
                r#"[{"email":"a@example.com","primary":true},{"email":"b@example.com","verified":true}]"#,
                "b@example.com",
            ),
            (r#"[{"email":"a@example.com","primary":true,"verified":false}]"#, &unverified),
            (
                r#"[{"email":"a@example.com","primary":true},{"email":"1+a@users.noreply.github.com","verified":true}]"#,
                &unverified,
            ),
            ("[]", &none),
        ] {
            assert_eq!(github(json), expected, "{json}");
        }
    }
}
