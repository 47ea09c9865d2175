//! `dl links rename`.

use clap::Args;
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Name a link for you and your team
#[derive(Debug, Args)]
#[command(after_help = help(
    "Visitors, programs and affiliates do not see the name. The id, and so the address, stays. An empty name removes it.",
    &["dl links rename spring-42 \"Spring sale, poster\"", "dl links rename spring-42 \"\""]
))]
pub(crate) struct Rename {
    /// Id of the link
    id: String,
    /// Name, at most 120 characters
    name: String,
}

impl Rename {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let mut update = UpdateLink::new();
        update.name = Patch::Set(self.name);
        super::update::each(ctx, &[self.id], &update).await
    }
}
