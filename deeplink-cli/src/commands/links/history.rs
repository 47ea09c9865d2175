//! `dl links history`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::paging::{Fetched, Part};
use crate::{given, output};

/// List the versions of a link, newest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Each version shows the link as it was before the change listed with it. The last 100 versions are kept; those of a \
     deleted link are kept for 30 days. dl links restore undoes changes.",
    &["dl links history spring-42", "dl links history spring-42 -o json"]
))]
pub(crate) struct History {
    /// ID of the link
    id: String,
    #[command(flatten)]
    part: Part,
}

impl History {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINK_VERSIONS)?;
        given::link_id(&self.id)?;
        let links = ctx.client().await?.links();
        let fetch = async |size, cursor| {
            let page = Fetched::of(links.history(&self.id), size, cursor).await;
            page.map_err(|error| ctx.stop(&error).naming_link(&self.id))
        };
        self.part.print(ctx, &sheet, "this link has not been changed", fetch).await
    }
}
