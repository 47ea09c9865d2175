//! `dl keys request`.

use clap::Args;

use super::wanted;
use crate::context::Context;
use crate::error::Outcome;
use crate::given;
use crate::help::help;
use crate::output::{self, Format};

/// Email a code for creating a new key
#[derive(Debug, Args)]
#[command(after_help = help(
    "The address must belong to a team member who has confirmed it. The code is valid for 10 minutes.",
    &["dl keys request --email you@example.com", "dl keys request --email you@example.com -o json"]
))]
pub(crate) struct Request {
    /// Email address to send the code to
    #[arg(long, value_name = "ADDRESS")]
    email: String,
}

impl Request {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DONE)?;
        let email = given::email(&self.email)?;
        let client = ctx.client().await?;
        let sent = client.keys().request(&wanted(&email)).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.created(&String::from_utf8_lossy(&sent.raw))?;
        if ctx.out.format == Format::Table {
            ctx.console.say(&format!("code emailed to {email}; enter it with dl keys confirm --email {email}"));
        }
        Ok(())
    }
}
