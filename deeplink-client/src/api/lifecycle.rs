//! From click to conversion: what apps, pages and servers report, with a publishable key or the account's secret key.

use deeplink_core::lifecycle::{Attribute, Convert, Converted, Done, Identify, TrackClick, TrackedClick};
use deeplink_core::routes;

use crate::call::{self, Call};
use crate::clock;
use crate::connection::Connection;

/// Reports from apps, pages and servers; see [`crate::Client::lifecycle`].
#[derive(Debug, Clone)]
pub struct Lifecycle(pub(crate) Connection);

/// The legacy endpoints of these operations; see [`Lifecycle::legacy`].
#[derive(Debug, Clone)]
pub struct Legacy(Connection);

impl Lifecycle {
    /// Records a click and returns the link.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let key = deeplink_client::mock::fixtures::created_publishable_key("go.example.com").key;
    /// use deeplink_client::TrackClick;
    /// let clicked = dl.with_auth(key)?.lifecycle().click(&TrackClick::new("spring-42")).await?;
    /// assert_eq!(clicked.link.web_url.as_deref(), Some("https://example.com/"));
    /// # Ok(()) });
    /// ```
    pub fn click(&self, click: &TrackClick) -> Call<TrackedClick> {
        call::json(&self.0, &routes::TRACK_CLICK, &[]).body(click).valid(click.validate())
    }

    /// Records that an app was opened from a link, for the first time or again.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{Attribute, InstallContext};
    /// let context = InstallContext::new().os("iOS").device_model("iPhone17,1");
    /// let opened = Attribute::new("spring-42", "install-1", "2.4.0").context(context);
    /// assert!(dl.lifecycle().attribute(&opened).await?.success);
    /// # Ok(()) });
    /// ```
    pub fn attribute(&self, opened: &Attribute) -> Call<Done> {
        call::json(&self.0, &routes::ATTRIBUTE, &[]).body(opened).valid(opened.validate())
    }

    /// Binds an install to a user permanently; a different user is a conflict.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Identify;
    /// assert!(dl.lifecycle().identify(&Identify::new("install-1", "user-7")).await?.success);
    /// # Ok(()) });
    /// ```
    pub fn identify(&self, who: &Identify) -> Call<Done> {
        call::json(&self.0, &routes::IDENTIFY, &[]).body(who).valid(who.validate())
    }

    /// Records a conversion. If its user has no install yet, it is kept and credited once they have one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Convert;
    /// let sale = Convert::new("user-7", "purchase").amount(4_200, "EUR").idempotency_key("order-1001");
    /// assert_eq!(dl.lifecycle().convert(&sale).await?.accepted, 1);
    /// # Ok(()) });
    /// ```
    pub fn convert(&self, conversion: &Convert) -> Call<Converted> {
        call::json(&self.0, &routes::CONVERT, &[]).body(conversion).valid(conversion.validate(clock::now()))
    }

    /// The legacy endpoints of the first three, for services and apps that support no others.
    pub fn legacy(&self) -> Legacy {
        Legacy(self.0.clone())
    }
}

impl Legacy {
    /// Records a click; requires a publishable key.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let key = deeplink_client::mock::fixtures::created_publishable_key("go.example.com").key;
    /// use deeplink_client::TrackClick;
    /// let clicked = dl.with_auth(key)?.lifecycle().legacy().click(&TrackClick::new("spring-42")).await?;
    /// assert_eq!(clicked.link.link_id, "spring-42");
    /// # Ok(()) });
    /// ```
    pub fn click(&self, click: &TrackClick) -> Call<TrackedClick> {
        call::json(&self.0, &routes::ATTRIBUTION_CLICK, &[]).body(click).valid(click.validate())
    }

    /// Records that an app was opened from a link; requires a publishable key.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let key = deeplink_client::mock::fixtures::created_publishable_key("go.example.com").key;
    /// use deeplink_client::Attribute;
    /// let opened = Attribute::new("spring-42", "install-1", "2.4.0");
    /// assert!(dl.with_auth(key)?.lifecycle().legacy().report(&opened).await?.success);
    /// # Ok(()) });
    /// ```
    pub fn report(&self, opened: &Attribute) -> Call<Done> {
        call::json(&self.0, &routes::ATTRIBUTION_REPORT, &[]).body(opened).valid(opened.validate())
    }

    /// Binds an install to a user; requires a secret key.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Identify;
    /// assert!(dl.lifecycle().legacy().link(&Identify::new("install-1", "user-7")).await?.success);
    /// # Ok(()) });
    /// ```
    pub fn link(&self, who: &Identify) -> Call<Done> {
        call::json(&self.0, &routes::ATTRIBUTION_LINK, &[]).body(who).valid(who.validate())
    }
}
