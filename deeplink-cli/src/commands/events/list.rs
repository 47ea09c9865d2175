//! `dl events list`.

use clap::Args;
use deeplink_client::EventFilter;

use super::Filter;
use crate::clock;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Paging};

/// Hours that are listed unless a time or a cursor is given.
const HOURS: i64 = 24;

/// List events, oldest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Without --from, --to or --cursor, lists the last 24 hours. A cursor includes its filters. -o json and jsonl \
     print each event as sent to webhooks, with its ID.",
    &[
    "dl events list --from 1h",
    "dl events list --kind conversion --from 7d --all -o jsonl",
    "dl events list --link spring-42 --from 2026-11-01 --to 2026-12-01",
]
))]
pub(crate) struct List {
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    filter: Filter,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::EVENTS)?;
        let mut filter = self.filter.check()?;
        if self.paging.is_continued() && filter != EventFilter::new() {
            let what = "--cursor already includes the filters of the list it continues";
            return Err(Failure::usage(what).hint("omit --kind, --link, --from and --to").into());
        }
        let mut none = "no events match";
        if filter.from.is_none() && filter.to.is_none() && !self.paging.is_continued() {
            filter.from = Some(clock::now().plus_millis(-HOURS * 3_600_000));
            none = "no events in the last 24 hours; use --from 7d to look further back";
        }
        let client = ctx.client().await?;
        let fetch = async |size, cursor| {
            let list = match cursor {
                None => client.events().list(&filter),
                // It carries the filters.
                Some(cursor) => client.events().list(&EventFilter::new()).cursor(cursor),
            };
            Fetched::by(list.page_size(size).first_page()).await.map_err(|error| ctx.stop(&error))
        };
        self.paging.part().print(ctx, &sheet, none, fetch).await
    }
}
