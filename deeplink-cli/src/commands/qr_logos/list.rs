//! `dl qr-logos list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// List the uploaded logos
#[derive(Debug, Args)]
#[command(after_help = help(
    "To use a logo in one code: dl links qr --logo name:NAME. To save it with a link: dl links update --qr \
     logo=name:NAME.",
    &["dl qr-logos list", "dl qr-logos list -o csv"]
))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::QR_LOGOS)?;
        let logos = ctx.client().await?.qr_logos().list().full().await.map_err(|error| ctx.stop(&error))?;
        if logos.value.logos.is_empty() {
            ctx.console.say("no logos; dl qr-logos put NAME FILE uploads one");
        }
        sheet.whole_marked(&logos.raw, |_| String::new())
    }
}
