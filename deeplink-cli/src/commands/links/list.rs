//! `dl links list`.

use clap::Args;
use deeplink_core::link::{LinkFilter, LinkStatus};
use deeplink_core::page::DEFAULT_LIMIT;
use deeplink_core::time::Timestamp;

use crate::cli::help;
use crate::clock::parse_moment;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::{output, paging};

/// Which links are meant.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filter {
    /// Links of this affiliate
    #[arg(long, value_name = "ID")]
    affiliate: Option<String>,
    /// Links of this status: active, expired, flagged or disabled
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Links made after this moment: RFC 3339, a date, or how long ago (7d)
    #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
    created_after: Option<Timestamp>,
    /// Links made before this moment
    #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
    created_before: Option<Timestamp>,
    /// Links whose id begins with this text
    #[arg(long, value_name = "PREFIX")]
    q: Option<String>,
}

impl Filter {
    /// The filter as the service takes it.
    pub(crate) fn check(self) -> Outcome<LinkFilter> {
        let mut filter = LinkFilter::new();
        if let Some(status) = self.status {
            let status = LinkStatus::from(status.as_str());
            if let LinkStatus::Unknown(word) = &status {
                let what = format!("--status \"{word}\": one of active, expired, flagged, disabled");
                return Err(Failure::invalid(what).field("status").into());
            }
            filter = filter.status(status);
        }
        filter.affiliate_id = self.affiliate;
        filter.created_after = self.created_after;
        filter.created_before = self.created_before;
        filter.q = self.q;
        Ok(filter)
    }
}

/// List links, newest first
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl links list --limit 10",
    "dl links list --all -o id",
    "dl links list --status expired --created-after 30d -o csv",
]))]
pub(crate) struct List {
    /// How many links at most; above 100 in pages of 100
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT.into(), value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Every link
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    filter: Filter,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINKS)?;
        let filter = self.filter.check()?;
        let client = ctx.client().await?;
        let most = if self.all { u64::MAX } else { self.limit };
        let mut rows = sheet.list();
        let next = paging::through("links", (self.cursor, most), &mut rows, async |size, cursor| {
            let mut list = client.links().list(&filter).page_size(size);
            if let Some(cursor) = cursor {
                list = list.cursor(cursor);
            }
            let page = list.first_page().full().await.map_err(|error| ctx.stop(&error))?;
            Ok((page.raw.to_vec(), page.value.next_cursor))
        })
        .await?;
        let count = rows.count();
        rows.finish(next.as_deref())?;
        match next {
            _ if count == 0 => ctx.console.say("no links; dl links create URL makes one"),
            Some(cursor) if ctx.out.terminal => {
                ctx.console.say(&format!("there are more: --all, or --cursor {cursor}"));
            }
            _ => {}
        }
        Ok(())
    }
}
