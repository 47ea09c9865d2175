//! `dl links copy`.

use clap::Args;

use crate::clipboard;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Copy a link's URL to the clipboard
#[derive(Debug, Args)]
#[command(after_help = help(
    "The URL is printed, too. Without a desktop, for example over SSH, dl asks the terminal to copy it.",
    &["dl links copy spring-42", "dl links create https://example.com/p/42 --id spring-42 && dl links copy spring-42"]
))]
pub(crate) struct Copy {
    /// ID of the link
    id: String,
}

impl Copy {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("a URL that is printed as text", "dl links get ID --jq .url")?;
        let url = super::url_of(ctx, &self.id).await?;
        ctx.out.line(&url)?;
        ctx.out.flush()?;
        if clipboard::copy(ctx, &url) {
            ctx.console.note("copied to the clipboard");
        } else {
            ctx.console.warn("could not copy: no clipboard program found (pbcopy, wl-copy, xclip or xsel)");
        }
        Ok(())
    }
}
