//! `dl links enable`.

use clap::Args;
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Switch links on
#[derive(Debug, Args)]
#[command(after_help = help(
    "A link that the operator of the service switched off stays off.",
    &[
    "dl links enable spring-42",
    "dl links list --all -o id | dl links enable -",
]
))]
pub(crate) struct Enable {
    /// Ids of the links, or - for ids on stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Enable {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let mut update = UpdateLink::new();
        update.enabled = Patch::Set(true);
        super::update::each(ctx, &self.ids, &update).await
    }
}
