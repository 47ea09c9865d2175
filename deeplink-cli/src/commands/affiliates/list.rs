//! `dl affiliates list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// List the affiliates
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl affiliates list", "dl affiliates list --fields id,partner_key -o csv"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::AFFILIATES)?;
        let found = ctx.client().await?.affiliates().list().full().await.map_err(|error| ctx.stop(&error))?;
        if sheet.whole(&found.raw)? == 0 {
            ctx.console.say("no affiliates yet; dl affiliates create creates one");
        }
        Ok(())
    }
}
