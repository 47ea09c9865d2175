//! Who a secret key acts for.

use serde::{Deserialize, Serialize};

use crate::id::{AffiliateId, SecretKeyId};
use crate::plan::Tier;
use crate::session::MyTenant;
use crate::words::{reply, words};

words! {
    /// Scope of a secret key.
    KeyScope {
        /// The whole account.
        Account = "account",
        /// Only an affiliate's links.
        Affiliate = "affiliate",
    }
}

reply! {
    /// The identity behind a request's key.
    Whoami {
        /// Email address of the team member who created the key. If no one did, or they have left, the address of the
        /// account's owner or, failing that, of its longest-standing member. Null for an affiliate's credential, and if
        /// the account has no team members, as when the server has just created it.
        email: Option<String>,
        /// The account.
        tenant: MyTenant,
        /// The effective plan; null for an affiliate's credential, and if the service has no plans.
        plan: Option<Tier>,
        /// The key's ID.
        key_id: SecretKeyId,
        /// The key's first 18 characters and three dots.
        key_prefix: String,
        /// Scope of the key.
        scope: KeyScope,
        /// The affiliate that the credential belongs to; null for a key of the account.
        affiliate: Option<MyAffiliate>,
    }
}

/// The affiliate whose credential was used for the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MyAffiliate {
    /// The affiliate's ID.
    pub id: AffiliateId,
    /// The affiliate's name.
    pub name: String,
}
