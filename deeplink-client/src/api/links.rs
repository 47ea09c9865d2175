//! Links: create, list, get, update, delete, restore, generate QR codes, explain, count clicks.

use bytes::Bytes;
use deeplink_core::bulk::{BatchRefused, BulkCreate, BulkCreated, BulkDelete, BulkDeleted, BulkUpdate, BulkUpdated};
use deeplink_core::explanation::{ExplainQuery, Explanation};
use deeplink_core::funnel::LinkStats;
use deeplink_core::link::{CreateLink, CreatedLink, LinkDetail, LinkFilter, LinkHistory, RestoreLink, UpdateLink};
use deeplink_core::qr::{QrFormat, QrOptions};
use deeplink_core::routes;
use deeplink_core::stats::{Timeseries, TimeseriesQuery};

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::page::{LinkPages, Listing, Pages};
use crate::{clock, decode};

/// The operations on links; see [`crate::Client::links`].
#[derive(Debug, Clone)]
pub struct Links(pub(crate) Connection);

/// The ids of a batch's links.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ids {
    /// These, 1 to 100.
    Custom(Vec<String>),
    /// This many generated ids, 1 to 100.
    Generated(u32),
}

impl<T: Into<String>, const N: usize> From<[T; N]> for Ids {
    fn from(ids: [T; N]) -> Self {
        Self::Custom(ids.into_iter().map(Into::into).collect())
    }
}

impl From<Vec<String>> for Ids {
    fn from(ids: Vec<String>) -> Self {
        Self::Custom(ids)
    }
}

impl Links {
    /// The links that match the filter, as pages or one by one; newest first unless the filter sets another order.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::LinkFilter;
    /// let page = dl.links().list(&LinkFilter::new().id_prefix("spring-")).first_page().await?;
    /// assert_eq!(page.links[0].link_id, "spring-42");
    /// # Ok(()) });
    /// ```
    pub fn list(&self, filter: &LinkFilter) -> LinkPages {
        LinkPages::new(self.0.clone(), filter.clone())
    }

    /// Creates a link.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreateLink;
    /// let made = dl.links().create(&CreateLink::new().web_url("https://example.com/p/42")).await?;
    /// assert_eq!(made.url, "https://go.example.com/spring-42");
    /// # Ok(()) });
    /// ```
    pub fn create(&self, link: &CreateLink) -> Call<CreatedLink> {
        call::json(&self.0, &routes::CREATE_LINK, &[]).body(link).valid(link.validate())
    }

    /// Returns a link.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let link = dl.links().get("spring-42").await?;
    /// assert_eq!(link.web_url.as_deref(), Some("https://example.com/"));
    /// # Ok(()) });
    /// ```
    pub fn get(&self, link_id: impl AsRef<str>) -> Call<LinkDetail> {
        call::json(&self.0, &routes::GET_LINK, &[link_id.as_ref()])
    }

    /// Updates the fields that are set in `update`.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{Patch, UpdateLink};
    /// let mut update = UpdateLink::new();
    /// update.web_url = Patch::Set("https://example.com/".into());
    /// update.metadata = Patch::Clear;
    /// let link = dl.links().update("spring-42", &update).await?;
    /// assert_eq!(link.metadata, None);
    /// # Ok(()) });
    /// ```
    pub fn update(&self, link_id: impl AsRef<str>, update: &UpdateLink) -> Call<LinkDetail> {
        call::json(&self.0, &routes::UPDATE_LINK, &[link_id.as_ref()]).body(update).valid(update.validate())
    }

    /// Deletes a link.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.links().delete("spring-42").await?;
    /// # Ok(()) });
    /// ```
    pub fn delete(&self, link_id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_LINK, &[link_id.as_ref()]), decode::nothing)
    }

    /// Creates the same link under several IDs, all or nothing.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreateLink;
    /// let template = CreateLink::new().web_url("https://example.com/sale");
    /// let made = dl.links().bulk_create(&template, ["spring-42", "spring-43"]).await?;
    /// assert_eq!(made.links.len(), 2);
    /// # Ok(()) });
    /// ```
    pub fn bulk_create(&self, template: &CreateLink, ids: impl Into<Ids>) -> Call<BulkCreated> {
        let template = template.clone();
        self.bulk(match ids.into() {
            Ids::Custom(ids) => BulkCreate::with_ids(template, ids),
            Ids::Generated(count) => BulkCreate::with_count(template, count.into()),
        })
    }

    /// Creates different links, all or nothing.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::CreateLink;
    /// let links = ["42", "43"].map(|p| CreateLink::new().web_url(format!("https://example.com/p/{p}")));
    /// let made = dl.links().bulk_create_links(&links).await?;
    /// assert_eq!(made.links[0].link_id, "spring-42");
    /// # Ok(()) });
    /// ```
    pub fn bulk_create_links(&self, links: &[CreateLink]) -> Call<BulkCreated> {
        self.bulk(BulkCreate::with_links(links.to_vec()))
    }

    fn bulk(&self, body: BulkCreate) -> Call<BulkCreated> {
        let call = call::json(&self.0, &routes::BULK_CREATE_LINKS, &[]).body(&body);
        call.checked(check_batch(body))
    }

    /// Changes many links, all or nothing.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{BulkUpdate, Patch, UpdateLink};
    /// let mut update = UpdateLink::new();
    /// update.web_url = Patch::Set("https://example.com/".into());
    /// let change = BulkUpdate::new(["spring-42", "spring-43"]).set(update).add_tags(["Spring sale"]);
    /// let changed = dl.links().bulk_update(&change).await?;
    /// assert_eq!(changed.links.len(), 2);
    /// # Ok(()) });
    /// ```
    pub fn bulk_update(&self, change: &BulkUpdate) -> Call<BulkUpdated> {
        call::json(&self.0, &routes::BULK_UPDATE_LINKS, &[]).body(change).valid(change.check().map(drop))
    }

    /// Deletes many links, all or nothing.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let gone = dl.links().bulk_delete(["spring-42", "spring-43"]).await?;
    /// assert_eq!(gone.deleted, 2);
    /// # Ok(()) });
    /// ```
    pub fn bulk_delete<T: Into<String>>(&self, link_ids: impl IntoIterator<Item = T>) -> Call<BulkDeleted> {
        let asked = BulkDelete::new(link_ids);
        let keyed = call::json(&self.0, &routes::BULK_DELETE_LINKS, &[]).edit(|draft| {
            draft.is_keyed = true;
            Ok(())
        });
        keyed.body(&asked).valid(asked.check().map(drop))
    }

    /// Generates a QR code of a link's URL (ISO/IEC 18004): the bytes of a PNG, SVG, PDF or EPS file, at most 16 MiB.
    /// Without options, it has the link's saved design ([`LinkDetail::qr`]); a size changes only the size, and with any
    /// other option, the saved design is ignored.
    ///
    /// The same options produce the same bytes, so the `ETag` header, which [`Call::full`] returns, shows whether a
    /// stored file is still current. Generating the code does not count as a click.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{DotType, QrFormat, QrOptions, Rgb};
    /// let look = QrOptions::new().size(1_024_u32).dot_type(DotType::Classy).fg_color(Rgb([10, 60, 140]));
    /// let png = dl.links().qr("spring-42", QrFormat::Png, &look).await?;
    /// assert!(png.starts_with(b"\x89PNG"));
    /// let svg = dl.links().qr("spring-42", QrFormat::Svg, &QrOptions::new()).await?;
    /// assert!(svg.starts_with(b"<svg"));
    /// # Ok(()) });
    /// ```
    pub fn qr(&self, link_id: impl AsRef<str>, format: QrFormat, options: &QrOptions) -> Call<Bytes> {
        let draft = call::draft(&routes::LINK_QR, &[link_id.as_ref(), format.as_str()]);
        Call::new(&self.0, draft, decode::image).query(options).valid(options.check())
    }

    /// The versions of a link, newest first: what it was before each change. They are also available for a link that
    /// was deleted in the last 30 days.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// for version in dl.links().history("spring-42").await? {
    ///     println!("{} {} by {:?}: {:?}", version.changed_at, version.change, version.actor, version.content.web_url);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn history(&self, link_id: impl AsRef<str>) -> Pages<Listing<LinkHistory>> {
        Pages::listing(&self.0, &routes::LINK_HISTORY, Some(link_id.as_ref()))
    }

    /// Restores a version of a link, by default what it was before its last change, or a link that was deleted in the last 30
    /// days.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::RestoreLink;
    /// let link = dl.links().restore("spring-42", RestoreLink::new().version(3)).await?;
    /// assert_eq!(link.link_id, "spring-42");
    /// # Ok(()) });
    /// ```
    pub fn restore(&self, link_id: impl AsRef<str>, version: RestoreLink) -> Call<LinkDetail> {
        call::json(&self.0, &routes::RESTORE_LINK, &[link_id.as_ref()]).body(&version)
    }

    /// Explains what a visitor would get, and why. No click is counted.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{ExplainQuery, ExplainedOutcome, SampleVisitor};
    /// let why = dl.links().explain("spring-42", &ExplainQuery::from(SampleVisitor::IPHONE)).await?;
    /// assert_eq!((why.outcome, why.row.as_deref()), (ExplainedOutcome::Redirect, Some("D14")));
    /// assert_eq!(why.target.as_deref(), Some("https://example.com/"));
    /// # Ok(()) });
    /// ```
    pub fn explain(&self, link_id: impl AsRef<str>, query: &ExplainQuery) -> Call<Explanation> {
        call::json(&self.0, &routes::EXPLAIN_LINK, &[link_id.as_ref()]).query(query).valid(query.check())
    }

    /// The clicks on a link over time.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::TimeseriesQuery;
    /// let clicks = dl.links().timeseries("spring-42", &TimeseriesQuery::new()).await?;
    /// assert_eq!(clicks.data.iter().map(|day| day.clicks).sum::<i64>(), 21);
    /// # Ok(()) });
    /// ```
    pub fn timeseries(&self, link_id: impl AsRef<str>, query: &TimeseriesQuery) -> Call<Timeseries> {
        call::json(&self.0, &routes::LINK_TIMESERIES, &[link_id.as_ref()])
            .query(query)
            .valid(query.window(clock::now()))
    }

    /// All-time totals of a link, by last touch. [`Analytics::funnel`](crate::Analytics::funnel) reports on a time range,
    /// several links, or other touches.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let stats = dl.links().stats("spring-42").await?;
    /// assert_eq!((stats.click_count, stats.convert_count), (120, 3));
    /// # Ok(()) });
    /// ```
    pub fn stats(&self, link_id: impl AsRef<str>) -> Call<LinkStats> {
        call::json(&self.0, &routes::LINK_STATS, &[link_id.as_ref()])
    }
}

fn check_batch(body: BulkCreate) -> Result<()> {
    body.check().map(drop).map_err(|refused| match refused {
        BatchRefused::Whole(invalid) => Error::invalid(invalid),
        BatchRefused::Rows(rows) => Error::invalid_rows(rows),
    })
}
