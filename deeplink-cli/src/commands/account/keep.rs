//! `dl account keep`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Cancel the deletion of the account
#[derive(Debug, Args)]
#[command(after_help = help("Does nothing if no deletion is scheduled.", &["dl account keep", "dl account keep --dry-run"]))]
pub(crate) struct Keep {}

impl Keep {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ACCOUNTS)?;
        let kept = ctx.client().await?.account().cancel_deletion().full().await.map_err(|error| ctx.stop(&error))?;
        sheet.one(&String::from_utf8_lossy(&kept.raw))
    }
}
