//! `dl sources list`.

use clap::Args;

use super::shown;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::{self, Record};

/// List the sources
#[derive(Debug, Args)]
#[command(after_help = help(
    "Anyone who knows an address can post to it, so addresses are shown with --reveal only.",
    &["dl sources list", "dl sources list --reveal -o jsonl"]
))]
pub(crate) struct List {
    /// Show the addresses
    #[arg(long)]
    reveal: bool,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SOURCES)?;
        let found = ctx.client().await?.sources().list().full().await.map_err(|error| ctx.stop(&error))?;
        let body = String::from_utf8_lossy(&found.raw);
        let record = Record::read(&body).unwrap_or_default();
        let sources: Vec<_> =
            record.items("sources").iter().map(|source| shown(source.get(), self.reveal).into_owned()).collect();
        let body = record.with("sources", &format!("[{}]", sources.join(",")));
        if sheet.whole(body.as_bytes())? == 0 {
            ctx.console.say("no sources yet; dl sources create NAME creates one");
        }
        Ok(())
    }
}
