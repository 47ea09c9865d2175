//! `dl links restore`.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use deeplink_core::link::RestoreLink;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Undo changes to a link, or restore a deleted link
#[derive(Debug, Args)]
#[command(after_help = help(
    "Without --version, the last change is undone; dl links history lists the versions. Restoring is recorded as a \
     change, so it can be undone too. A deleted link can be restored for 30 days, with its clicks, unless its ID has been \
     used again; dl links list --status deleted lists such links.",
    &[
    "dl links restore spring-42",
    "dl links restore spring-42 --version 3",
]
))]
pub(crate) struct Restore {
    /// ID of the link
    id: String,
    /// Number of the version to restore; dl links history lists the versions
    #[arg(long, value_name = "NUMBER", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    version: Option<u64>,
}

impl Restore {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINKS)?;
        given::link_id(&self.id)?;
        let client = ctx.client().await?;
        let mut asked = RestoreLink::new();
        asked.version = self.version;
        let link = client.links().restore(&self.id, asked).full().await;
        let link = link.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
        sheet.one(&String::from_utf8_lossy(&link.raw))
    }
}
