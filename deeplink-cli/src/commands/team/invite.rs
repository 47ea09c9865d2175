//! `dl team invite`.

use clap::Args;
use deeplink_core::user::{INVITE_DAYS, InviteUser};

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::{self, Format};

/// Invite someone to the team by email
#[derive(Debug, Args)]
#[command(after_help = help(
    "Inviting the same person again sends a new link, and the old one stops working.",
    &["dl team invite new@example.com", "dl team invite new@example.com -o json"]
))]
pub(crate) struct Invite {
    /// Email address to invite
    #[arg(value_name = "ADDRESS")]
    email: String,
}

impl Invite {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::USERS)?;
        let invite = InviteUser::new(self.email);
        // Before a key is needed: invalid input fails first.
        let email = invite.clone().check()?;
        let made = ctx.client().await?.team().invite(&invite).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.created(&String::from_utf8_lossy(&made.raw))?;
        if ctx.out.format == Format::Table {
            ctx.console.say(&format!("invitation emailed to {email}; it is valid for {INVITE_DAYS} days"));
        }
        Ok(())
    }
}
