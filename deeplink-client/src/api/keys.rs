//! Keys: secret keys for managing an account, and publishable keys for its apps and pages.

use deeplink_core::publishable_key::{CreatePublishableKey, CreatedPublishableKey, PublishableKeyList};
use deeplink_core::routes;
use deeplink_core::secret_key::{
    CodeSent, ConfirmSecretKey, CreatedSecretKey, IssueSecretKey, RequestSecretKey, SecretKeyList,
};

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::page::{Listing, Pages};

/// The operations on secret keys; see [`crate::Client::keys`].
#[derive(Debug, Clone)]
pub struct Keys(pub(crate) Connection);

impl Keys {
    /// The secret keys of the account, newest first; never the keys themselves.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// for key in dl.keys().list().await? {
    ///     println!("{} {:?}", key.key_prefix, key.last_used_at);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<SecretKeyList>> {
        Pages::listing(&self.0, &routes::LIST_SECRET_KEYS, None)
    }

    /// Emails a confirmation code to a team member; [`Keys::confirm`] exchanges it for a key.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::RequestSecretKey;
    /// let sent = dl.keys().request(&RequestSecretKey::new("you@example.com")).await?;
    /// assert_eq!(sent.status, "code_sent");
    /// # Ok(()) });
    /// ```
    pub fn request(&self, request: &RequestSecretKey) -> Call<CodeSent> {
        call::json(&self.0, &routes::REQUEST_SECRET_KEY, &[]).body(request).valid(request.clone().check())
    }

    /// Creates a key with the emailed code. The key is only in this response.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::ConfirmSecretKey;
    /// let made = dl.keys().confirm(&ConfirmSecretKey::new("you@example.com", "7GK2QX")).await?;
    /// assert!(made.key.is_well_formed());
    /// # Ok(()) });
    /// ```
    pub fn confirm(&self, confirm: &ConfirmSecretKey) -> Call<CreatedSecretKey> {
        call::json(&self.0, &routes::CONFIRM_SECRET_KEY, &[]).body(confirm).valid(confirm.validate())
    }

    /// Creates a key for a signed-in user: the client's credential is a session. The key is only in this response.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let session = deeplink_client::mock::fixtures::session_token();
    /// let signed_in = dl.with_auth(session)?;
    /// let made = signed_in.keys().issue().await?;
    /// let dl = signed_in.with_auth(made.key)?;
    /// # Ok(()) });
    /// ```
    pub fn issue(&self) -> Call<CreatedSecretKey> {
        call::json(&self.0, &routes::ISSUE_SECRET_KEY, &[]).body(&IssueSecretKey::new())
    }

    /// Deletes a key, which stops working immediately. A key cannot delete itself, and the last one cannot be deleted.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.keys().delete("skid_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, key_id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_SECRET_KEY, &[key_id.as_ref()]), decode::nothing)
    }
}

/// The operations on publishable keys; see [`crate::Client::publishable_keys`].
#[derive(Debug, Clone)]
pub struct PublishableKeys(pub(crate) Connection);

impl PublishableKeys {
    /// The publishable keys, newest first; only their prefixes are returned.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let keys = dl.publishable_keys().list().await?;
    /// assert_eq!(keys[0].domain, "go.example.com");
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<PublishableKeyList>> {
        Pages::listing(&self.0, &routes::LIST_PUBLISHABLE_KEYS, None)
    }

    /// Creates a key for the apps and pages of a verified domain. The whole key is only in this response.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreatePublishableKey;
    /// let made = dl.publishable_keys().create(&CreatePublishableKey::new("go.example.com")).await?;
    /// assert!(made.key.is_well_formed());
    /// # Ok(()) });
    /// ```
    pub fn create(&self, key: &CreatePublishableKey) -> Call<CreatedPublishableKey> {
        call::json(&self.0, &routes::CREATE_PUBLISHABLE_KEY, &[]).body(key).valid(key.validate())
    }

    /// Deletes a key: requests with it are rejected immediately.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.publishable_keys().delete("pkid_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, key_id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_PUBLISHABLE_KEY, &[key_id.as_ref()]), decode::nothing)
    }
}
