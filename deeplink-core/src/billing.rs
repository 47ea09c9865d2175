//! Billing: an account's plan, its usage, and how to pay for another plan.

use crate::error::{ErrorCode, Invalid};
use crate::plan::{Limits, Tier};
use crate::words::{reply, words};

words! {
    /// How an account pays.
    BillingMethod {
        /// The account does not pay.
        Free = "free",
        /// A Stripe subscription that has not ended, even if it is unpaid or paused.
        Stripe = "stripe",
        /// Each request, with x402.
        X402 = "x402",
    }
}

words! {
    /// State of an account's subscription. Without one an account is `active`, on the free plan.
    SubscriptionStatus {
        /// Paid, or in a trial.
        Active = "active",
        /// A payment failed; the plan remains in effect for seven days after that was first seen.
        PastDue = "past_due",
        /// Ended, or grants no plan: it is unpaid, paused or for a price that this service does not recognize.
        Canceled = "canceled",
    }
}

reply! {
    /// Usage of the resources that have limits.
    Usage {
        /// Existing links.
        links: i64,
        /// Clicks and conversions since the start of the calendar month (UTC). Counted only if plan limits are
        /// enforced.
        events_this_month: i64,
        /// Custom domains, verified or not.
        domains: i64,
        /// Team members, including pending invitations.
        team_members: i64,
        /// Webhooks.
        webhooks: i64,
    }
}

reply! {
    /// An account's plan and its usage.
    BillingStatus {
        /// The plan of the subscription, until the subscription ends.
        plan_tier: Tier,
        /// The plan whose limits apply: the higher of the subscription's plan, if it grants one, and the plan granted
        /// by the operator.
        effective_tier: Tier,
        /// Whether the operator has granted a plan.
        comp_active: bool,
        /// How the account pays.
        billing_method: BillingMethod,
        /// When the current period of the subscription ends, in Unix milliseconds; null without a subscription, or if
        /// the payment processor does not report it.
        current_period_end: Option<i64>,
        /// State of the subscription.
        status: SubscriptionStatus,
        /// Whether the subscription ends at the end of the current period.
        cancel_scheduled: bool,
        /// Whether this service enforces the limits.
        quotas_enforced: bool,
        /// Limits of the effective plan.
        limits: Limits,
        /// Current usage.
        usage: Usage,
    }
}

/// Declares a page of the payment processor for one person. `Debug` does not show its URL: anyone who has it can use it.
macro_rules! session {
    ($(#[$meta:meta])* $name:ident { $(#[$field_meta:meta])* $field:ident }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[non_exhaustive]
        pub struct $name {
            $(#[$field_meta])*
            pub $field: String,
        }

        impl $name {
            /// A response with this URL.
            pub fn new($field: String) -> Self {
                Self { $field }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

session! {
    /// A checkout page of the payment processor.
    CheckoutSession {
        /// URL to open in the payer's browser. Anyone who has the URL can use it.
        checkout_url
    }
}

session! {
    /// A billing portal session, for managing cards and invoices.
    PortalSession {
        /// URL to open in the payer's browser. Anyone who has the URL can use it.
        portal_url
    }
}

/// The subscription ends at the end of its current period.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CancelScheduled {
    /// `cancel_scheduled`.
    pub status: String,
    /// When the period ends, in Unix milliseconds; null if the payment processor does not report it.
    pub current_period_end: Option<i64>,
}

impl CancelScheduled {
    /// A response with this end.
    pub fn new(current_period_end: Option<i64>) -> Self {
        Self { status: "cancel_scheduled".into(), current_period_end }
    }
}

/// A plan that can be paid for: `pro`, `business` or `scale`, else 400 `invalid_tier`.
pub fn paid_tier(text: &str) -> Result<Tier, Invalid> {
    match Tier::from(text) {
        tier @ (Tier::Pro | Tier::Business | Tier::Scale) => Ok(tier),
        _ => Err(Invalid::field(ErrorCode::InvalidTier, "tier", "tier must be pro, business or scale")),
    }
}
