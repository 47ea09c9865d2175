//! `dl links get`.

use clap::Args;
use deeplink_client::{LinkDetail, LinkStatus};

use crate::context::Context;
use crate::error::Outcome;
use crate::given;
use crate::help::help;
use crate::ids::{self, Tally};
use crate::output;

/// Show one or more links
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl links get spring-42", "dl links list --all -o id | dl links get - -o jsonl"]))]
pub(crate) struct Get {
    /// IDs of the links, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Get {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINKS)?;
        let ids = ids::read(ctx, &self.ids, given::link_id).await?;
        let client = ctx.client().await?;
        if let [id] = ids.as_slice() {
            let link = client.links().get(id).full().await.map_err(|error| ctx.stop(&error).naming_link(id))?;
            sheet.one(&String::from_utf8_lossy(&link.raw))?;
            note_stopped(ctx, &link.value);
            return Ok(());
        }
        let (mut rows, mut tally) = (sheet.several(), Tally::new(ctx, &ids));
        for id in &ids {
            match client.links().get(id).full().await {
                Ok(link) => {
                    rows.push(&String::from_utf8_lossy(&link.raw))?;
                    if !ctx.out.terminal {
                        rows.page()?;
                    }
                }
                Err(error) => tally.failed(id, ctx.stop(&error))?,
            }
        }
        if !tally.not_sent() {
            rows.finish(None)?;
        }
        tally.finish()
    }
}

/// Notes that a link does not work although its owner has it enabled: the link or its account was stopped by the operator.
fn note_stopped(ctx: &Context, link: &LinkDetail) {
    if link.enabled && matches!(link.status, LinkStatus::Flagged | LinkStatus::Disabled) {
        let id = &link.link_id;
        ctx.console.note(&format!(
            "the operator took down this link or suspended the account; for details: dl links explain {id} --as desktop"
        ));
    }
}
