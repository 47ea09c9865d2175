//! `dl sources send`.

use clap::Args;
use deeplink_client::Auth;
use deeplink_core::source::SourceUrl;

use super::url_of;
use crate::base_url::BaseUrl;
use crate::commands::conversion::{self, Conversion};
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::net::Reads;
use crate::{given, output};

/// Post a conversion to a source, and print the event ID
#[derive(Debug, Args)]
#[command(after_help = help(
    "Posts to the source's URL without a key. The URL is looked up with your key, or read from stdin.",
    &[
    "dl sources send src_0123456789abcdef01234567 --user user-7 --type signup",
    "dl sources send - --user user-7 --type refund --idempotency-key 8 < source-url.txt",
]
))]
pub(crate) struct Send {
    /// ID of the source, or - for its URL on stdin
    #[arg(value_name = "ID|-")]
    source: String,
    #[command(flatten)]
    conversion: Conversion,
}

impl Send {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CONVERTED)?;
        let typed = if self.source == "-" {
            Some(ctx.read_source_url().await?)
        } else {
            given::source_id(&self.source)?;
            None
        };
        let convert = self.conversion.read(ctx)?;
        let url = match typed {
            Some(url) => url,
            None => {
                let found = ctx.client().await?.sources().get(&self.source).await;
                url_of(ctx, &found.map_err(|error| ctx.stop_among(&error, "sources"))?)?.clone()
            }
        };
        let client = ctx.client_for(&host_of(&url)?, Auth::None, Reads::Held)?;
        let sent = client.sources().send(&url, &convert).full().await;
        let sent = sent.map_err(|error| match ctx.stop(&error) {
            Stop::Failed(failure) if failure.exit == Exit::NotFound => failure
                .hint("the URL of a deleted or rotated source no longer works: dl sources list shows the others")
                .into(),
            other => other,
        })?;
        conversion::print(ctx, &sheet, &convert, &sent)
    }
}

/// The host of a URL, for messages.
fn host_of(url: &SourceUrl) -> Outcome<BaseUrl> {
    let wrong = || {
        let failure = Failure::invalid("this is not the URL of a source").code("invalid_url").field("webhook_url");
        failure.hint("it looks like https://dl.example.com/in/…; to show it: dl sources get ID --reveal")
    };
    let parsed: url::Url = url.expose().parse().map_err(|_| wrong())?;
    if !parsed.path().contains("/in/") {
        return Err(wrong().into());
    }
    parsed
        .origin()
        .ascii_serialization()
        .parse()
        .map_err(|why: String| Failure::invalid(format!("the URL is {why}")).field("webhook_url").into())
}
