//! `dl sources create`.

use clap::Args;
use deeplink_core::source::CreateSource;

use super::url_of;
use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::output;

/// Create a source and print its URL
#[derive(Debug, Args)]
#[command(after_help = help(
    "Anyone who knows the URL can post conversions to it, so treat it like a key.",
    &["dl sources create Shop", "dl sources create Shop --out-file source.txt"]
))]
pub(crate) struct Create {
    /// Display name, 1 to 64 characters
    name: String,
    #[command(flatten)]
    out: SecretOut,
}

impl Create {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SOURCES)?;
        let wanted = CreateSource::custom(self.name);
        // Before a key is needed: invalid input fails first.
        wanted.validate()?;
        let client = ctx.client().await?;
        let sink = self.out.prepare(ctx, &sheet, Kind::source_url())?;
        let made = client.sources().create(&wanted).full().await;
        let made = made.map_err(|error| match ctx.stop(&error) {
            Stop::Failed(failure) if failure.exit == Exit::Payment => {
                failure.hint("delete one with dl sources delete").into()
            }
            other => other,
        })?;
        let url = url_of(ctx, &made.value)?;
        sink.take(&sheet, &made.raw, url.expose())
    }
}
