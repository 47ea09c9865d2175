//! Domains: host names that a tenant's links live on.

use deeplink_core::domain::{CreateDomain, CreatedDomain, DomainDetail, DomainVerification};
use deeplink_core::routes;

use crate::call::{self, Call};
use crate::client::Client;
use crate::decode;
use crate::error::Error;

/// The operations on domains; see [`Client::domains`].
#[derive(Debug, Clone)]
pub struct Domains(pub(crate) Client);

impl Domains {
    /// Every domain, newest first.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let domains = dl.domains().list().await?;
    /// assert!(domains[0].verified);
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Call<Vec<DomainDetail>> {
        call::json(&self.0, &routes::LIST_DOMAINS, &[])
    }

    /// Claims a domain. The reply says what to write into DNS; [`Domains::verify`] looks for it.
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
        let checked = domain.validate().map_err(Error::invalid);
        call::json(&self.0, &routes::CREATE_DOMAIN, &[]).body(domain).checked(checked)
    }

    /// Gives a domain up: its links stop working on it.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.domains().delete("go.example.com").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, domain: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_DOMAIN, &[domain.as_ref()]), decode::nothing)
    }

    /// Looks for the proof of a claim in DNS. That it is not there (yet) is a reply with a reason, not an error.
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
