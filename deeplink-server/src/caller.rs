//! The caller of a request, known once its credential was checked. `http` checks it, `db` stores it.

use std::sync::Arc;

use deeplink_core::id::{AffiliateId, PublishableKeyId, SecretKeyId, SessionId, TenantId, UserId};
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;

use crate::shares::accounts::Holder;
use crate::uses::LastUse;

/// The account that a request acts for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) by: Actor,
    pub(crate) tenant: TenantId,
    /// Set for an affiliate's credential, which can access only that affiliate's links.
    pub(crate) affiliate: Option<AffiliateId>,
    /// Whether the account was suspended when the credential was looked up.
    pub(crate) is_suspended: bool,
}

impl From<&Caller> for Holder {
    fn from(caller: &Caller) -> Self {
        if caller.affiliate.is_some() { Self::of_affiliates(&caller.tenant) } else { Self::from(&caller.tenant) }
    }
}

impl Caller {
    /// Whether the account gives the credential away: it is an affiliate's, or a publishable key.
    pub(crate) fn is_restricted(&self) -> bool {
        self.affiliate.is_some() || matches!(self.by, Actor::Page(_))
    }

    /// The payment that identifies the caller, if any.
    pub(crate) fn charge(&self) -> Option<&Arc<Charge>> {
        match &self.by {
            Actor::Wallet(charge) => Some(charge),
            Actor::Key(_) | Actor::Page(_) | Actor::User(_) => None,
        }
    }

    /// The signed-in user, if any.
    pub(crate) fn user(&self) -> Option<&UserId> {
        match &self.by {
            Actor::User(user) => Some(user),
            Actor::Key(_) | Actor::Page(_) | Actor::Wallet(_) => None,
        }
    }
}

/// The credential that a caller presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A secret key.
    Key(SecretKeyId),
    /// A publishable key, embedded in an app or a page.
    Page(PublishableKeyId),
    /// The session of a team member, for pages and session operations.
    User(UserId),
    /// A payment for this one request.
    Wallet(Arc<Charge>),
}

/// A request paid for by a wallet, in one of its runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    /// The namespace of the wallet's address, such as `eip155`.
    pub(crate) namespace: String,
    /// The wallet's address.
    pub(crate) address: String,
    /// The wallet's account, created with the first thing that it pays for.
    pub(crate) tenant: TenantId,
    pub(crate) run: ChargeRun,
}

/// How far a paid request runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChargeRun {
    /// Only the checks that need no account: the payer is unproven, so nothing is read, written or called.
    Form,
    /// To its end, then its writes are rolled back: nothing is paid yet.
    Trial,
    /// To its end: this payment is settled.
    Paid(SettledPayment),
}

/// A settled payment, and the request it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettledPayment {
    /// The id of its row.
    pub(crate) id: String,
    /// The hash of the request.
    pub(crate) request: String,
    /// The transaction on the chain.
    pub(crate) tx_hash: String,
}

/// A caller as cached by its key's hash.
#[derive(Debug)]
pub(crate) struct KnownKey {
    pub(crate) caller: Arc<Caller>,
    pub(crate) last_use: LastUse,
}

/// A signed-in user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedIn {
    pub(crate) session: SessionId,
    pub(crate) user: UserId,
    pub(crate) tenant: TenantId,
    pub(crate) email: String,
    pub(crate) verified: bool,
    pub(crate) is_owner: bool,
    pub(crate) tenant_name: Option<String>,
    pub(crate) tenant_created_at: Timestamp,
    /// When the account will be deleted.
    pub(crate) tenant_deletes_at: Option<Timestamp>,
    /// The time zone of the account.
    pub(crate) zone: Zone,
    pub(crate) is_suspended: bool,
}

impl SignedIn {
    /// The caller that this user acts as.
    pub(crate) fn caller(&self) -> Caller {
        let (by, tenant) = (Actor::User(self.user.clone()), self.tenant.clone());
        Caller { by, tenant, affiliate: None, is_suspended: self.is_suspended }
    }
}

#[cfg(test)]
mod tests {
    use deeplink_core::secret::Random;

    use super::*;
    use crate::shares::{Share, Turn};

    /// R2, R5: writes with credentials that an account gives away alternate with its own, and its affiliates' requests use
    /// a part of its memory.
    #[test]
    fn credentials_that_an_account_gives_away_are_restricted() {
        let (now, mut random) = (Timestamp::from_millis(0), Random::system());
        let (tenant, affiliate) = (TenantId::new(now, &mut random), Some(AffiliateId::new(now, &mut random)));
        let key = || Actor::Key(SecretKeyId::new(now, &mut Random::system()));
        let page = Actor::Page(PublishableKeyId::new(now, &mut random));
        let user = Actor::User(UserId::new(now, &mut random));
        for (by, affiliate, is_restricted) in
            [(key(), None, false), (user, None, false), (page, None, true), (key(), affiliate, true)]
        {
            let is_affiliates = affiliate.is_some();
            let caller = Caller { by, tenant: tenant.clone(), affiliate, is_suspended: false };
            let expected = Turn::from(Share::from(&tenant)).restricted(is_restricted);
            assert_eq!(caller.turn(), expected, "{caller:?}");
            assert_eq!(Holder::from(&caller) != Holder::from(&tenant), is_affiliates, "{caller:?}");
        }
    }
}
