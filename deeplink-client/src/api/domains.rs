//! Custom domains for links.

use deeplink_core::domain::{CreateDomain, CreatedDomain, DomainDetail, DomainVerification, UpdateDomain};
use deeplink_core::routes;

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::page::{ArrayPage, Listing, Pages};

/// The operations on domains; see [`crate::Client::domains`].
#[derive(Debug, Clone)]
pub struct Domains(pub(crate) Connection);

impl Domains {
    /// The domains, newest first: all of them when awaited, or as pages or one by one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let domains = dl.domains().list().await?;
    /// assert!(domains[0].verified);
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<ArrayPage<DomainDetail>>> {
        Pages::array(&self.0, &routes::LIST_DOMAINS)
    }

    /// Adds a domain. The response lists the DNS records to create; [`Domains::verify`] checks them. A service whose public
    /// URL is a loopback address also accepts names under `.localhost`, and treats them as verified.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreateDomain;
    /// let claim = dl.domains().create(&CreateDomain::new("go.example.com")).await?;
    /// println!("{} TXT {}", claim.txt_record, claim.verification_token);
    /// println!("{} CNAME {}", claim.domain, claim.cname_target);
    /// # Ok(()) });
    /// ```
    pub fn create(&self, domain: &CreateDomain) -> Call<CreatedDomain> {
        call::json(&self.0, &routes::CREATE_DOMAIN, &[]).body(domain).valid(domain.validate())
    }

    /// Updates where a domain redirects visitors who open `/` or a link that does not exist; API clients always get
    /// 404.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{Patch, UpdateDomain};
    /// let mut update = UpdateDomain::new().root_url("https://www.example.com/");
    /// update.not_found_url = Patch::Clear;
    /// let domain = dl.domains().update("go.example.com", &update).await?;
    /// assert_eq!(domain.root_url.as_deref(), Some("https://www.example.com/"));
    /// # Ok(()) });
    /// ```
    pub fn update(&self, domain: impl AsRef<str>, update: &UpdateDomain) -> Call<DomainDetail> {
        call::json(&self.0, &routes::UPDATE_DOMAIN, &[domain.as_ref()]).body(update).valid(update.validate())
    }

    /// Deletes a domain: links on it stop working.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.domains().delete("go.example.com").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, domain: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_DOMAIN, &[domain.as_ref()]), decode::nothing)
    }

    /// Verifies a domain by its DNS records. A missing record is a response with a reason, not an error.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let looked = dl.domains().verify("go.example.com").await?;
    /// assert!(looked.verified && looked.reason.is_none());
    /// # Ok(()) });
    /// ```
    pub fn verify(&self, domain: impl AsRef<str>) -> Call<DomainVerification> {
        call::json(&self.0, &routes::VERIFY_DOMAIN, &[domain.as_ref()])
    }
}
