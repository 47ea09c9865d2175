//! `dl webhooks list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Part};

/// List the webhooks and their delivery health
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl webhooks list", "dl webhooks list --fields id,url,status -o csv"]))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::WEBHOOKS)?;
        let webhooks = ctx.client().await?.webhooks();
        let fetch =
            async |size, cursor| Fetched::of(webhooks.list(), size, cursor).await.map_err(|error| ctx.stop(&error));
        Part::default().print(ctx, &sheet, "no webhooks yet; dl webhooks create creates one", fetch).await
    }
}
