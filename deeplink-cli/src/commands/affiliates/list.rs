//! `dl affiliates list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Part};

/// List the affiliates
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl affiliates list",
    "dl affiliates list --limit 10",
    "dl affiliates list --fields id,partner_key -o csv",
]))]
pub(crate) struct List {
    #[command(flatten)]
    part: Part,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::AFFILIATES)?;
        let affiliates = ctx.client().await?.affiliates();
        let fetch =
            async |size, cursor| Fetched::of(affiliates.list(), size, cursor).await.map_err(|error| ctx.stop(&error));
        self.part.print(ctx, &sheet, "no affiliates yet; dl affiliates create creates one", fetch).await
    }
}
