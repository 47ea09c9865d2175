//! `dl tags rename`.

use clap::Args;
use deeplink_core::tag::RenameTag;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Rename a tag on all links, or merge it into another
#[derive(Debug, Args)]
#[command(after_help = help(
    "If the new tag already exists, the two tags are merged.",
    &["dl tags rename spring \"Spring sale\"", "dl tags rename spring-sale \"Spring sale\" --dry-run"]
))]
pub(crate) struct Rename {
    /// Tag to rename
    tag: String,
    /// New tag: at most 40 characters, without commas
    new: String,
}

impl Rename {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::TAGS)?;
        let tag = given::tag(&self.tag)?;
        let new = RenameTag::new(self.new);
        new.check()?;
        let call = ctx.client().await?.tags().rename(tag.as_str(), &new).full();
        let named = format!("tag \"{}\"", crate::escape::one_line(tag.as_str()));
        let renamed = call.await.map_err(|error| ctx.stop_among(&error, "tags").naming(&named))?;
        sheet.one(&String::from_utf8_lossy(&renamed.raw))
    }
}
