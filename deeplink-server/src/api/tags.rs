//! Tags: list, rename or merge, delete, and assign to links.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::tag::{MAX_TAGS_OF_ACCOUNT, RenameTag, Tag, TagDetail, TagList};
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::StatusCode;

use crate::caller::Caller;
use crate::db::Conn;
use crate::db::links::Link;
use crate::db::tags::{self, BATCH, Given, Progress, Tagged};
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, JsonBody, NotFound};
use crate::http::extract::{BODY_LIMIT, Path, json_body, parse};
use crate::state::{App, SEARCHED_ROWS, Shared};

/// Lists the tags of all links, in alphabetical order. Maximum 1,000 per account.
#[utoipa::path(
    get, path = "/v1/tags", operation_id = "list_tags", tag = "tags", security(("secret_key" = [])),
    responses((status = 200, description = "All tags", body = TagList), FullKey)
)]
pub(crate) async fn list(State(app): State<Shared>, FullScope { caller, .. }: FullScope) -> Result<Response, ApiError> {
    Ok(([NO_STORE], Json(list_for(&app, &caller).await?)).into_response())
}

/// All tags of an account.
pub(crate) async fn list_for(app: &App, caller: &Caller) -> Result<TagList, ApiError> {
    let list = app.report_of_rows(caller, SEARCHED_ROWS, |mut db, tenant| {
        async move { tags::list(&mut db, &tenant).await }.boxed()
    });
    let found = list.await?;
    let mut tags: Vec<(Tag, i64)> = found.into_iter().map(|(tag, links)| (Tag::of_stored(tag), links)).collect();
    tags.sort();
    Ok(TagList::new(tags.into_iter().map(|(tag, links)| TagDetail::new(tag.into_text(), links)).collect()))
}

/// The tags of an account in alphabetical order, without link counts.
pub(crate) async fn names_for(app: &App, caller: &Caller) -> Result<Vec<Tag>, ApiError> {
    app.report(caller, |mut db, tenant| async move { tags::names(&mut db, &tenant).await }.boxed()).await
}

/// Renames a tag on all links that have it.
///
/// If the account already has the new tag, the two are merged. Links are then changed in batches: until the request completes, a list
/// may show some of them with the old tag and some with the new one. After a failure, retry the request.
#[utoipa::path(
    put, path = "/v1/tags/{tag}", operation_id = "rename_tag", tag = "tags", security(("secret_key" = [])),
    params(("tag" = String, Path, description = "The tag, case-insensitive", example = "spring")), request_body = RenameTag,
    responses(
        (status = 200, description = "The renamed tag", body = TagDetail),
        FullKey, JsonBody, NotFound,
        (status = 400, description = "The new tag is invalid (`invalid_tag`)", body = ErrorBody),
    )
)]
pub(crate) async fn rename(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(tag): Path<String>,
    request: Request,
) -> Result<Json<TagDetail>, ApiError> {
    let body = json_body(request, BODY_LIMIT).await?;
    rename_for(&app, caller, &tag, &parse::<RenameTag>(&body)?).await.map(Json)
}

/// Renames one of the caller's tags.
pub(crate) async fn rename_for(
    app: &Shared,
    caller: Arc<Caller>,
    tag: &str,
    asked: &RenameTag,
) -> Result<TagDetail, ApiError> {
    let (new, old) = (asked.check()?, Tag::parse(tag).map_err(|_| ApiError::not_found())?);
    let both = [old.clone(), new.clone()];
    // Counted first: after the change, a request that fails could not be repeated.
    let count = app.report_of_rows(&caller, SEARCHED_ROWS, |mut db, tenant| {
        async move { tags::count_links(&mut db, &tenant, &both).await }.boxed()
    });
    let links = count.await?;
    replace_in_batches(app, &caller, &old, Some(&new)).await?;
    Ok(TagDetail::new(new.into_text(), links))
}

/// Removes a tag from all links that have it.
///
/// Links are changed in batches. After a failure, retry the request.
#[utoipa::path(
    delete, path = "/v1/tags/{tag}", operation_id = "delete_tag", tag = "tags", security(("secret_key" = [])),
    params(("tag" = String, Path, description = "The tag, case-insensitive", example = "spring")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(tag): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &tag).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes one of the caller's tags.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, tag: &str) -> Result<(), ApiError> {
    let tag = Tag::parse(tag).map_err(|_| ApiError::not_found())?;
    replace_in_batches(app, &caller, &tag, None).await
}

/// Replaces a tag with another or removes it, in writes short enough for other writes to run in between.
async fn replace_in_batches(app: &Shared, caller: &Arc<Caller>, old: &Tag, new: Option<&Tag>) -> Result<(), ApiError> {
    let mut existed = false;
    loop {
        let step = app.write(
            caller.turn().of_rows(BATCH.into()),
            (Arc::clone(caller), old.clone(), new.cloned()),
            |tx, (caller, old, new)| {
                async move {
                    caller.hold(tx).await?;
                    Ok::<_, ApiError>(tags::replace_everywhere(tx, &caller.tenant, old, new.as_ref()).await?)
                }
                .boxed()
            },
            |_, _, _| {},
        );
        match step.await? {
            Progress::Some => existed = true,
            Progress::Done => return Ok(()),
            // Another request has finished the work.
            Progress::NoTag if existed => return Ok(()),
            Progress::NoTag => return Err(ApiError::not_found()),
        }
    }
}

/// Adds tags to new links.
pub(super) async fn give(
    app: &App,
    tx: &mut Conn<'_>,
    tenant: &TenantId,
    links: &[Tagged<'_>],
    now: Timestamp,
) -> Result<(), ApiError> {
    within_tags(tags::give(tx, tenant, links, |count| app.positions.draw(now, count).collect()).await?)
}

/// Fails if the account would have too many different tags.
pub(super) fn within_tags(given: Given) -> Result<(), ApiError> {
    let message = format!("tags: this account would have more than {MAX_TAGS_OF_ACCOUNT} different tags");
    match given {
        Given::Yes => Ok(()),
        Given::TooMany => Err(Invalid::field(ErrorCode::TagLimit, "tags", message).into()),
    }
}

/// Replaces a link's tags.
pub(super) async fn replace(
    app: &App,
    tx: &mut Conn<'_>,
    link: &mut Link,
    tags: &[Tag],
    now: Timestamp,
) -> Result<(), ApiError> {
    let draw = |count| app.positions.draw(now, count).collect();
    within_tags(tags::replace(tx, &link.tenant, &[link.position], tags, draw).await?)?;
    // As the account spells them.
    link.content.tags = tags::of_link(tx, link.position).await?;
    Ok(())
}
