//! `dl tags delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Remove a tag from all links
#[derive(Debug, Args)]
#[command(after_help = help(
    "The links are not deleted.",
    &["dl tags delete spring --yes", "dl tags delete spring --dry-run"]
))]
pub(crate) struct Delete {
    /// Tag to remove
    tag: String,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELETED)?;
        let tag = given::tag(&self.tag)?;
        let shown = crate::escape::one_line(tag.as_str()).into_owned();
        ctx.confirm(&format!("The tag \"{shown}\" will be removed from all links.")).await?;
        let call = ctx.client().await?.tags().delete(tag.as_str());
        call.await.map_err(|error| ctx.stop_among(&error, "tags").naming(&format!("tag \"{shown}\"")))?;
        sheet.created(&output::object(&[("id", tag.as_str().into()), ("deleted", true.into())]))
    }
}
