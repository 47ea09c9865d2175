//! Who a secret key acts for.

use serde::{Deserialize, Serialize};

use crate::id::{AffiliateId, SecretKeyId};
use crate::plan::Tier;
use crate::session::MyTenant;
use crate::words::{reply, words};

words! {
    /// What a secret key reaches.
    KeyScope {
        /// The whole account.
        Account = "account",
        /// An affiliate's links only.
        Affiliate = "affiliate",
    }
}

reply! {
    /// Who the key of a request acts for.
    Whoami {
        /// Email address of the person who created the key; the account's owner's, else its oldest member's, if no one
        /// did or they have left. Null for an affiliate's credential, and if the account has
        /// no people, as after a first start.
        email: Option<String>,
        /// The account.
        tenant: MyTenant,
        /// The plan in effect; null for an affiliate's credential, and if the service has no plans.
        plan: Option<Tier>,
        /// The key's id.
        key_id: SecretKeyId,
        /// The key's first 18 characters and three dots.
        key_prefix: String,
        /// What the key reaches.
        scope: KeyScope,
        /// Whose credential the key is; null for a key of the account.
        affiliate: Option<MyAffiliate>,
    }
}

/// The affiliate whose credential a request has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MyAffiliate {
    /// The affiliate's id.
    pub id: AffiliateId,
    /// Its name.
    pub name: String,
}
