//! `dl pk create`.

use clap::Args;
use deeplink_core::publishable_key::CreatePublishableKey;

use crate::cli::help;
use crate::context::Context;
use crate::error::Outcome;
use crate::once::{Kind, SecretOut};
use crate::output;

/// Make a publishable key for a verified domain and print it, this once
#[derive(Debug, Args)]
#[command(after_help = help(
    "The key is for the apps and pages of the domain, and stops while the domain is not verified.",
    &["dl pk create go.example.com", "dl pk create go.example.com --out-file publishable.txt"]
))]
pub(crate) struct Create {
    /// Name of the domain, such as go.example.com
    domain: String,
    #[command(flatten)]
    out: SecretOut,
}

impl Create {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::NEW_PUBLISHABLE_KEY)?;
        let wanted = CreatePublishableKey::new(self.domain);
        // Before anything that needs a key: wrong input is wrong whoever sends it.
        wanted.validate()?;
        let client = ctx.client().await?;
        let place = self.out.prepare(ctx, &sheet, Kind::key("key", "dl pk delete"))?;
        let made = client.publishable_keys().create(&wanted).full().await.map_err(|error| ctx.stop(&error))?;
        place.take(&sheet, &made.raw, made.value.key.expose())
    }
}
