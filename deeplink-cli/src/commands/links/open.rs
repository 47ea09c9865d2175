//! `dl links open`.

use clap::Args;

use crate::browser;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Open a link in the browser
#[derive(Debug, Args)]
#[command(after_help = help(
    "This counts as a click; dl links resolve and dl links explain do not.",
    &["dl links open spring-42", "dl links open spring-42 --profile staging"]
))]
pub(crate) struct Open {
    /// ID of the link
    id: String,
}

impl Open {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("a URL that is printed as text", "dl links get ID --jq .url")?;
        let url = super::url_of(ctx, &self.id).await?;
        ctx.out.line(&url)?;
        ctx.out.flush()?;
        browser::open(ctx, &url);
        Ok(())
    }
}
