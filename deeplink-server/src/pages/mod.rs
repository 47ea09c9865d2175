//! Pages for people: signing in, and the account with its forms.
//!
//! They are rendered on the server and work without a script; a small one of our own adds buttons that copy, the values
//! of charts and a preview that follows what is typed. A form does the same as the API operation of that name: the
//! handlers call the same functions. All requests pass [`guard::guard`]: these pages are on the service's own host only,
//! no other site can submit their forms, and errors are pages too.

mod account;
mod affiliate_numbers;
mod affiliates;
mod apps;
mod audit;
pub(crate) mod auth;
mod chart;
mod confirm;
mod deliveries;
mod domains;
mod download;
mod explanations;
mod export;
mod faults;
mod favicon;
mod form;
mod frame;
mod guard;
mod headers;
mod home;
mod keys;
mod link_csv;
mod link_fields;
mod link_filter;
mod link_form;
mod link_history;
mod link_list;
mod links;
pub(crate) mod missing;
mod notice;
mod one_time;
mod person;
mod plan;
mod qr_draft;
mod qr_logo;
mod qr_look;
mod range;
mod secret;
mod selected_links;
mod settings;
mod signin;
mod sources;
mod tags;
mod team;
mod time;
mod webhooks;

use axum::Router;
use axum::middleware;
use axum::response::Response;
use axum::routing::{any, get, post};
use http::{Method, Uri};

use crate::error::ApiError;
use crate::state::Shared;

/// The CSS that these pages share with the documentation.
pub(crate) const COMMON_CSS: &str = include_str!("../../templates/pages/common.css");

/// The path of the home page.
pub(crate) const HOME: &str = "/";

macro_rules! table {
    ($(.route($path:literal, $methods:expr))+) => {
        /// The paths of the pages, as router templates.
        pub(crate) const PATHS: &[&str] = &[$($path),+];

        fn table() -> Router<Shared> {
            Router::new()$(.route($path, $methods))+
        }
    };
}

table! {
    .route("/signin", get(signin::show).post(signin::send))
    .route("/signin/once", get(one_time::show).post(one_time::enter))
    .route("/account", get(account::show))
    .route("/account/signout", post(account::sign_out))
    .route("/account/confirm", get(auth::sign_up).post(auth::confirm))
    .route("/account/links", get(link_list::list))
    .route("/account/links.csv", get(link_csv::download))
    .route("/account/selected-links", get(selected_links::back).post(selected_links::apply))
    .route("/account/new-link", get(link_form::new).post(link_form::create))
    .route("/account/new-link/qr.svg", get(qr_draft::image))
    .route("/account/links/{link_id}", get(links::show))
    .route("/account/links/{link_id}/edit", get(link_form::edit).post(link_form::update))
    .route("/account/links/{link_id}/delete", get(links::confirm).post(links::delete))
    .route("/account/links/{link_id}/history", get(link_history::show).post(link_history::restore))
    .route("/account/deleted-links", get(link_history::deleted))
    .route("/account/links/{link_id}/qr", get(qr_look::show).post(qr_look::save))
    .route("/account/links/{link_id}/qr/logo", get(qr_logo::back).post(qr_logo::upload))
    .route("/account/links/{link_id}/qr.{format}", get(qr_look::download))
    .route("/account/domains", get(domains::list).post(domains::create))
    .route("/account/domains/{domain}", get(domains::show).post(domains::verify))
    .route("/account/domains/{domain}/edit", get(domains::back).post(domains::update))
    .route("/account/domains/{domain}/delete", get(domains::confirm).post(domains::delete))
    .route("/account/apps", get(apps::list))
    .route("/account/new-app", get(apps::new).post(apps::create))
    .route("/account/apps/{app_id}", get(apps::show).post(apps::update))
    .route("/account/apps/{app_id}/delete", get(apps::confirm).post(apps::delete))
    .route("/account/keys", get(keys::list).post(keys::issue))
    .route("/account/keys/{key_id}/delete", get(keys::confirm).post(keys::delete))
    .route("/account/keys/publishable", post(keys::create))
    .route("/account/keys/publishable/{key_id}/delete", get(keys::confirm_publishable).post(keys::delete_publishable))
    .route("/account/affiliates", get(affiliates::list).post(affiliates::create))
    .route("/account/affiliates/{affiliate_id}", get(affiliates::show).post(affiliates::update))
    .route("/account/affiliates/{affiliate_id}/delete", get(affiliates::confirm).post(affiliates::delete))
    .route("/account/affiliates/{affiliate_id}/credentials", post(affiliates::mint))
    .route(
        "/account/affiliates/{affiliate_id}/credentials/{key_id}/delete",
        get(affiliates::confirm_credential).post(affiliates::delete_credential)
    )
    .route("/account/sources", get(sources::list).post(sources::create))
    .route("/account/sources/{id}", get(sources::back).post(sources::reveal))
    .route("/account/sources/{id}/delete", get(sources::confirm).post(sources::delete))
    .route("/account/webhooks", get(webhooks::list).post(webhooks::create))
    .route("/account/webhooks/{webhook_id}", get(webhooks::show).post(webhooks::update))
    .route("/account/webhooks/{webhook_id}/secret", get(webhooks::confirm_rotate).post(webhooks::rotate))
    .route("/account/webhooks/{webhook_id}/test", get(webhooks::back).post(webhooks::test))
    .route("/account/webhooks/{webhook_id}/replay", get(webhooks::back).post(webhooks::replay))
    .route("/account/webhooks/{webhook_id}/delete", get(webhooks::confirm).post(webhooks::delete))
    .route("/account/webhooks/{webhook_id}/deliveries", get(deliveries::list))
    .route(
        "/account/webhooks/{webhook_id}/deliveries/{delivery_id}",
        get(deliveries::show).post(deliveries::replay)
    )
    .route("/account/plan", get(plan::show))
    .route("/account/plan/checkout", get(plan::back).post(plan::checkout))
    .route("/account/plan/portal", get(plan::back).post(plan::portal))
    .route("/account/plan/cancel", get(plan::confirm).post(plan::cancel))
    .route("/account/settings", get(settings::show).post(settings::update))
    .route("/account/settings/export", get(export::download))
    .route("/account/settings/delete", get(settings::confirm).post(settings::delete))
    .route("/account/settings/cancel-deletion", get(settings::back).post(settings::cancel_deletion))
    .route("/account/audit", get(audit::list))
    .route("/account/team", get(team::list).post(team::invite))
    .route("/account/team/{user_id}/remove", get(team::confirm).post(team::remove))
}

/// The result of a page's handler.
type PageResult = Result<Response, ApiError>;

/// Every page.
pub(crate) fn routes(app: &Shared) -> Router<Shared> {
    // Unknown paths get a page too, and a trailing slash redirects.
    let table = table().route("/signin/", any(unknown)).route("/account/", any(unknown));
    let table = table.route("/account/{*rest}", any(unknown));
    let guarded = table.layer(middleware::from_fn_with_state(app.clone(), guard::guard));
    // On hosts that are nobody's there is no home page, and programs get JSON here.
    guarded.route(HOME, get(home::show)).merge(favicon::files())
}

/// An unknown path under the account.
async fn unknown(method: Method, uri: Uri) -> PageResult {
    match uri.path().strip_suffix('/') {
        Some(path) if matches!(method, Method::GET | Method::HEAD) => {
            let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            Ok(headers::see_other(&format!("{path}{query}")))
        }
        _ => Err(ApiError::not_found()),
    }
}
