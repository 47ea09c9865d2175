//! Links explained: what a visitor would get, and why.

use axum::Json;
use axum::extract::State;
use deeplink_core::error::ErrorBody;
use deeplink_core::explanation::{ExplainQuery, Explanation};

use super::links;
use crate::caller::Caller;
use crate::db::domains;
use crate::error::ApiError;
use crate::http::auth::LinkWriter;
use crate::http::documented::{AnyKey, NotFound};
use crate::http::extract::{Path, Query};
use crate::state::{App, Shared};
use crate::visit::explanation::Address;

/// Explains what a visitor of a link gets.
///
/// The answer to such a visit is decided by the code that answers visits, with the reason, the step and the row of the
/// decision table. Nothing is counted. Without parameters the visitor is a browser on Windows at the link's own address.
#[utoipa::path(
    get, path = "/v1/links/{link_id}/explain", operation_id = "explain_link", tag = "links", security(("secret_key" = [])),
    params(
        ("link_id" = String, Path, description = "The link's id"),
        ("user_agent" = Option<String>, Query, description = "The visitor's `User-Agent`; a browser on Windows when absent, none when empty", max_length = 2048),
        ("accept" = Option<String>, Query, description = "The visitor's `Accept`; `text/html` when absent", max_length = 2048),
        ("os" = Option<String>, Query, description = "The visitor's `Sec-CH-UA-Platform`, such as `Android`: it outranks the `User-Agent` if it names a system that decides", max_length = 2048),
        ("host" = Option<String>, Query, description = "The host that is visited: a verified domain of the account, such as its alternate one, or the service's own; that of the link's `url` when absent", max_length = 2048),
        ("redirect" = Option<String>, Query, description = "`1`: the visit has `redirect=1`", pattern = "^1$"),
    ),
    responses(
        (status = 200, description = "What the visitor gets, and why", body = Explanation),
        AnyKey, NotFound,
        (status = 400, description = "`field` names a parameter that is malformed or too long, or the host is not the account's", body = ErrorBody),
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    Path(link_id): Path<String>,
    query: Query,
) -> Result<Json<Explanation>, ApiError> {
    let asked = read(&query);
    let host = asked.as_ref().ok().and_then(|asked| asked.host.as_deref());
    let address = address_of(&app, &caller, &link_id, host).await;
    // A missing link is reported before a malformed query.
    match (address, asked) {
        (Ok(address), Ok(asked)) => address.explain(&app, &asked).await.map(Json),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// The address of one of the caller's links on a host, or its own.
pub(crate) async fn address_of(
    app: &App,
    caller: &Caller,
    link_id: &str,
    host: Option<&str>,
) -> Result<Address, ApiError> {
    let mut reader = app.db.read().await?;
    let mut db = reader.conn();
    let link = links::find(&mut db, caller, link_id).await?;
    let primary = domains::primary_of(&mut db, &caller.tenant).await?;
    Address::of(app, &mut db, &link, primary.as_deref(), host).await
}

fn read(query: &Query) -> Result<ExplainQuery, ApiError> {
    let text = |name| query.one(name).map(|value| value.map(str::to_owned));
    let mut asked = ExplainQuery::new();
    asked.user_agent = text("user_agent")?;
    asked.accept = text("accept")?;
    asked.os = text("os")?;
    asked.host = text("host")?;
    asked.redirect = query.parsed("redirect", "1 or absent", |text| (text == "1").then_some(()))?.is_some();
    asked.check()?;
    Ok(asked)
}
