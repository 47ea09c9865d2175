//! Sources: URLs that conversions can be posted to without a key.

use deeplink_core::lifecycle::{Convert, Converted};
use deeplink_core::routes;
use deeplink_core::source::{CreateSource, SourceDetail, SourceList, SourceUrl};
use url::Url;

use crate::call::{self, Call, Draft, Target};
use crate::connection::{Connection, is_confidential};
use crate::error::{Error, Result};
use crate::page::{Listing, Pages};
use crate::{clock, decode, path};

/// The operations on sources; see [`crate::Client::sources`].
#[derive(Debug, Clone)]
pub struct Sources(pub(crate) Connection);

impl Sources {
    /// The sources, newest first, with their URLs if the service can decrypt them: all of them when awaited, or as
    /// pages or one by one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// for source in dl.sources().list().await? {
    ///     println!("{} {:?}", source.name, source.webhook_url); // the URL does not print its token
    /// }
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<SourceList>> {
        Pages::listing(&self.0, &routes::LIST_SOURCES, None)
    }

    /// Creates a source. Anyone who knows its URL can post to it.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreateSource;
    /// let source = dl.sources().create(&CreateSource::custom("Shop")).await?;
    /// let url = source.webhook_url.expect("a new source has a URL");
    /// assert!(url.expose().starts_with("https://api.example.com/in/"));
    /// # Ok(()) });
    /// ```
    pub fn create(&self, source: &CreateSource) -> Call<SourceDetail> {
        call::json(&self.0, &routes::CREATE_SOURCE, &[]).body(source).valid(source.validate())
    }

    /// Returns a source, with its URL.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// assert_eq!(dl.sources().get("src_0123456789abcdef01234567").await?.name, "Shop");
    /// # Ok(()) });
    /// ```
    pub fn get(&self, id: impl AsRef<str>) -> Call<SourceDetail> {
        call::json(&self.0, &routes::GET_SOURCE, &[id.as_ref()])
    }

    /// Deletes a source; its URL stops working immediately. Conversions already posted to it are kept.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.sources().delete("src_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_SOURCE, &[id.as_ref()]), decode::nothing)
    }

    /// Posts a conversion to a source: to exactly this URL, with no other credential. A failed attempt that may have
    /// taken effect is repeated only when the conversion has an idempotency key.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let url = dl.sources().get("src_0123456789abcdef01234567").await?.webhook_url.unwrap();
    /// use deeplink_client::Convert;
    /// let sale = Convert::new("user-7", "purchase").amount(4_200, "EUR").idempotency_key("order-1001");
    /// assert_eq!(dl.sources().send(&url, &sale).await?.accepted, 1);
    /// # Ok(()) });
    /// ```
    pub fn send(&self, to: &SourceUrl, conversion: &Convert) -> Call<Converted> {
        let draft = at(to, self.0.inner().allow_insecure_http).map(|mut draft| {
            draft.keyed_by_body = conversion.idempotency_key.is_some();
            draft
        });
        Call::new(&self.0, draft, decode::json).body(conversion).valid(conversion.validate(clock::now()))
    }
}

/// A request to a source's URL. Errors do not repeat it.
fn at(to: &SourceUrl, allow_insecure_http: bool) -> Result<Draft> {
    let wrong = |why: &'static str| Error::validation("webhook_url", why);
    let url = Url::parse(to.expose()).map_err(|_| wrong("not the URL of a source"))?;
    let has_user = !url.username().is_empty() || url.password().is_some();
    if !matches!(url.scheme(), "http" | "https") || has_user || url.fragment().is_some() {
        return Err(wrong(
            "the URL of a source must start with http:// or https:// and must not contain a user name \
            or fragment",
        ));
    }
    if !allow_insecure_http && !is_confidential(&url) {
        return Err(wrong("the URL of a source cannot be sent over plain http to another machine; use https"));
    }
    let mut draft = call::draft(&routes::SEND_TO_SOURCE, &["token"])?;
    // This URL is absolute, so the base URL plays no part.
    let target = Target::Secret(url.clone());
    path::uri(&url, &target).map_err(|_| wrong("not the URL of a source"))?;
    draft.target = target;
    Ok(draft)
}
