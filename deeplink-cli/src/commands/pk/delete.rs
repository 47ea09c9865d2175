//! `dl pk delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{escape, given, ids};

/// Delete publishable keys
#[derive(Debug, Args)]
#[command(after_help = help(
    "Requests with the key are rejected immediately.",
    &[
    "dl pk delete pkid_0123456789abcdef01234567 --yes",
    "dl pk list -o id | dl pk delete - --yes",
]
))]
pub(crate) struct Delete {
    /// IDs of the keys, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let ids = ids::read(ctx, &self.ids, given::publishable_key_id).await?;
        let question = match ids.as_slice() {
            [id] if ctx.will_ask() => {
                let keys = ctx.client().await?.publishable_keys().list().await.map_err(|error| ctx.stop(&error))?;
                let found = keys.into_iter().find(|key| key.id.as_str() == id);
                let key = found.ok_or_else(|| ids::unknown("no publishable key", id, "pk list"))?;
                let (prefix, domain) = (escape::one_line(&key.key_prefix), escape::one_line(&key.domain));
                format!(
                    "Delete the publishable key {prefix} of {domain}? Requests with it will be rejected immediately."
                )
            }
            [id] => format!("Delete the publishable key {id}? Requests with it will be rejected immediately."),
            _ => format!("Delete {} publishable keys? Requests with them will be rejected immediately.", ids.len()),
        };
        let delete = |client: &deeplink_client::Client, id: &str| client.publishable_keys().delete(id);
        ids::delete(ctx, "pk", &self.ids, &ids, Some(&question), delete).await
    }
}
