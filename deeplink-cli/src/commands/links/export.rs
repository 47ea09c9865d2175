//! `dl links export`: every link, in a form that `dl links import` reads back.

use clap::Args;
use deeplink_client::LinkFilter;
use deeplink_client::bulk::LinkWriter;
use deeplink_core::page::MAX_LIMIT;

use crate::commands::links::list::Filter;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::export::{Chunk, Target};
use crate::help::help;

/// Export all links as CSV or JSONL
#[derive(Debug, Args)]
#[command(after_help = help(
    "The export is lossless: importing the file into the same account changes nothing.",
    &[
    "dl links export > links.csv",
    "dl links export -o jsonl --out links.jsonl --resume",
]
))]
pub(crate) struct Export {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filter: Filter,
}

impl Export {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let (jsonl, safe) = (self.target.is_jsonl(ctx)?, ctx.global.spreadsheet_safe);
        let filters = self.filter.describe();
        let (filter, client) = (self.filter.check(None)?, ctx.client().await?);
        let form = format!(
            "links{filters} as {}{}",
            if jsonl { "JSONL" } else { "CSV" },
            if safe { " for spreadsheets" } else { "" }
        );
        let page = async |cursor: Option<String>, is_first| {
            let list = match cursor {
                None => client.links().list(&filter),
                // A time such as 7d means a different moment when the export is resumed.
                Some(cursor) => client.links().list(&LinkFilter::new()).cursor(cursor),
            };
            let page = list.page_size(MAX_LIMIT).first_page().await.map_err(|error| ctx.stop(&error))?;
            let writer = if jsonl { LinkWriter::jsonl(Vec::new()) } else { LinkWriter::csv(Vec::new()) };
            let writer = writer.spreadsheet_safe(safe);
            let mut writer = if is_first { writer } else { writer.resumed() };
            // The header comes with the first page, even if it is empty.
            let written = writer.begin().and_then(|()| page.links.iter().try_for_each(|link| writer.write(link)));
            let bytes = written.and_then(|()| writer.into_inner());
            let bytes = bytes.map_err(|error| Failure::file("write", "a page", &error))?;
            let records = u64::try_from(page.links.len()).unwrap_or_default();
            Ok(Chunk { bytes, records, next_cursor: page.next_cursor })
        };
        self.target.write(ctx, "link", &form, page).await
    }
}
