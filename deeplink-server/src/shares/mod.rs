//! Shares of scarce resources: which share a request or a task uses, how many of each may wait, and how the shares take
//! turns by cost.

pub(crate) mod accounts;
pub(crate) mod budget;
pub(crate) mod limit;
mod turns;

use deeplink_core::id::TenantId;

pub(crate) use turns::Turns;

/// As many rows of a batch cost what one item does.
const ROWS_AT_THE_COST_OF_ONE: usize = 8;

/// The share that something uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Share {
    /// An account's: requests with any of its credentials, and the task that sends its deliveries.
    Account(TenantId),
    /// A wallet's that pays for single requests, whatever its account.
    Wallet(String),
    /// Of clients who have no account yet.
    SignUps,
    /// Of clients who are not signed in yet: mailed links, providers, invitations.
    SignIns,
    /// Records of payments for single requests.
    Payments,
    /// Clicks on anyone's links.
    Clicks,
    /// The service and its operator: background tasks run sequentially, account by account, so that no account's load
    /// keeps them from the others.
    Service,
}

impl Share {
    /// Whether a refusal tells the caller that the share is theirs.
    pub(crate) fn is_the_callers(&self) -> bool {
        matches!(self, Self::Account(_) | Self::Wallet(_))
    }
}

impl From<&TenantId> for Share {
    fn from(tenant: &TenantId) -> Self {
        Self::Account(tenant.clone())
    }
}

/// A share, the cost of what it is asked for, and whether with a credential that the account gives away; see [`Turns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) share: Share,
    /// 1 for what concerns one row or few.
    cost: u32,
    /// With a credential that the account gives away: an affiliate's, or a publishable key. Reports to a source are the
    /// account's own: their number has a limit of its own.
    is_restricted: bool,
}

impl Turn {
    /// Whether it costs more than a single row, or a few.
    pub(crate) fn is_large(&self) -> bool {
        self.cost > 1
    }

    pub(crate) fn is_restricted(&self) -> bool {
        self.is_restricted
    }

    /// The same with a credential that its account gives away, or not.
    pub(crate) fn restricted(self, is_restricted: bool) -> Self {
        Self { is_restricted, ..self }
    }

    /// The same for a batch of rows. It costs less than as many single ones, which wait for the disk too.
    pub(crate) fn of_rows(self, rows: usize) -> Self {
        Self { cost: u32::try_from(rows.div_ceil(ROWS_AT_THE_COST_OF_ONE).max(1)).unwrap_or(u32::MAX), ..self }
    }
}

impl From<Share> for Turn {
    fn from(share: Share) -> Self {
        Self { share, cost: 1, is_restricted: false }
    }
}

impl From<&TenantId> for Turn {
    fn from(tenant: &TenantId) -> Self {
        Share::from(tenant).into()
    }
}
