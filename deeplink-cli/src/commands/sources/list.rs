//! `dl sources list`.

use clap::Args;

use super::shown;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::{self, Record};
use crate::paging::{Fetched, Part};

/// List the sources
#[derive(Debug, Args)]
#[command(after_help = help(
    "Anyone who knows a URL can post to it, so URLs are shown only with --reveal.",
    &["dl sources list", "dl sources list --reveal -o jsonl"]
))]
pub(crate) struct List {
    /// Show the URLs
    #[arg(long)]
    reveal: bool,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SOURCES)?;
        let sources = ctx.client().await?.sources();
        let fetch = async |size, cursor| {
            let mut page = Fetched::of(sources.list(), size, cursor).await.map_err(|error| ctx.stop(&error))?;
            page.raw = self.shown(&page.raw).into_bytes();
            Ok(page)
        };
        Part::default().print(ctx, &sheet, "no sources yet; dl sources create NAME creates one", fetch).await
    }

    /// A page with its URLs masked or revealed.
    fn shown(&self, page: &[u8]) -> String {
        let body = String::from_utf8_lossy(page);
        let record = Record::read(&body).unwrap_or_default();
        let sources: Vec<_> =
            record.items("sources").iter().map(|source| shown(source.get(), self.reveal).into_owned()).collect();
        record.with("sources", &format!("[{}]", sources.join(",")))
    }
}
