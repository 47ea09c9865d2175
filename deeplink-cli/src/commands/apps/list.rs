//! `dl apps list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// List the apps
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl apps list", "dl apps list --fields id,bundle_id,package_name -o csv"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::APPS)?;
        let apps = ctx.client().await?.apps().list().full().await.map_err(|error| ctx.stop(&error))?;
        sheet.array(&apps.raw)?;
        if apps.value.is_empty() {
            ctx.console.say("no apps yet; dl apps add --help shows how to register one");
        }
        Ok(())
    }
}
