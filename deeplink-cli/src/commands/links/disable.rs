//! `dl links disable`.

use clap::Args;
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Disable links
#[derive(Debug, Args)]
#[command(after_help = help(
    "Visitors who open a disabled link see a notice, and nothing is counted. dl links enable enables it again.",
    &[
    "dl links disable spring-42",
    "dl links list --all -o id | dl links disable -",
]
))]
pub(crate) struct Disable {
    /// IDs of the links, or - to read IDs from stdin
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
