//! Tags of links.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::tag::{self, MAX_TAGS_OF_ACCOUNT, Tag};
use deeplink_core::time::Timestamp;

use crate::db::Conn;
use crate::db::links::Link;
use crate::db::tags::{self, Given, Tagged};
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::state::App;

/// The tags that links must have, each as its key.
pub(crate) fn filter_in(query: &Query) -> Result<Vec<String>, ApiError> {
    let tags: Vec<String> = query.every("tag").map(str::to_owned).collect();
    Ok(tag::check_filter(&tags)?.iter().map(|tag| tag.key().to_owned()).collect())
}

/// Gives new links their tags.
pub(super) async fn give(
    app: &App,
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    links: &[Tagged<'_>],
    now: Timestamp,
) -> Result<(), ApiError> {
    within_tags(tags::give(tx, tenant, links, |count| app.positions.draw(now, count).collect()).await?)
}

/// Refuses more different tags than an account can have.
fn within_tags(given: Given) -> Result<(), ApiError> {
    let message = format!("tags: the links of this account would have more than {MAX_TAGS_OF_ACCOUNT} different ones");
    match given {
        Given::Yes => Ok(()),
        Given::TooMany => Err(Invalid::field(ErrorCode::TagLimit, "tags", message).into()),
    }
}

/// Gives a link these tags in place of those that it has.
pub(super) async fn replace(
    app: &App,
    tx: &mut Conn<'_>,
    link: &mut Link,
    tags: &[Tag],
    now: Timestamp,
) -> Result<(), ApiError> {
    let draw = |count| app.positions.draw(now, count).collect();
    within_tags(tags::replace(tx, &link.tenant, (link.position, tags), draw).await?)?;
    // As the account spells them.
    link.content.tags = tags::of_link(tx, link.position).await?;
    Ok(())
}
