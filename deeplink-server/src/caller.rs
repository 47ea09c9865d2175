//! Who acts, as it is known once a credential was checked. How it is checked is in `http`, what is stored in `db`.

use std::sync::Arc;

use deeplink_core::id::{AffiliateId, PublishableKeyId, SecretKeyId, SessionId, TenantId, UserId};
use deeplink_core::time::Timestamp;

use crate::uses::LastUse;

/// Whom a request acts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) by: Actor,
    pub(crate) tenant: TenantId,
    /// Set for an affiliate's credential, which reaches only that affiliate's links.
    pub(crate) affiliate: Option<AffiliateId>,
    /// Whether the operator suspended the account when the credential was looked up.
    pub(crate) is_suspended: bool,
}

impl Caller {
    /// The payment that the caller is known by, if it is one.
    pub(crate) fn charge(&self) -> Option<&Arc<Charge>> {
        match &self.by {
            Actor::Wallet(charge) => Some(charge),
            Actor::Key(_) | Actor::Page(_) | Actor::User(_) => None,
        }
    }

    /// Who does it, where that is known.
    pub(crate) fn user(&self) -> Option<&UserId> {
        match &self.by {
            Actor::User(user) => Some(user),
            Actor::Key(_) | Actor::Page(_) | Actor::Wallet(_) => None,
        }
    }
}

/// What a caller showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A secret key.
    Key(SecretKeyId),
    /// A publishable key, which an app or a page carries.
    Page(PublishableKeyId),
    /// The session of somebody in the team, which pages and session operations take.
    User(UserId),
    /// A payment for this one request.
    Wallet(Arc<Charge>),
}

/// A request that a wallet pays for, in one of the runs that it takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    /// What the wallet's address belongs to, such as `eip155`.
    pub(crate) namespace: String,
    /// The wallet's address.
    pub(crate) address: String,
    /// The wallet's account, which is made with the first thing that it pays for.
    pub(crate) tenant: TenantId,
    pub(crate) run: ChargeRun,
}

/// How far a request goes that is paid for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChargeRun {
    /// Up to what needs no account: nobody has proved who pays, so nothing is read, written or called.
    Form,
    /// To its end, and what it wrote is rolled back: nothing is paid yet.
    Trial,
    /// To its end: this payment is settled.
    Paid(SettledPayment),
}

/// A payment that is settled, and what it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettledPayment {
    /// The id of its row.
    pub(crate) id: String,
    /// The hash of the request.
    pub(crate) request: String,
    /// The transaction on the chain.
    pub(crate) tx_hash: String,
}

/// A caller as it is remembered by its key's hash.
#[derive(Debug)]
pub(crate) struct KnownKey {
    pub(crate) caller: Arc<Caller>,
    pub(crate) last_use: LastUse,
}

/// Somebody who is signed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedIn {
    pub(crate) session: SessionId,
    pub(crate) user: UserId,
    pub(crate) tenant: TenantId,
    pub(crate) email: String,
    pub(crate) verified: bool,
    pub(crate) is_owner: bool,
    pub(crate) tenant_created_at: Timestamp,
    pub(crate) is_suspended: bool,
}

impl SignedIn {
    /// The same person as what they do acts for.
    pub(crate) fn caller(&self) -> Caller {
        let (by, tenant) = (Actor::User(self.user.clone()), self.tenant.clone());
        Caller { by, tenant, affiliate: None, is_suspended: self.is_suspended }
    }
}
