//! Explains links: what a visitor would get, and why.

use axum::Json;
use axum::extract::State;
use deeplink_core::error::ErrorBody;
use deeplink_core::explanation::{ExplainQuery, Explanation};

use super::links;
use crate::caller::Caller;
use crate::db::links::Link;
use crate::db::{Conn, DbError, domains, link_status};
use crate::error::ApiError;
use crate::http::auth::LinkWriter;
use crate::http::documented::{AnyKey, NotFound};
use crate::http::extract::{Path, Query};
use crate::state::{App, Shared};
use crate::visit::explanation::Address;

/// Explains what a visitor to a link gets.
///
/// Evaluates a visit with the same code as a real one, and returns the response with the reason, the step and the row
/// of the decision table. No click is counted. Without parameters, the visitor is a browser on Windows that opens the
/// link's own URL.
#[utoipa::path(
    get, path = "/v1/links/{link_id}/explain", operation_id = "explain_link", tag = "links", security(("secret_key" = [])),
    params(
        ("link_id" = String, Path, description = "The link's ID", example = "spring-42"),
        ("user_agent" = Option<String>, Query, description = "The `User-Agent` header of the visit; default: a browser on Windows; if empty, no header is sent", max_length = 2048),
        ("accept" = Option<String>, Query, description = "The `Accept` header of the visit; by default, `text/html`", max_length = 2048),
        ("os" = Option<String>, Query, description = "The `Sec-CH-UA-Platform` header of the visit, such as `Android`; takes precedence over `User-Agent` if it names a known operating system", max_length = 2048),
        ("host" = Option<String>, Query, description = "The host of the visit: a verified domain of the account or the service's own host; by default, the host of the link's `url`", max_length = 2048),
        ("redirect" = Option<String>, Query, description = "`1` to visit with `redirect=1`", pattern = "^1$"),
    ),
    responses(
        (status = 200, description = "What the visitor gets, and why", body = Explanation),
        AnyKey, NotFound,
        (status = 400, description = "`field` names a parameter that is malformed or too long, or the host does not belong to the account", body = ErrorBody),
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

/// One of the caller's links on a given host, or on its own.
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
    let mut address = Address::of(app, &mut db, &link, primary.as_deref(), host).await?;
    address.takedown = takedown_of(&mut db, caller, &link).await?;
    Ok(address)
}

/// The operator's reason for taking down a link, for callers with access to the whole account; `None` if it is not taken
/// down.
pub(crate) async fn takedown_of(db: &mut Conn<'_>, caller: &Caller, link: &Link) -> Result<Option<String>, DbError> {
    if !link.is_taken_down || caller.affiliate.is_some() {
        return Ok(None);
    }
    link_status::reason(db, &caller.tenant, &link.link_id).await
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
