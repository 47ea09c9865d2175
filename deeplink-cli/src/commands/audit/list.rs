//! `dl audit list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Part};

/// List the changes made in the last year, newest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Includes sign-ins, changes to team members, keys, domains, apps, affiliates, sources and webhooks, and actions \
     of the service operator. Changes to links are not included, except those by the operator.",
    &["dl audit list", "dl audit list -o csv"]
))]
pub(crate) struct List {
    #[command(flatten)]
    part: Part,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::AUDIT_ENTRIES)?;
        let audit = ctx.client().await?.audit();
        let fetch =
            async |size, cursor| Fetched::of(audit.list(), size, cursor).await.map_err(|error| ctx.stop(&error));
        self.part.print(ctx, &sheet, "no changes in the last year", fetch).await
    }
}
