//! `dl sdk click`.

use clap::Args;
use deeplink_core::lifecycle::TrackClick;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Record a click and show the link
#[derive(Debug, Args)]
#[command(after_help = help(
    "Uses the publishable key from DL_PUBLISHABLE_KEY or DL_PUBLISHABLE_KEY_FILE, or else the secret key. --legacy \
     uses the legacy endpoint, which requires the publishable key.",
    &["dl sdk click spring-42", "dl sdk click spring-42 --legacy -o json"]
))]
pub(crate) struct Click {
    /// ID of the link
    #[arg(value_name = "ID")]
    link: String,
    /// Use the legacy endpoint
    #[arg(long)]
    legacy: bool,
}

impl Click {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CLICKED)?;
        given::link_id(&self.link)?;
        let click = TrackClick::new(self.link);
        let client = if self.legacy { super::publishable(ctx)? } else { super::client(ctx).await? };
        let lifecycle = client.lifecycle();
        let call = if self.legacy { lifecycle.legacy().click(&click) } else { lifecycle.click(&click) };
        let clicked = call.full().await.map_err(|error| super::stop(ctx, &client, &error))?;
        sheet.one(&String::from_utf8_lossy(&clicked.raw))
    }
}
