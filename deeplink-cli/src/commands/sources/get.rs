//! `dl sources get`.

use clap::Args;

use super::shown;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Show a source
#[derive(Debug, Args)]
#[command(after_help = help(
    "Anyone who knows the URL can post to it, so it is shown only with --reveal.",
    &[
    "dl sources get src_0123456789abcdef01234567",
    "dl sources get src_0123456789abcdef01234567 --reveal --fields webhook_url",
]
))]
pub(crate) struct Get {
    /// ID of the source
    id: String,
    /// Show the URL
    #[arg(long)]
    reveal: bool,
}

impl Get {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SOURCES)?;
        given::source_id(&self.id)?;
        let found = ctx.client().await?.sources().get(&self.id).full();
        let found = found.await.map_err(|error| ctx.stop_among(&error, "sources"))?;
        sheet.one(&shown(&String::from_utf8_lossy(&found.raw), self.reveal))
    }
}
