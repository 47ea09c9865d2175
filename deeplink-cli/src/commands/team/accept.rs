//! `dl team accept`.

use clap::Args;
use deeplink_client::{Acceptance, Auth};

use crate::commands::login::base_url;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::help::help;
use crate::mailed::{self, Purpose};
use crate::net::Reads;
use crate::output::{self, Format};

/// Accept an invitation with the emailed link
#[derive(Debug, Args)]
#[command(after_help = help(
    "You are prompted for the link; input is hidden. No key is needed; sign in afterwards with dl login.",
    &[
    "dl team accept --link-stdin < invitation.txt",
    "dl team accept --link-stdin --base-url https://dl.example.com < invitation.txt",
]
))]
pub(crate) struct Accept {
    /// Read the link from stdin
    #[arg(long)]
    link_stdin: bool,
}

impl Accept {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DONE)?;
        ctx.check_mailed(self.link_stdin)?;
        let base = base_url(ctx).await?;
        let client = ctx.client_for(&base, Auth::None, Reads::Held)?;
        let question = "Paste the invitation link: ";
        let spend = async |token| match client.team().accept(&token).await.map_err(|error| ctx.stop(&error))? {
            Acceptance::Accepted { .. } => Ok(()),
            Acceptance::Refused { code, .. } => Err(mailed::refused(&code)),
            _ => Err(Failure::new(Exit::Failure, "unexpected response from the service; update dl").into()),
        };
        ctx.mailed(Purpose::Invitation, &base, self.link_stdin, question, spend).await?;
        if ctx.out.format == Format::Table && sheet.fields.is_none() {
            ctx.console.say("you are now a member of the team; sign in with dl login and the invited address");
            return Ok(());
        }
        sheet.one(&output::object(&[("status", "accepted".into())]))
    }
}
