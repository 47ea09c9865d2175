//! `dl whoami`: which key is used, where it came from, and whether the service takes it.

use clap::Args;
use deeplink_client::{Auth, LinkFilter};
use serde::Serialize;

use crate::cli::help;
use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::exit::Exit;
use crate::net::Reads;
use crate::output;

/// Show which key is used, where it came from, and whether the service accepts it
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl whoami", "dl whoami --profile staging -o json"]))]
pub(crate) struct Whoami {}

/// What there is to say about the key in use.
#[derive(Debug, Serialize)]
pub(crate) struct Identity {
    pub(crate) profile: String,
    pub(crate) base_url: String,
    pub(crate) origin: String,
    pub(crate) key_source: String,
    pub(crate) key_prefix: String,
    pub(crate) accepted: bool,
}

impl Whoami {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::IDENTITY)?;
        let (base, found) = (ctx.base_url()?, ctx.key()?);
        let (source, prefix) = (found.source.to_string(), found.key.to_string());
        let client = ctx.client_for(&base, Auth::SecretKey(found.key), Reads::Held)?;
        probe(ctx, &client).await.map_err(|stop| match stop {
            Stop::Failed(mut failure) if failure.exit == Exit::Auth => {
                failure.message = format!("{}; the key {prefix} came from {source}", failure.message);
                Stop::Failed(failure)
            }
            other => other,
        })?;
        let identity = Identity {
            profile: ctx.profile.clone(),
            origin: base.origin(),
            base_url: base.to_string(),
            key_source: source,
            key_prefix: prefix,
            accepted: true,
        };
        sheet.one(&serde_json::to_string(&identity).unwrap_or_default())
    }
}

/// Asks for one link: what every key may do, whatever its scope.
pub(crate) async fn probe(ctx: &Context, client: &deeplink_client::Client) -> Outcome {
    let list = client.links().list(&LinkFilter::new()).page_size(1);
    list.first_page().await.map(drop).map_err(|error| ctx.stop(&error))
}
