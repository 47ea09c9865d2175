//! `dl affiliates create`.

use clap::Args;
use deeplink_core::affiliate::CreateAffiliate;

use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::output::{self, Format};

/// Create an affiliate and print its ID
#[derive(Debug, Args)]
#[command(after_help = help(
    "To attribute a link to the affiliate, use dl links create --affiliate ID.",
    &[
    "dl affiliates create --name 'Partner' --partner-key partner",
    "dl affiliates create --name 'Summer fair' --partner-key summer-2026 -o json",
]
))]
pub(crate) struct Create {
    /// Display name of the partner
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    name: String,
    /// Identifier for use in code: 2 to 32 characters from a-z, 0-9 and '-', unique in the account
    #[arg(long, value_name = "WORD")]
    partner_key: String,
}

impl Create {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::AFFILIATES)?;
        let wanted = CreateAffiliate::new(self.name, self.partner_key);
        // Before a key is needed: invalid input fails first.
        wanted.check()?;
        let client = ctx.client().await?;
        let made = client.affiliates().create(&wanted).full().await;
        let made = made.map_err(|error| match ctx.stop(&error) {
            Stop::Failed(failure) if failure.exit == Exit::Payment => {
                failure.hint("delete one with dl affiliates delete").into()
            }
            other => other,
        })?;
        sheet.created(&String::from_utf8_lossy(&made.raw))?;
        if ctx.out.format == Format::Table {
            ctx.console
                .say(&format!("dl affiliates creds create {} creates a credential for the partner", made.value.id));
        }
        Ok(())
    }
}
