//! `dl billing portal`.

use clap::Args;

use super::Page;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Print the billing portal URL
#[derive(Debug, Args)]
#[command(after_help = help(
    "The portal is for managing the card, invoices and the plan. Anyone with the URL can use it for a short time. \
     Available only if the account has paid before.",
    &["dl billing portal --open", "dl billing portal -o json"]
))]
pub(crate) struct Portal {
    #[command(flatten)]
    page: Page,
}

impl Portal {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::PORTAL)?;
        let made = ctx.client().await?.billing().portal().full().await.map_err(|error| ctx.stop(&error))?;
        self.page.print(ctx, &sheet, &made.raw, &made.value.portal_url)
    }
}
