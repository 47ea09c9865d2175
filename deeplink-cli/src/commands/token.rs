//! `dl token`: the key itself, for another program.

use clap::Args;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;

/// Print the secret key in use, for another program
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl token | docker secret create deeplink_key -",
    "dl token --reveal --profile staging",
]))]
pub(crate) struct Token {
    /// Print the key even on a terminal
    #[arg(long)]
    reveal: bool,
}

impl Token {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("a key", "dl whoami shows which key is used, as JSON too")?;
        if ctx.out.terminal && !self.reveal {
            let what = "the key would remain in the terminal's history";
            return Err(Failure::usage(what).code("needs_reveal").hint("pipe the output, or use --reveal").into());
        }
        let found = ctx.key().await?;
        ctx.out.line(found.key.expose())?;
        ctx.out.flush()
    }
}
