//! `dl keys issue`.

use clap::Args;

use crate::commands::session::{Given, refused};
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::output;

/// Create a secret key from a browser session and print it; it is shown only once
#[derive(Debug, Args)]
#[command(after_help = help(
    "The file contains the value of the session_token cookie of a browser that is signed in.",
    &[
    "dl keys issue --session-file session.txt",
    "dl keys issue --session-file session.txt --out-file new.txt -o json",
]
))]
pub(crate) struct Issue {
    #[command(flatten)]
    session: Given,
    #[command(flatten)]
    out: SecretOut,
}

impl Issue {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::NEW_KEY)?;
        let client = self.session.client(ctx).await?;
        let sink = self.out.prepare(ctx, &sheet, Kind::key("key", "dl keys delete"))?;
        let made = client.keys().issue().full().await.map_err(|error| refused(ctx, &error))?;
        sink.take(&sheet, &made.raw, made.value.key.expose())
    }
}
