//! `dl billing portal`.

use clap::Args;

use super::Page;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Print the address of a page on which the card, invoices and the plan are managed
#[derive(Debug, Args)]
#[command(after_help = help(
    "Anyone with the address can use it, for a short time. Only an account that has paid before has such a page.",
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
