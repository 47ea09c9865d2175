//! Billing: the account's plan, how much of it is used, and the pages on which it is paid for.

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
    /// The account's plan, its limits, and how much of them is used.
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

    /// Makes a page on which a plan is paid for: `Pro`, `Business` or `Scale`. An account that pays already gets the page of
    /// [`Billing::portal`] instead. Anyone who has the URL can use it.
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

    /// Makes a page on which cards and invoices are managed. Anyone who has the URL can use it.
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

    /// Ends the subscription at the end of its period. No link, domain, team member or webhook is deleted; on the free
    /// plan individual clicks are kept for 30 days only. Cancelling again is harmless.
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
