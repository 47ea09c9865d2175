//! `dl whoami`: which key is used, where it came from, whether the service takes it, and how far it reaches.

use clap::Args;
use deeplink_client::{Auth, Kind, LinkFilter};
use serde::Serialize;

use crate::cli::help;
use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::exit::Exit;
use crate::net::Reads;
use crate::output;

/// Show which key is used, where it came from, and what the service lets it do
#[derive(Debug, Args)]
#[command(after_help = help(
    "The scope is account for a key of the account itself, and affiliate for a partner's key, which reaches the \
     partner's links only.",
    &["dl whoami", "dl whoami --profile staging -o json"]
))]
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
    /// `account` or `affiliate`, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<String>,
}

impl Identity {
    /// As it is printed.
    pub(crate) fn to_json(&self) -> String {
        // Texts and booleans always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Whoami {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::IDENTITY)?;
        let (base, found) = (ctx.base_url()?, ctx.key().await?);
        let (source, prefix, shown) = (found.source.to_string(), found.key.to_string(), found.key.shown_prefix());
        let client = ctx.client_for(&base, Auth::SecretKey(found.key), Reads::Held)?;
        probe(ctx, &client).await.map_err(|stop| match stop {
            Stop::Failed(mut failure) if failure.exit == Exit::Auth => {
                failure.message = format!("{}; the key {prefix} came from {source}", failure.message);
                Stop::Failed(failure)
            }
            other => other,
        })?;
        let (scope, key_id) = match client.keys().list().await {
            Ok(list) => {
                let own = list.keys.into_iter().find(|key| key.key_prefix == shown);
                (Some("account"), own.map(|key| key.id.to_string()))
            }
            Err(error) if error.kind() == Kind::Forbidden => (Some("affiliate"), None),
            Err(error) => {
                let why = ctx.failure(&error).message;
                ctx.console.warn(&format!("the service does not say how far the key reaches: {why}"));
                (None, None)
            }
        };
        let identity = Identity {
            profile: ctx.profile.clone(),
            origin: base.origin(),
            base_url: base.to_string(),
            key_source: source,
            key_prefix: prefix,
            accepted: true,
            scope,
            key_id,
        };
        sheet.one(&identity.to_json())
    }
}

/// Asks for one link: what every key may do, whatever its scope.
pub(crate) async fn probe(ctx: &Context, client: &deeplink_client::Client) -> Outcome {
    let list = client.links().list(&LinkFilter::new()).page_size(1);
    list.first_page().await.map(drop).map_err(|error| ctx.stop(&error))
}
