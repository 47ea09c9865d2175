//! The account's settings.

use deeplink_core::account::{Account, DeleteAccount, UpdateAccount};
use deeplink_core::id::TenantId;
use deeplink_core::routes;

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::page::{ExportPages, Pages, WholeAccount};

/// The account's settings; see [`crate::Client::account`].
#[derive(Debug, Clone)]
pub struct AccountSettings(pub(crate) Connection);

impl AccountSettings {
    /// The settings.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let account = dl.account().get().await?;
    /// println!("{} {:?}", account.id, account.name);
    /// # Ok(()) });
    /// ```
    pub fn get(&self) -> Call<Account> {
        call::json(&self.0, &routes::GET_ACCOUNT, &[])
    }

    /// Updates the settings: its name, the time zone of the account pages, and the icon and color of landing pages of
    /// links whose app has none.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{Patch, UpdateAccount};
    /// let mut update = UpdateAccount::new().time_zone("Europe/Berlin");
    /// update.icon_url = Patch::Clear;
    /// let account = dl.account().update(&update).await?;
    /// assert_eq!(account.time_zone.as_deref(), Some("Europe/Berlin"));
    /// # Ok(()) });
    /// ```
    pub fn update(&self, update: &UpdateAccount) -> Call<Account> {
        call::json(&self.0, &routes::UPDATE_ACCOUNT, &[]).body(update).valid(update.validate())
    }

    /// Everything in the account, record by record. Secrets are omitted.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use futures_util::StreamExt;
    /// let mut records = dl.account().export().items();
    /// while let Some(record) = records.next().await {
    ///     println!("{}", serde_json::to_string(&record?).unwrap());
    /// }
    /// # Ok(()) });
    /// ```
    pub fn export(&self) -> ExportPages {
        Pages::new(self.0.clone(), WholeAccount)
    }

    /// Schedules the account and everything in it for deletion in 7 days; pass the account's ID as confirmation.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let account = dl.account().get().await?;
    /// let deleted = dl.account().delete(&account.id).await?;
    /// println!("will be deleted at {:?}", deleted.deletes_at);
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, account: &TenantId) -> Call<Account> {
        call::json(&self.0, &routes::DELETE_ACCOUNT, &[]).body(&DeleteAccount::new(account.as_str()))
    }

    /// Cancels the deletion of the account; does nothing if none is scheduled.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// assert_eq!(dl.account().cancel_deletion().await?.deletes_at, None);
    /// # Ok(()) });
    /// ```
    pub fn cancel_deletion(&self) -> Call<Account> {
        call::json(&self.0, &routes::CANCEL_DELETION, &[])
    }
}
