//! `dl pk create`.

use clap::Args;
use deeplink_core::publishable_key::CreatePublishableKey;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::output;

/// Create a publishable key for a verified domain and print it; it is shown only once
#[derive(Debug, Args)]
#[command(after_help = help(
    "The key is for apps and web pages of the domain, and does not work while the domain is unverified.",
    &["dl pk create go.example.com", "dl pk create go.example.com --out-file publishable.txt"]
))]
pub(crate) struct Create {
    /// Domain name, such as go.example.com
    domain: String,
    #[command(flatten)]
    out: SecretOut,
}

impl Create {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::NEW_PUBLISHABLE_KEY)?;
        let wanted = CreatePublishableKey::new(self.domain);
        // Before a key is needed: invalid input fails first.
        wanted.validate()?;
        let client = ctx.client().await?;
        let sink = self.out.prepare(ctx, &sheet, Kind::key("key", "dl pk delete"))?;
        let made = client.publishable_keys().create(&wanted).full().await.map_err(|error| ctx.stop(&error))?;
        sink.take(&sheet, &made.raw, made.value.key.expose())
    }
}
