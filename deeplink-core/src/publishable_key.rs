//! Publishable keys: the credentials of a domain's apps and pages.

use serde::{Deserialize, Serialize};

use crate::domain::DomainName;
use crate::error::Invalid;
use crate::id::PublishableKeyId;
use crate::secret::PublishableKey;
use crate::time::Timestamp;
use crate::words::{paged, reply};

/// Maximum publishable keys of an account, across all its domains.
pub const MAX_PUBLISHABLE_KEYS: i64 = 100;

/// The request body to create a publishable key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"domain": "go.example.com"}))))]
#[non_exhaustive]
pub struct CreatePublishableKey {
    /// A verified domain of the account. The key works only while the domain is verified.
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

    /// Runs every rule.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.domain.parse::<DomainName>().map(drop)
    }
}

reply! {
    /// A new publishable key, shown in full only once.
    CreatedPublishableKey {
        /// The key's ID.
        id: PublishableKeyId,
        /// The key itself; it is not shown again.
        key: PublishableKey,
        /// The key's domain.
        domain: String,
        /// When it was created.
        created_at: Timestamp,
    }
}

/// A publishable key in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublishableKeyDetail {
    /// The key's ID.
    pub id: PublishableKeyId,
    /// The key's first 18 characters and three dots.
    pub key_prefix: String,
    /// The key's domain.
    pub domain: String,
    /// When it was created.
    pub created_at: Timestamp,
}

paged! {
    /// Publishable keys of an account, newest first.
    PublishableKeyList {
        /// The keys.
        keys: PublishableKeyDetail,
    }
}
