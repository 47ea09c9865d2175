//! Checks the publishable key without reporting anything.

use std::time::Duration;

use deeplink_client::doctor::{Check, Status};
use deeplink_client::{Auth, Retry};
use http::Method;

use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::net::Reads;

/// Whether the service accepts the publishable key, if one is set. It sends a click without a link: the service checks
/// the key first and then refuses the rest.
pub(super) async fn check(ctx: &Context, limit: Duration) -> Check {
    let check = |status, message: String, fix| Check::new("config.pk", &ctx.profile, status, message, fix);
    if !ctx.has_publishable_key() || ctx.global.dry_run {
        return check(Status::Skip, "DL_PUBLISHABLE_KEY is not set".to_owned(), None);
    }
    match status_of(ctx, limit).await {
        Ok((key, 400)) => check(Status::Ok, format!("{key} is accepted"), None),
        Ok((key, 401)) => {
            let fix = "dl pk list shows the account's keys; a key works only while its domain is verified";
            check(Status::Fail, format!("{key} is rejected"), Some(fix.to_owned()))
        }
        Ok((key, 404)) => {
            check(Status::Skip, format!("{key} was not tested: this service does not accept SDK reports"), None)
        }
        Ok((key, status)) => {
            let fix = "try again; dl ping shows more".to_owned();
            check(Status::Warn, format!("{key} could not be tested (HTTP {status})"), Some(fix))
        }
        Err(Stop::Failed(failure)) => check(Status::Fail, failure.message, failure.hint),
        Err(_) => check(Status::Warn, "the key could not be tested".to_owned(), None),
    }
}

/// The key's beginning, and how the service answers it.
async fn status_of(ctx: &Context, limit: Duration) -> Outcome<(String, u16)> {
    let key = ctx.publishable_key()?;
    let shown = key.shown_prefix();
    let client = ctx.client_for(&ctx.base_url()?, Auth::PublishableKey(key), Reads::Held)?;
    let nothing = client.request(Method::POST, "/v1/lifecycle/click").json(&serde_json::json!({}));
    let reply = nothing.timeout(limit).retry(Retry::none()).await.map_err(|error| ctx.stop(&error))?;
    Ok((shown, reply.status.as_u16()))
}
