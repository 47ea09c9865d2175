//! `dl pk list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// List the publishable keys
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl pk list", "dl pk list --fields id,domain -o csv"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::PUBLISHABLE_KEYS)?;
        let keys = ctx.client().await?.publishable_keys().list().full().await.map_err(|error| ctx.stop(&error))?;
        if sheet.whole(&keys.raw)? == 0 {
            ctx.console.say("no publishable keys yet; dl pk create go.example.com creates one for a verified domain");
        }
        Ok(())
    }
}
