//! `dl sources delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{escape, given, ids};

/// Delete sources
#[derive(Debug, Args)]
#[command(after_help = help(
    "The URL stops working immediately. Conversions already posted to it are kept.",
    &[
    "dl sources delete src_0123456789abcdef01234567 --yes",
    "dl sources list -o id | dl sources delete - --yes",
]
))]
pub(crate) struct Delete {
    /// IDs of the sources, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let ids = ids::read(ctx, &self.ids, given::source_id).await?;
        let question = match ids.as_slice() {
            [id] if ctx.will_ask() => {
                let source = ctx.client().await?.sources().get(id).await;
                let source = source.map_err(|error| ctx.stop_among(&error, "sources"))?;
                let name = escape::one_line(&source.name).into_owned();
                format!("Delete the source {name}? Its URL will stop working immediately.")
            }
            [id] => format!("Delete the source {id}? Its URL will stop working immediately."),
            _ => format!("Delete {} sources? Their URLs will stop working immediately.", ids.len()),
        };
        let delete = |client: &deeplink_client::Client, id: &str| client.sources().delete(id);
        ids::delete(ctx, "sources", &self.ids, &ids, Some(&question), delete).await
    }
}
