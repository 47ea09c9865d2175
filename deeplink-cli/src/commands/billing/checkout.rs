//! `dl billing checkout`.

use clap::Args;
use deeplink_core::billing::paid_tier;

use super::Page;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Print a checkout URL for a plan
#[derive(Debug, Args)]
#[command(after_help = help(
    "Anyone with the URL can use it. If the account already has a paid plan, the URL leads to the billing portal \
     (dl billing portal), where the plan can be changed. dl billing status shows the new plan once it is paid for.",
    &["dl billing checkout pro --open", "dl billing checkout business -o json"]
))]
pub(crate) struct Checkout {
    /// Plan: pro, business or scale
    #[arg(value_name = "PLAN")]
    tier: String,
    #[command(flatten)]
    page: Page,
}

impl Checkout {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CHECKOUT)?;
        // Before a key is needed: invalid input fails first.
        let tier = paid_tier(&self.tier)?;
        let made = ctx.client().await?.billing().checkout(&tier).full().await.map_err(|error| ctx.stop(&error))?;
        self.page.print(ctx, &sheet, &made.raw, &made.value.checkout_url)
    }
}
