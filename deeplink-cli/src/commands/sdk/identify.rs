//! `dl sdk identify`.

use clap::Args;
use deeplink_core::lifecycle;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Bind an install to a user permanently
#[derive(Debug, Args)]
#[command(after_help = help(
    "The user's earlier conversions are credited, too: the oldest 500 immediately, the rest moments later. Uses \
     the publishable key from DL_PUBLISHABLE_KEY or DL_PUBLISHABLE_KEY_FILE, or else the secret key; --legacy \
     requires the secret key.",
    &[
    "dl sdk identify --install install-1 --user user-7",
    "dl sdk identify --install install-1 --user user-7 --legacy",
]
))]
pub(crate) struct Identify {
    /// Install ID assigned by your app
    #[arg(long, value_name = "ID")]
    install: String,
    /// User ID in your app
    #[arg(long, value_name = "ID")]
    user: String,
    /// Use the legacy endpoint
    #[arg(long)]
    legacy: bool,
}

impl Identify {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::REPORTED)?;
        let who = lifecycle::Identify::new(self.install, self.user);
        who.validate()?;
        let client = if self.legacy { ctx.client().await? } else { super::client(ctx).await? };
        let lifecycle = client.lifecycle();
        let call = if self.legacy { lifecycle.legacy().link(&who) } else { lifecycle.identify(&who) };
        let done = call.full().await.map_err(|error| super::stop(ctx, &client, &error))?;
        sheet.one(&String::from_utf8_lossy(&done.raw))
    }
}
