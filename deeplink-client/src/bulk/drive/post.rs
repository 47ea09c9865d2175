//! One request.

use deeplink_core::bulk::{BulkCreated, BulkLink};
use deeplink_core::link::CreatedLink;
use deeplink_core::routes;
use http::HeaderValue;

use super::Ready;
use crate::bulk::batch::Batch;
use crate::bulk::journal::Form;
use crate::call::{self, Options};
use crate::client::Client;
use crate::error::{Error, Kind};
use crate::retry::Retry;
use crate::{decode, send};

/// Sends a batch once.
pub(super) async fn post(client: &Client, ready: &Ready) -> Result<Vec<BulkLink>, Error> {
    let is_single = ready.batch.form == Form::Single;
    let route = if is_single { &routes::CREATE_LINK } else { &routes::BULK_CREATE_LINKS };
    let mut draft = call::draft(route, &[])?;
    draft.body = Some(ready.body.clone());
    draft.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(crate::JSON));
    let options = Options {
        payment: ready.payment.clone(),
        timeout: Some(client.0.inner().limits.attempt),
        retry: Some(Retry::none()),
        idempotency_key: Some(call::idempotency_key(&ready.key)?),
        unpaused: true,
    };
    let reply = send::perform(&client.0, &draft, &options).await?;
    if is_single {
        let made: CreatedLink = reply.read(decode::json)?;
        return Ok(vec![BulkLink { link_id: made.link_id, url: made.url }]);
    }
    reply.read(decode::json::<BulkCreated>).map(|made| made.links)
}

/// The links must be those that were requested: a response about other links settles nothing.
pub(super) fn check_links(batch: &Batch, links: Vec<BulkLink>) -> Result<Vec<BulkLink>, Error> {
    let same =
        links.len() == batch.rows.len() && links.iter().zip(&batch.rows).all(|(link, row)| link.link_id == row.id);
    if same {
        return Ok(links);
    }
    let why = "the response contains links other than those requested";
    Err(Error::from_source(Kind::Decode, why, "link_id").after(1, false, true))
}
