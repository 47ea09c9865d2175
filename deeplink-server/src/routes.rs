//! The route table: every handler, each annotated with its method and path.
//!
//! Grouped by who calls. A handler's extractor is its permission; one without an extractor is public.

use std::collections::HashSet;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use http::StatusCode;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{
    account, affiliates, analytics, apps, audit, billing, bulk, bulk_change, callback, credentials, deliveries,
    domain_verify, domains, earlier, event_log, events, explanations, export, failed_deliveries, health, invites,
    key_requests, lifecycle, link_history, link_list, links, mcp, oauth, publishable_keys, qr, qr_logos, sdk,
    secret_keys, sessions, signin, signup, sources, stripe, stripe_webhook, tags, timeseries, users, webhooks, whoami,
};
use crate::docs;
use crate::error::ApiError;
use crate::http::{missing, x402};
use crate::metrics::RouteName;
use crate::openapi;
use crate::pages::{self, auth};
use crate::state::Shared;
use crate::visit::{self, association};

/// Every route with its documentation.
fn table() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::base())
        // Anyone
        // For the document only: `service` answers a visit before the router sees it.
        .routes(routes!(visit::resolve))
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .routes(routes!(openapi::document))
        .routes(routes!(openapi::llms))
        .routes(routes!(association::apple))
        .routes(routes!(association::asset_links))
        .routes(routes!(signup::create))
        .routes(routes!(signin::create))
        // Anyone, with a mailed token
        .routes(routes!(auth::sign_in, callback::create))
        .routes(routes!(auth::invitation, invites::accept))
        .routes(routes!(oauth::start))
        .routes(routes!(oauth::callback))
        .merge(sdk::files())
        // Anyone who knows a source's address
        .routes(routes!(sources::receive))
        // The payment processor, which signs
        .routes(routes!(stripe_webhook::receive))
        // Secret keys, and affiliates' credentials for their own links
        .routes(routes!(link_list::list, links::create))
        .routes(routes!(bulk::create, bulk_change::update, bulk_change::delete))
        .routes(routes!(whoami::get))
        .routes(routes!(qr::get))
        .routes(routes!(explanations::get))
        .routes(routes!(link_history::list))
        .routes(routes!(link_history::restore))
        // Secret keys; reading also for affiliates
        .routes(routes!(links::get, links::update, links::delete))
        .routes(routes!(timeseries::get))
        .routes(routes!(analytics::link))
        .routes(routes!(analytics::funnel))
        // Publishable keys, and secret keys
        .routes(routes!(lifecycle::click))
        .routes(routes!(lifecycle::attribute))
        .routes(routes!(lifecycle::identify))
        .routes(routes!(lifecycle::convert))
        // The same, in the earlier form
        .routes(routes!(earlier::click))
        .routes(routes!(earlier::report))
        .routes(routes!(earlier::link))
        // Signed-in users
        .routes(routes!(sessions::me))
        .routes(routes!(sessions::signout))
        .routes(routes!(secret_keys::issue))
        // Secret keys
        .routes(routes!(secret_keys::list, key_requests::request))
        .routes(routes!(key_requests::confirm))
        .routes(routes!(secret_keys::delete))
        .routes(routes!(publishable_keys::list, publishable_keys::create))
        .routes(routes!(publishable_keys::delete))
        .routes(routes!(affiliates::list, affiliates::create))
        .routes(routes!(affiliates::get, affiliates::update, affiliates::delete))
        .routes(routes!(credentials::list, credentials::create))
        .routes(routes!(credentials::delete))
        .routes(routes!(apps::list, apps::create))
        .routes(routes!(apps::delete))
        .routes(routes!(qr_logos::list))
        .routes(routes!(qr_logos::get, qr_logos::put, qr_logos::delete))
        .routes(routes!(tags::list))
        .routes(routes!(tags::rename, tags::delete))
        .routes(routes!(sources::list, sources::create))
        .routes(routes!(sources::get, sources::delete))
        .routes(routes!(webhooks::list, webhooks::create))
        .routes(routes!(webhooks::update, webhooks::delete))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(deliveries::test))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::replay))
        .routes(routes!(failed_deliveries::replay))
        .routes(routes!(domains::list, domains::create))
        .routes(routes!(domains::update, domains::delete))
        .routes(routes!(domain_verify::verify))
        .routes(routes!(users::list, users::invite))
        .routes(routes!(users::remove))
        .routes(routes!(event_log::list))
        .routes(routes!(events::stream))
        .routes(routes!(audit::list))
        .routes(routes!(account::get, account::update))
        .routes(routes!(account::delete, account::cancel_deletion))
        .routes(routes!(export::list))
        .routes(routes!(billing::status))
        .routes(routes!(billing::cancel))
        .routes(routes!(stripe::checkout))
        .routes(routes!(stripe::portal))
}

/// The OpenAPI description of every route.
pub(crate) fn description() -> OpenApi {
    openapi::finished(table().into_openapi())
}

/// The router for everything but visits.
pub(crate) fn router(app: Shared) -> Router {
    let (operations, _) = table().split_for_parts();
    // Tools send a key, so that they need no payment.
    let of_tools = operations.clone().route_layer(middleware::from_fn(name_route)).with_state(Shared::clone(&app));
    operations
        .merge(docs::routes())
        .merge(health::files())
        .merge(pages::routes(&app))
        .merge(mcp::route(of_tools))
        .route("/v1/links/{link_id}/qr.", axum::routing::get(qr::without_format))
        .route_layer(middleware::from_fn_with_state(Shared::clone(&app), x402::pay))
        .route_layer(middleware::from_fn(name_route))
        .fallback(pages::missing::show)
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed(None) })
        .with_state(app)
}

/// The paths of all routes.
static PATHS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let operations = deeplink_core::routes::ALL.iter().map(|route| route.path);
    operations.chain(pages::PATHS.iter().copied()).chain([pages::HOME, mcp::PATH]).collect()
});

/// Records the template of the route that answered, and names what it did not find.
async fn name_route(request: Request, next: Next) -> Response {
    let template = request.extensions().get::<axum::extract::MatchedPath>().cloned();
    let uri = request.uri().clone();
    let mut response = next.run(request).await;
    let Some(template) = template.as_ref().map(axum::extract::MatchedPath::as_str) else { return response };
    if response.status() == StatusCode::NOT_FOUND {
        missing::name(&mut response, template, uri.path());
    }
    if let Some(path) = PATHS.get(template) {
        response.extensions_mut().insert(RouteName(path));
    }
    response
}
