//! Webhooks: URLs that events are posted to, and their delivery logs.

use deeplink_core::routes;
use deeplink_core::webhook::{
    CreateWebhook, CreatedWebhook, DeliveryDetail, ReplayDeliveries, ReplayedDeliveries, RotatedSecret, TestWebhook,
    UpdateWebhook, WebhookDetail, WebhookList,
};

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::page::{DeliveryPages, Listing, Pages};

/// The operations on webhooks; see [`crate::Client::webhooks`]. [`crate::Client::events`] streams the same events without a
/// webhook.
#[derive(Debug, Clone)]
pub struct Webhooks(pub(crate) Connection);

impl Webhooks {
    /// The webhooks, newest first, with the health of their deliveries.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// for webhook in dl.webhooks().list().await? {
    ///     println!("{} {}", webhook.url, webhook.health.status);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<WebhookList>> {
        Pages::listing(&self.0, &routes::LIST_WEBHOOKS, None)
    }

    /// Creates a webhook. Its secret is only in this response.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{CreateWebhook, EventKind};
    /// let new = CreateWebhook::new("https://hooks.example.com/deeplink", [EventKind::Conversion]);
    /// let made = dl.webhooks().create(&new).await?;
    /// assert!(made.secret.expose().starts_with("whsec_")); // to be kept where the receiver finds it
    /// # Ok(()) });
    /// ```
    pub fn create(&self, webhook: &CreateWebhook) -> Call<CreatedWebhook> {
        call::json(&self.0, &routes::CREATE_WEBHOOK, &[]).body(webhook).valid(webhook.validate())
    }

    /// Updates the fields that are set in `update`. `active(true)` also resumes a webhook that the service paused after
    /// three days of failures.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{EventKind, UpdateWebhook};
    /// let update = UpdateWebhook::new().events([EventKind::Click, EventKind::Conversion]).active(true);
    /// assert!(dl.webhooks().update("wh_0123456789abcdef01234567", &update).await?.active);
    /// # Ok(()) });
    /// ```
    pub fn update(&self, id: impl AsRef<str>, update: &UpdateWebhook) -> Call<WebhookDetail> {
        call::json(&self.0, &routes::UPDATE_WEBHOOK, &[id.as_ref()]).body(update).valid(update.validate())
    }

    /// Deletes a webhook and its delivery log; no further attempts are made.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.webhooks().delete("wh_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_WEBHOOK, &[id.as_ref()]), decode::nothing)
    }

    /// Replaces a webhook's secret. The new one is only in this response. For 24 hours, `webhook-signature` also carries a
    /// signature with the previous one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let rotated = dl.webhooks().rotate_secret("wh_0123456789abcdef01234567").await?;
    /// assert!(rotated.secret.is_well_formed());
    /// # Ok(()) });
    /// ```
    pub fn rotate_secret(&self, id: impl AsRef<str>) -> Call<RotatedSecret> {
        call::json(&self.0, &routes::ROTATE_WEBHOOK_SECRET, &[id.as_ref()])
    }

    /// Sends a test event, like any other: signed, with retries, and in the log. The response is the new delivery;
    /// [`Webhooks::deliveries`] shows its result.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{EventKind, TestWebhook};
    /// let asked = TestWebhook::new().event(&EventKind::Conversion);
    /// let delivery = dl.webhooks().test("wh_0123456789abcdef01234567", &asked).await?;
    /// println!("{} {}", delivery.id, delivery.request_body);
    /// # Ok(()) });
    /// ```
    pub fn test(&self, id: impl AsRef<str>, asked: &TestWebhook) -> Call<DeliveryDetail> {
        call::json(&self.0, &routes::TEST_WEBHOOK, &[id.as_ref()]).body(asked).valid(asked.check())
    }

    /// Deliveries to a webhook in the last 30 days, newest first: as pages or one by one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::DeliveryStatus;
    /// let log = dl.webhooks().deliveries("wh_0123456789abcdef01234567").status(DeliveryStatus::Failed);
    /// for delivery in log.first_page().await?.deliveries {
    ///     println!("{} {} after {} attempts", delivery.id, delivery.event, delivery.attempts.len());
    /// }
    /// # Ok(()) });
    /// ```
    pub fn deliveries(&self, id: impl AsRef<str>) -> DeliveryPages {
        DeliveryPages::of(self.0.clone(), id.as_ref())
    }

    /// Resends the event of a delivery as a new delivery: the same bytes with the same `webhook-id`.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let (webhook, delivery) = ("wh_0123456789abcdef01234567", "dlv_0123456789abcdef01234567");
    /// let again = dl.webhooks().replay(webhook, delivery).await?;
    /// println!("{} sends {} again", again.id, again.event_id);
    /// # Ok(()) });
    /// ```
    pub fn replay(&self, id: impl AsRef<str>, delivery_id: impl AsRef<str>) -> Call<DeliveryDetail> {
        call::json(&self.0, &routes::REPLAY_DELIVERY, &[id.as_ref(), delivery_id.as_ref()])
    }

    /// Resends up to 1,000 of the newest failed deliveries that were created since a time and are not already being resent.
    /// Repeat the request for older ones.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::ReplayDeliveries;
    /// let since = "2026-11-20T00:00:00Z".parse()?;
    /// let again = dl.webhooks().replay_failed("wh_0123456789abcdef01234567", &ReplayDeliveries::failed_since(since)).await?;
    /// println!("{} sent again, more: {}", again.count, again.has_more);
    /// # Ok(()) });
    /// ```
    pub fn replay_failed(&self, id: impl AsRef<str>, asked: &ReplayDeliveries) -> Call<ReplayedDeliveries> {
        call::json(&self.0, &routes::REPLAY_DELIVERIES, &[id.as_ref()]).body(asked).valid(asked.check())
    }
}
