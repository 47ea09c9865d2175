//! `dl team list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// List the people, invited ones included
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl team list", "dl team list --fields id,email,status -o csv"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::USERS)?;
        let users = ctx.client().await?.team().list().full().await.map_err(|error| ctx.stop(&error))?;
        sheet.whole(&users.raw).map(drop)
    }
}
