//! Shares of what there is little of: whose share a request or a task takes, how many of each may wait, and how the shares
//! take turns.

pub(crate) mod bodies;
pub(crate) mod limit;
mod turns;

use deeplink_core::id::TenantId;

pub(crate) use turns::Turns;

/// Whose share something takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    /// An account's: what is asked for it with any credential, and the task that sends its deliveries.
    Account(TenantId),
    /// A wallet's that pays for single requests, whatever account it has.
    Wallet(String),
    /// Of those who have no account yet.
    SignUps,
    /// Of those who are not signed in yet: mailed links, providers, invitations.
    SignIns,
    /// What is noted of payments for single requests.
    Payments,
    /// Clicks, whoever's links they are of.
    Clicks,
    /// What the service and its operator do: background tasks take their steps one after another, account by account, so
    /// that no account's load keeps them from the others.
    Service,
}

impl Share {
    /// Whether somebody is told that it is theirs.
    pub(crate) fn is_the_callers(&self) -> bool {
        matches!(self, Self::Account(_) | Self::Wallet(_))
    }
}

impl From<&TenantId> for Share {
    fn from(tenant: &TenantId) -> Self {
        Self::Account(tenant.clone())
    }
}
