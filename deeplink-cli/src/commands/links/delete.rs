//! `dl links delete`.

use clap::Args;
use deeplink_client::Client;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, ids};

/// Delete links
#[derive(Debug, Args)]
#[command(after_help = help(
    "A deleted link stops working immediately. Its clicks remain in the totals, and its ID can be used again. To bring \
     it back within 30 days, use dl links restore. On a terminal, dl asks before it deletes; --yes skips the prompt. \
     Elsewhere, deleting more than one link requires --yes. --dry-run shows what would be sent.",
    &[
    "dl links delete spring-42",
    "dl links list --status expired --all -o id | dl links delete - --yes",
]
))]
pub(crate) struct Delete {
    /// IDs of the links, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let ids = ids::distinct(ids::read(ctx, &self.ids, given::link_id).await?);
        if ids.len() > 1 {
            return super::many::delete(ctx, &ids).await;
        }
        // Scripts that delete a single link need no --yes.
        let question = ids.first().filter(|_| ctx.will_ask()).map(|id| format!("Delete link {id}?"));
        let call = |client: &Client, id: &str| client.links().delete(id);
        let deleted = ids::delete(ctx, "links", &self.ids, &ids, question.as_deref(), call).await;
        deleted.map_err(|stop| match ids.first() {
            Some(id) => stop.naming_link(id),
            None => stop,
        })
    }
}
