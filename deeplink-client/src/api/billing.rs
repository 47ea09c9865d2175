//! Billing: the account's plan, its usage, and the checkout and billing portal pages.

use deeplink_core::billing::{BillingStatus, CancelScheduled, CheckoutSession, PortalSession, paid_tier};
use deeplink_core::plan::Tier;
use deeplink_core::routes;
use serde_json::json;

use crate::call::{self, Call};
use crate::connection::Connection;

/// The operations on the account's plan; see [`crate::Client::billing`].
#[derive(Debug, Clone)]
pub struct Billing(pub(crate) Connection);

impl Billing {
    /// The account's plan, its limits and current usage.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let status = dl.billing().status().await?;
    /// match status.limits.max_links {
    ///     Some(limit) => println!("{} of {limit} links", status.usage.links),
    ///     None => println!("{} links", status.usage.links),
    /// }
    /// # Ok(()) });
    /// ```
    pub fn status(&self) -> Call<BillingStatus> {
        call::json(&self.0, &routes::BILLING_STATUS, &[])
    }

    /// Creates a checkout page for a plan: `Pro`, `Business` or `Scale`. An account that already has a paid plan gets the
    /// page of [`Billing::portal`] instead. Anyone with the URL can use it.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Tier;
    /// let session = dl.billing().checkout(&Tier::Pro).await?;
    /// assert!(session.checkout_url.starts_with("https://")); // to be opened in a browser
    /// # Ok(()) });
    /// ```
    pub fn checkout(&self, tier: &Tier) -> Call<CheckoutSession> {
        call::json(&self.0, &routes::CREATE_CHECKOUT, &[]).query(&json!({"tier": tier})).valid(paid_tier(tier.as_str()))
    }

    /// Creates a billing portal page for managing cards, invoices and the plan. Anyone with the URL can use it.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let session = dl.billing().portal().await?;
    /// assert!(session.portal_url.starts_with("https://")); // to be opened in a browser
    /// # Ok(()) });
    /// ```
    pub fn portal(&self) -> Call<PortalSession> {
        call::json(&self.0, &routes::CREATE_PORTAL, &[])
    }

    /// Cancels the subscription at the end of the current billing period. Links, domains, team members and webhooks are kept;
    /// on the free plan, individual clicks and other events are kept for only 30 days. Canceling again has no effect.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let canceled = dl.billing().cancel().await?;
    /// assert_eq!(canceled.status, "cancel_scheduled");
    /// # Ok(()) });
    /// ```
    pub fn cancel(&self) -> Call<CancelScheduled> {
        call::json(&self.0, &routes::CANCEL_SUBSCRIPTION, &[])
    }
}
