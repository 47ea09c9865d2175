//! `dl domains list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// List the domains
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl domains list", "dl domains list --fields domain,txt_record,verification_token"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DOMAINS)?;
        let domains = ctx.client().await?.domains().list().full().await.map_err(|error| ctx.stop(&error))?;
        sheet.array(&domains.raw)?;
        if domains.value.is_empty() {
            ctx.console.say("no domains yet; dl domains add go.example.com adds one");
        }
        let waiting: Vec<_> =
            domains.value.iter().filter(|domain| !domain.verified).map(|domain| &domain.domain).collect();
        match waiting.as_slice() {
            [] => {}
            [name] => ctx.console.note(&format!("{name} is not verified: dl domains verify {name} says why")),
            several => {
                let count = several.len();
                ctx.console.note(&format!("{count} domains are not verified: dl domains verify NAME says why"));
            }
        }
        Ok(())
    }
}
