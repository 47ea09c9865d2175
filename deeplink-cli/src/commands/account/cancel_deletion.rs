//! `dl account cancel-deletion`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Cancel the deletion of the account
#[derive(Debug, Args)]
#[command(after_help = help("Does nothing if no deletion is scheduled.", &[
    "dl account cancel-deletion",
    "dl account cancel-deletion --dry-run",
]))]
pub(crate) struct CancelDeletion {}

impl CancelDeletion {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ACCOUNTS)?;
        let account = ctx.client().await?.account().cancel_deletion().full().await.map_err(|error| ctx.stop(&error))?;
        sheet.one(&String::from_utf8_lossy(&account.raw))
    }
}
