//! `dl sdk convert`.

use clap::Args;

use crate::commands::conversion::{self, Conversion};
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Record a conversion by a user, and print the event ID
#[derive(Debug, Args)]
#[command(after_help = help(
    "Uses the publishable key from DL_PUBLISHABLE_KEY or DL_PUBLISHABLE_KEY_FILE, or else the secret key.",
    &[
    "dl sdk convert --user user-7 --type signup --occurred-at 2h",
    "dl sdk convert --user user-7 --type purchase --amount-cents 4200 --currency EUR",
]
))]
pub(crate) struct Convert {
    #[command(flatten)]
    conversion: Conversion,
}

impl Convert {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CONVERTED)?;
        let convert = self.conversion.read(ctx)?;
        let client = super::client(ctx).await?;
        let converted = client.lifecycle().convert(&convert).full();
        let converted = converted.await.map_err(|error| super::stop(ctx, &client, &error))?;
        conversion::print(ctx, &sheet, &convert, &converted)
    }
}
