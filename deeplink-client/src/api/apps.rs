//! Apps that can open an account's links.

use deeplink_core::app::{AppDetail, CreateApp};
use deeplink_core::routes;

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::page::{ArrayPage, Listing, Pages};

/// The operations on apps; see [`crate::Client::apps`].
#[derive(Debug, Clone)]
pub struct Apps(pub(crate) Connection);

impl Apps {
    /// The apps, newest first: all of them when awaited, or as pages or one by one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let apps = dl.apps().list().await?;
    /// assert_eq!(apps[0].bundle_id.as_deref(), Some("com.example.app"));
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<ArrayPage<AppDetail>>> {
        Pages::array(&self.0, &routes::LIST_APPS)
    }

    /// Registers an app; registering the same bundle ID or package name again replaces it and keeps its ID.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreateApp;
    /// let app = dl.apps().create(&CreateApp::ios("com.example.app", "ABCDE12345").app_name("Shop")).await?;
    /// assert_eq!(app.team_id.as_deref(), Some("ABCDE12345"));
    /// # Ok(()) });
    /// ```
    pub fn create(&self, app: &CreateApp) -> Call<AppDetail> {
        call::json(&self.0, &routes::CREATE_APP, &[]).body(app).valid(app.validate())
    }

    /// Deletes an app: it is removed from the association files, and links open in the browser.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.apps().delete("app_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, app_id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_APP, &[app_id.as_ref()]), decode::nothing)
    }
}
