//! `dl keys confirm`.

use clap::Args;

use super::{check_code, code};
use crate::context::Context;
use crate::error::Outcome;
use crate::given;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::output;

/// Create a secret key with the emailed code and print it; it is shown only once
#[derive(Debug, Args)]
#[command(after_help = help(
    "You are prompted for the code, or it is read from stdin. Five incorrect codes invalidate it.",
    &[
    "dl keys confirm --email you@example.com --code-stdin < code.txt",
    "dl keys confirm --email you@example.com --code-stdin --out-file new.txt < code.txt",
]
))]
pub(crate) struct Confirm {
    /// Email address the code was sent to
    #[arg(long, value_name = "ADDRESS")]
    email: String,
    /// Read the code from stdin
    #[arg(long)]
    code_stdin: bool,
    #[command(flatten)]
    out: SecretOut,
}

impl Confirm {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::NEW_KEY)?;
        let email = given::email(&self.email)?;
        check_code(ctx, self.code_stdin)?;
        let client = ctx.client().await?;
        let confirm = code(ctx, &email, self.code_stdin).await?;
        let sink = self.out.prepare(ctx, &sheet, Kind::key("key", "dl keys delete"))?;
        let made = client.keys().confirm(&confirm).full().await.map_err(|error| ctx.stop(&error))?;
        sink.take(&sheet, &made.raw, made.value.key.expose())
    }
}
