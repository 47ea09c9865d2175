//! `dl sources rotate`: a new URL in place of one that may be known.

use clap::Args;
use deeplink_core::source::CreateSource;
use deeplink_core::text::shell_word;

use super::url_of;
use crate::context::Context;
use crate::error::{Outcome, Stop};
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::{escape, given, output};

/// Replace a source with a new one of the same name and print its URL
#[derive(Debug, Args)]
#[command(after_help = help(
    "Deletes the source and creates it again: the ID changes too, and nothing can be posted in between.",
    &[
    "dl sources rotate src_0123456789abcdef01234567 --yes",
    "dl sources rotate src_0123456789abcdef01234567 --yes --out-file source.txt",
]
))]
pub(crate) struct Rotate {
    /// ID of the source
    id: String,
    #[command(flatten)]
    out: SecretOut,
}

impl Rotate {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SOURCES)?;
        given::source_id(&self.id)?;
        let question =
            |name: &str| format!("Replace the URL of the source {name}? The old one will stop working immediately.");
        if !ctx.will_ask() {
            ctx.confirm(&question(&self.id)).await?;
        }
        let sources = ctx.client().await?.sources();
        let among = |error| ctx.stop_among(&error, "sources");
        if ctx.global.dry_run {
            // Its name, and so the request that would be sent, is unknown without a request.
            let _ = sources.get(&self.id).await;
            let _ = sources.delete(&self.id).await;
            return sources.create(&CreateSource::custom("(the same name)")).await.map(drop).map_err(among);
        }
        let old = sources.get(&self.id).await.map_err(among)?;
        if ctx.will_ask() {
            ctx.confirm(&question(&escape::one_line(&old.name))).await?;
        }
        // Signals are deferred from here on: between the two requests there is no source.
        let sink = self.out.prepare(ctx, &sheet, Kind::source_url())?;
        let again = make_again(&old.name);
        let gone = format!("the source {} may have been deleted", escape::one_line(&old.name));
        ctx.signal_hold.or_else_say(format!("{gone}; check with dl sources list; if it is gone: {again}"));
        sources.delete(&self.id).await.map_err(among)?;
        let made = sources.create(&CreateSource::custom(&old.name)).full().await;
        let made = made.map_err(|error| {
            let create = format!("the old source was deleted; create it again: {again}");
            match ctx.stop(&error) {
                Stop::Failed(failure) if error.is_ambiguous() => failure
                    .hint(format!("check whether the source exists with dl sources list; if not, {create}"))
                    .into(),
                other => other.hinting(&create),
            }
        })?;
        let url = url_of(ctx, &made.value)?;
        ctx.console.say(&format!("{} is now {}", self.id, made.value.id));
        sink.take(&sheet, &made.raw, url.expose())
    }
}

/// The command that makes a source of this name.
fn make_again(name: &str) -> String {
    // Quotes do not keep a name from being read as a flag.
    let flags_end = if name.starts_with('-') { "-- " } else { "" };
    format!("dl sources create {flags_end}{}", shell_word(name))
}
