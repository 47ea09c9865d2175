//! Affiliates: partners, and the credentials that can access only their links.

use deeplink_core::affiliate::{
    AffiliateDetail, AffiliateList, CreateAffiliate, CreatedCredential, CredentialList, UpdateAffiliate,
};
use deeplink_core::routes;

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::page::{Listing, Pages};

/// The operations on affiliates; see [`crate::Client::affiliates`].
#[derive(Debug, Clone)]
pub struct Affiliates(pub(crate) Connection);

impl Affiliates {
    /// The affiliates, newest first: all of them when awaited, or as pages or one by one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let affiliates = dl.affiliates().list().await?;
    /// assert_eq!(affiliates[0].partner_key, "partner");
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<AffiliateList>> {
        Pages::listing(&self.0, &routes::LIST_AFFILIATES, None)
    }

    /// Creates an affiliate. Links are attributed to it by its ID; with its own credential, the partner can create them.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreateAffiliate;
    /// let partner = dl.affiliates().create(&CreateAffiliate::new("Partner", "partner")).await?;
    /// println!("{}", partner.id);
    /// # Ok(()) });
    /// ```
    pub fn create(&self, affiliate: &CreateAffiliate) -> Call<AffiliateDetail> {
        call::json(&self.0, &routes::CREATE_AFFILIATE, &[]).body(affiliate).valid(affiliate.check())
    }

    /// Returns an affiliate.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let partner = dl.affiliates().get("aff_0123456789abcdef01234567").await?;
    /// assert_eq!(partner.name, "Partner");
    /// # Ok(()) });
    /// ```
    pub fn get(&self, affiliate_id: impl AsRef<str>) -> Call<AffiliateDetail> {
        call::json(&self.0, &routes::GET_AFFILIATE, &[affiliate_id.as_ref()])
    }

    /// Renames an affiliate, or disables or enables its credentials; its links keep working either way.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{AffiliateStatus, UpdateAffiliate};
    /// let stop = UpdateAffiliate::new().status(AffiliateStatus::Disabled);
    /// dl.affiliates().update("aff_0123456789abcdef01234567", &stop).await?;
    /// # Ok(()) });
    /// ```
    pub fn update(&self, affiliate_id: impl AsRef<str>, update: &UpdateAffiliate) -> Call<AffiliateDetail> {
        call::json(&self.0, &routes::UPDATE_AFFILIATE, &[affiliate_id.as_ref()]).body(update).valid(update.check())
    }

    /// Deletes an affiliate and its credentials. Its links keep working and keep the affiliate ID.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.affiliates().delete("aff_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, affiliate_id: impl AsRef<str>) -> Call<()> {
        let draft = call::draft(&routes::DELETE_AFFILIATE, &[affiliate_id.as_ref()]);
        Call::new(&self.0, draft, decode::nothing)
    }

    /// The credentials of an affiliate.
    pub fn credentials(&self, affiliate_id: impl Into<String>) -> Credentials {
        Credentials { connection: self.0.clone(), affiliate: affiliate_id.into() }
    }
}

/// The operations on the credentials of one affiliate; see [`Affiliates::credentials`].
#[derive(Debug, Clone)]
pub struct Credentials {
    connection: Connection,
    affiliate: String,
}

impl Credentials {
    /// The credentials, newest first; never the keys themselves.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let credentials = dl.affiliates().credentials("aff_0123456789abcdef01234567").list().await?;
    /// assert!(credentials[0].key_prefix.starts_with("dl_live_"));
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<CredentialList>> {
        Pages::listing(&self.connection, &routes::LIST_CREDENTIALS, Some(&self.affiliate))
    }

    /// Creates a credential. Its key is only in this response.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let made = dl.affiliates().credentials("aff_0123456789abcdef01234567").create().await?;
    /// assert!(made.api_key.is_well_formed());
    /// # Ok(()) });
    /// ```
    pub fn create(&self) -> Call<CreatedCredential> {
        call::json(&self.connection, &routes::CREATE_CREDENTIAL, &[&self.affiliate])
    }

    /// Deletes a credential; its key stops working immediately.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let credentials = dl.affiliates().credentials("aff_0123456789abcdef01234567");
    /// credentials.delete("skid_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, key_id: impl AsRef<str>) -> Call<()> {
        let draft = call::draft(&routes::DELETE_CREDENTIAL, &[&self.affiliate, key_id.as_ref()]);
        Call::new(&self.connection, draft, decode::nothing)
    }
}
