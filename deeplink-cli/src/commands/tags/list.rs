//! `dl tags list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// List the tags of your links
#[derive(Debug, Args)]
#[command(after_help = help(
    "dl links tag adds tags to links. A tag is deleted once no link has it.",
    &["dl tags list", "dl tags list -o csv"]
))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::TAGS)?;
        let tags = ctx.client().await?.tags().list().full().await.map_err(|error| ctx.stop(&error))?;
        if tags.value.tags.is_empty() {
            ctx.console.say("no tags; dl links tag adds tags to links");
        }
        sheet.whole_marked(&tags.raw, |_| String::new())
    }
}
