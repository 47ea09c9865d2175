//! Who calls: the credential a client sends, or where it asks for one.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use deeplink_core::secret::SecretKey;

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
    /// Secret keys that somebody else looks after.
    Provider(Arc<dyn CredentialProvider>),
}

/// Gives the secret key for each request, for keys that rotate while the program runs.
pub trait CredentialProvider: Send + Sync + 'static {
    /// The key to use. `refused` is the key that the service has just answered with 401, if this is the one further
    /// try that a call has.
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
}

impl fmt::Display for AuthKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no credential",
            Self::SecretKey => "a secret key",
        })
    }
}

impl Auth {
    /// Which kind this is.
    pub fn kind(&self) -> AuthKind {
        match self {
            Self::None => AuthKind::None,
            Self::SecretKey(_) | Self::Provider(_) => AuthKind::SecretKey,
        }
    }
}

impl From<SecretKey> for Auth {
    fn from(key: SecretKey) -> Self {
        Self::SecretKey(key)
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::SecretKey(key) => f.debug_tuple("SecretKey").field(key).finish(),
            Self::Provider(_) => f.write_str("Provider"),
        }
    }
}
