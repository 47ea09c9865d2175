//! `dl links rename`.

use clap::Args;
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Change the name of a link, which only your team sees
#[derive(Debug, Args)]
#[command(after_help = help(
    "Visitors, SDKs and affiliates do not see the name. The ID and the URL do not change. An empty name removes it.",
    &["dl links rename spring-42 \"Spring sale, poster\"", "dl links rename spring-42 \"\""]
))]
pub(crate) struct Rename {
    /// ID of the link
    id: String,
    /// New name, at most 120 characters
    name: String,
}

impl Rename {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let mut update = UpdateLink::new();
        update.name = Patch::Set(self.name);
        super::update::each(ctx, &[self.id], &update).await
    }
}
