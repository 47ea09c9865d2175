//! `dl links delete`.

use clap::Args;

use crate::cli::help;
use crate::context::Context;
use crate::error::Outcome;
use crate::ids::{self, Tally};
use crate::output;

/// Delete links
#[derive(Debug, Args)]
#[command(after_help = help(
    "A deleted link stops working at once. Its clicks stay in the totals, and its id may be used again.",
    &[
    "dl links delete spring-42",
    "dl links list --status expired --all -o id | dl links delete - --yes",
]
))]
pub(crate) struct Delete {
    /// Ids of the links, or - for ids on stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELETED)?;
        let ids = ids::read(ctx, &self.ids)?;
        if ids.len() > 1 {
            ctx.confirm(&format!("Delete {} links?", ids.len())).await?;
        }
        let client = ctx.client()?;
        let single = self.ids.len() == 1 && ids.len() == 1;
        let (mut rows, mut tally) = (sheet.several(), Tally::new(ctx, &ids));
        for id in &ids {
            let gone = output::object(&[("id", id.as_str().into()), ("deleted", true.into())]);
            match client.links().delete(id).await {
                Ok(()) if single => return sheet.created(&gone),
                Ok(()) => {
                    rows.push(&gone)?;
                    rows.page()?;
                }
                Err(error) if single => return Err(ctx.stop(&error)),
                Err(error) => tally.failed(id, ctx.stop(&error))?,
            }
        }
        if !tally.held_back() {
            rows.finish(None)?;
        }
        tally.finish()
    }
}
