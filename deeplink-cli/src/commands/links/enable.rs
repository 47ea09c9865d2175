//! `dl links enable`.

use clap::Args;
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Enable links
#[derive(Debug, Args)]
#[command(after_help = help(
    "A link disabled by the service operator stays disabled.",
    &[
    "dl links enable spring-42",
    "dl links list --all -o id | dl links enable -",
]
))]
pub(crate) struct Enable {
    /// IDs of the links, or - to read IDs from stdin
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
