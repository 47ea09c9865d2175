//! `dl links disable`.

use clap::Args;
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Switch links off
#[derive(Debug, Args)]
#[command(after_help = help(
    "People who open a disabled link see a notice, and nothing is counted. dl links enable switches it on again.",
    &[
    "dl links disable spring-42",
    "dl links list --all -o id | dl links disable -",
]
))]
pub(crate) struct Disable {
    /// Ids of the links, or - for ids on stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Disable {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let mut update = UpdateLink::new();
        update.enabled = Patch::Set(false);
        super::update::each(ctx, &self.ids, &update).await
    }
}
