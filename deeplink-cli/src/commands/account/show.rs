//! `dl account show`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Show the account settings
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl account show", "dl account show --fields time_zone"]))]
pub(crate) struct Show {}

impl Show {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ACCOUNTS)?;
        let account = ctx.client().await?.account().get().full().await.map_err(|error| ctx.stop(&error))?;
        sheet.one(&String::from_utf8_lossy(&account.raw))
    }
}
