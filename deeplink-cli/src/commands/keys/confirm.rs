//! `dl keys confirm`.

use clap::Args;

use super::{check_code, code};
use crate::cli::help;
use crate::context::Context;
use crate::error::Outcome;
use crate::given;
use crate::once::{Kind, SecretOut};
use crate::output;

/// Make a secret key with the mailed code and print it, this once
#[derive(Debug, Args)]
#[command(after_help = help(
    "The code is asked for, or read from stdin. Five wrong ones end it.",
    &[
    "dl keys confirm --email you@example.com --code-stdin < code.txt",
    "dl keys confirm --email you@example.com --code-stdin --out-file new.txt < code.txt",
]
))]
pub(crate) struct Confirm {
    /// Who got the code
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
        let place = self.out.prepare(ctx, &sheet, Kind::key("key", "dl keys delete"))?;
        let made = client.keys().confirm(&confirm).full().await.map_err(|error| ctx.stop(&error))?;
        place.take(&sheet, &made.raw, made.value.key.expose())
    }
}
