//! Links: make, list, show, change, delete, count.

use deeplink_core::bulk::{BatchRefused, BulkCreate, BulkCreated};
use deeplink_core::link::{CreateLink, CreatedLink, LinkDetail, LinkFilter, UpdateLink};
use deeplink_core::routes;
use deeplink_core::stats::{Timeseries, TimeseriesQuery};

use crate::call::{self, Call};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::page::LinkPages;
use crate::{clock, decode};

/// The operations on links; see [`Client::links`].
#[derive(Debug, Clone)]
pub struct Links(pub(crate) Client);

/// Which ids the links of a batch get.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ids {
    /// These, 1 to 100.
    Custom(Vec<String>),
    /// So many generated ones, 1 to 100.
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
    /// The links that pass the filter, newest first: as pages or one by one.
    pub fn list(&self, filter: &LinkFilter) -> LinkPages {
        LinkPages::new(self.0.clone(), filter.clone())
    }

    /// Makes a link.
    pub fn create(&self, link: &CreateLink) -> Call<CreatedLink> {
        let checked = link.validate().map_err(Error::invalid);
        call::json(&self.0, &routes::CREATE_LINK, &[]).body(link).checked(checked)
    }

    /// Shows a link.
    pub fn get(&self, link_id: impl AsRef<str>) -> Call<LinkDetail> {
        call::json(&self.0, &routes::GET_LINK, &[link_id.as_ref()])
    }

    /// Changes the fields that `update` names.
    pub fn update(&self, link_id: impl AsRef<str>, update: &UpdateLink) -> Call<LinkDetail> {
        let checked = update.validate().map_err(Error::invalid);
        call::json(&self.0, &routes::UPDATE_LINK, &[link_id.as_ref()]).body(update).checked(checked)
    }

    /// Deletes a link.
    pub fn delete(&self, link_id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::DELETE_LINK, &[link_id.as_ref()]), decode::nothing)
    }

    /// Makes the same link under several ids, all or none.
    pub fn bulk_create(&self, template: &CreateLink, ids: impl Into<Ids>) -> Call<BulkCreated> {
        let template = template.clone();
        self.bulk(match ids.into() {
            Ids::Custom(ids) => BulkCreate::with_ids(template, ids),
            Ids::Generated(count) => BulkCreate::with_count(template, count.into()),
        })
    }

    /// Makes links that differ, all or none.
    pub fn bulk_create_links(&self, links: &[CreateLink]) -> Call<BulkCreated> {
        self.bulk(BulkCreate::with_links(links.to_vec()))
    }

    fn bulk(&self, body: BulkCreate) -> Call<BulkCreated> {
        let call = call::json(&self.0, &routes::BULK_CREATE_LINKS, &[]).body(&body);
        call.checked(check_batch(body))
    }

    /// Counts a link's clicks over time.
    pub fn timeseries(&self, link_id: impl AsRef<str>, query: &TimeseriesQuery) -> Call<Timeseries> {
        let checked = query.window(clock::now()).map(drop).map_err(Error::invalid);
        call::json(&self.0, &routes::LINK_TIMESERIES, &[link_id.as_ref()]).query(query).checked(checked)
    }
}

fn check_batch(body: BulkCreate) -> Result<()> {
    body.check().map(drop).map_err(|refused| match refused {
        BatchRefused::Whole(invalid) => Error::invalid(invalid),
        BatchRefused::Rows(rows) => Error::invalid_rows(rows),
    })
}
