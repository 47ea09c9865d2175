//! Publishable keys: what apps and pages of a domain call the service with.

use serde::{Deserialize, Serialize};

use crate::domain::DomainName;
use crate::error::Invalid;
use crate::id::PublishableKeyId;
use crate::secret::PublishableKey;
use crate::time::Timestamp;

/// Most publishable keys of an account, over all its domains.
pub const MAX_PUBLISHABLE_KEYS: i64 = 100;

/// The body of a create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CreatePublishableKey {
    /// A verified domain of the account. The key stops while the domain is not verified.
    #[cfg_attr(feature = "openapi", schema(max_length = 253))]
    pub domain: String,
}

impl CreatePublishableKey {
    /// A key for this domain.
    pub fn new(domain: impl Into<String>) -> Self {
        Self { domain: domain.into() }
    }

    /// Applies the rules.
    pub fn check(self) -> Result<DomainName, Invalid> {
        self.domain.parse()
    }

    /// The rules, for who only wants to know.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.domain.parse::<DomainName>().map(drop)
    }
}

/// A new publishable key, shown whole this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CreatedPublishableKey {
    /// The key's id.
    pub id: PublishableKeyId,
    /// The key itself; it is not shown again.
    pub key: PublishableKey,
    /// Its domain.
    pub domain: String,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

impl CreatedPublishableKey {
    /// A reply with all its fields.
    pub fn new(id: PublishableKeyId, key: PublishableKey, domain: String, created_at: Timestamp) -> Self {
        Self { id, key, domain, created_at }
    }
}

/// A publishable key in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublishableKeyDetail {
    /// The key's id.
    pub id: PublishableKeyId,
    /// Its first 18 characters and three dots.
    pub key_prefix: String,
    /// Its domain.
    pub domain: String,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

/// Every publishable key of an account, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct PublishableKeyList {
    /// The keys.
    pub keys: Vec<PublishableKeyDetail>,
}

impl PublishableKeyList {
    /// A list of these keys.
    pub fn new(keys: Vec<PublishableKeyDetail>) -> Self {
        Self { keys }
    }
}
