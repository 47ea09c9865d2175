//! Credentials: what a client sends, or where it gets one.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use deeplink_core::secret::{PublishableKey, SecretKey, Token};

use crate::transport::BoxFuture;

/// The credential of a client.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Auth {
    /// None: public operations only.
    #[default]
    None,
    /// A secret key, sent as `Authorization: Bearer`.
    SecretKey(SecretKey),
    /// A publishable key, sent as `Authorization: Bearer` and never in a URL.
    PublishableKey(PublishableKey),
    /// The token of a session, sent as the cookie `session_token`: for operations that need a signed-in user.
    Session(Token),
    /// Secret keys managed elsewhere.
    Provider(Arc<dyn CredentialProvider>),
}

/// Provides the secret key for each request, for keys that are rotated while the program runs.
pub trait CredentialProvider: Send + Sync + 'static {
    /// The key to use. `refused` is the key that the service has just rejected with 401, if this is the one retry of a call
    /// after a 401.
    fn secret_key<'a>(
        &'a self,
        refused: Option<&'a SecretKey>,
    ) -> BoxFuture<'a, Result<SecretKey, Box<dyn StdError + Send + Sync>>>;
}

/// The kind of a credential, as errors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthKind {
    /// No credential.
    None,
    /// A secret key.
    SecretKey,
    /// A publishable key.
    PublishableKey,
    /// A session.
    Session,
    /// A publishable or a secret key: what the operations of apps and pages need. No credential has this kind.
    AnyKey,
}

impl fmt::Display for AuthKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no credential",
            Self::SecretKey => "a secret key",
            Self::PublishableKey => "a publishable key",
            Self::Session => "a session",
            Self::AnyKey => "a publishable or secret key",
        })
    }
}

impl Auth {
    /// Which kind this is.
    pub fn kind(&self) -> AuthKind {
        match self {
            Self::None => AuthKind::None,
            Self::SecretKey(_) | Self::Provider(_) => AuthKind::SecretKey,
            Self::PublishableKey(_) => AuthKind::PublishableKey,
            Self::Session(_) => AuthKind::Session,
        }
    }
}

impl From<SecretKey> for Auth {
    fn from(key: SecretKey) -> Self {
        Self::SecretKey(key)
    }
}

impl From<PublishableKey> for Auth {
    fn from(key: PublishableKey) -> Self {
        Self::PublishableKey(key)
    }
}

impl From<Token> for Auth {
    fn from(token: Token) -> Self {
        Self::Session(token)
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::SecretKey(key) => f.debug_tuple("SecretKey").field(key).finish(),
            Self::PublishableKey(key) => f.debug_tuple("PublishableKey").field(key).finish(),
            Self::Session(_) => f.write_str("Session"),
            Self::Provider(_) => f.write_str("Provider"),
        }
    }
}
