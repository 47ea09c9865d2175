//! `dl account export`.

use clap::Args;
use deeplink_core::export::MAX_RECORDS;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::export::{Chunk, Target};
use crate::help::help;
use crate::output::{Format, Record};

/// Export the account's data as JSONL
#[derive(Debug, Args)]
#[command(after_help = help(
    "One record per line, each with its type: settings, team members, keys, domains, apps, affiliates, sources, \
     webhooks, links, the audit log and all stored events. Secrets are omitted. For a file that \"dl links import\" \
     can read, use \"dl links export\".",
    &[
    "dl account export --out account.jsonl",
    "dl account export --out account.jsonl --resume",
]
))]
pub(crate) struct Export {
    #[command(flatten)]
    target: Target,
}

impl Export {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("exports", "the file is JSONL, which jq reads: jq .type account.jsonl")?;
        if ctx.global.format().is_some_and(|format| format != Format::Jsonl) {
            return Err(Failure::usage("account exports are always JSONL").hint("use -o jsonl, or omit -o").into());
        }
        let client = ctx.client().await?;
        let page = async |cursor: Option<String>, _| {
            let list = client.account().export();
            let list = match cursor {
                None => list,
                Some(cursor) => list.cursor(cursor),
            };
            let page = list.page_size(MAX_RECORDS).first_page().full().await.map_err(|error| ctx.stop(&error))?;
            let raw = String::from_utf8_lossy(&page.raw);
            let record = Record::read(&raw)
                .ok_or_else(|| Failure::new(Exit::Failure, "the service's response is not a list"))?;
            let lines = record.items("records").into_iter().flat_map(|item| [item.get().as_bytes(), b"\n"].concat());
            let records = u64::try_from(page.value.records.len()).unwrap_or_default();
            Ok(Chunk { bytes: lines.collect(), records, next_cursor: page.value.next_cursor })
        };
        self.target.write(ctx, "record", "the account as JSONL", page).await
    }
}
