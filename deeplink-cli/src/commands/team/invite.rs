//! `dl team invite`.

use clap::Args;
use deeplink_core::user::{INVITE_DAYS, InviteUser};

use crate::cli::help;
use crate::context::Context;
use crate::error::Outcome;
use crate::output::{self, Format};

/// Invite somebody into the team by mail
#[derive(Debug, Args)]
#[command(after_help = help(
    "Who has been invited before gets a new link, and the old one ends.",
    &["dl team invite new@example.com", "dl team invite new@example.com -o json"]
))]
pub(crate) struct Invite {
    /// Address of the person
    #[arg(value_name = "ADDRESS")]
    email: String,
}

impl Invite {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::USERS)?;
        let invite = InviteUser::new(self.email);
        // Before anything that needs a key: wrong input is wrong whoever sends it.
        let email = invite.clone().check()?;
        let made = ctx.client().await?.team().invite(&invite).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.created(&String::from_utf8_lossy(&made.raw))?;
        if ctx.out.format == Format::Table {
            ctx.console.say(&format!("invitation mailed to {email}; it works for {INVITE_DAYS} days"));
        }
        Ok(())
    }
}
