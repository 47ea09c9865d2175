//! `dl links list`.

use clap::Args;
use deeplink_core::link::{LinkFilter, LinkSort, LinkStatus};

use crate::clock::{Given, parse_given};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::export::flags_given;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Paging};

/// A filter for links.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filter {
    /// Only links attributed to this affiliate
    #[arg(long, value_name = "ID")]
    affiliate: Option<String>,
    /// Only links with this status: active, expired, flagged, disabled or deleted
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only links that their owner has enabled or, if false, disabled, whatever their status
    #[arg(long, value_name = "BOOL")]
    enabled: Option<bool>,
    /// Only links with this host in their URL, such as go.example.com
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,
    /// Only links created after this time: RFC 3339, a date, or how long ago (7d)
    #[arg(long, value_name = "WHEN", value_parser = parse_given)]
    created_after: Option<Given>,
    /// Only links created before this time
    #[arg(long, value_name = "WHEN", value_parser = parse_given)]
    created_before: Option<Given>,
    /// Only links with this text in ID, aliases, name, tags, URLs, preview title or metadata (case-insensitive)
    #[arg(long, visible_alias = "search", value_name = "TEXT", allow_hyphen_values = true)]
    q: Option<String>,
    /// Only links whose ID starts with this text
    #[arg(long, value_name = "PREFIX")]
    id_prefix: Option<String>,
    /// Only links with this tag; if repeated, only links with all of these tags
    #[arg(long = "tag", value_name = "TAG", allow_hyphen_values = true)]
    tags: Vec<String>,
}

impl Filter {
    /// The filter as it was given, for an export that is resumed.
    pub(crate) fn describe(&self) -> String {
        let [after, before] =
            [&self.created_after, &self.created_before].map(|given| given.as_ref().map(|given| given.text.as_str()));
        let enabled = self.enabled.map(|enabled| if enabled { "true" } else { "false" });
        let mut words = vec![
            ("affiliate", self.affiliate.as_deref()),
            ("status", self.status.as_deref()),
            ("enabled", enabled),
            ("domain", self.domain.as_deref()),
            ("created-after", after),
            ("created-before", before),
            ("q", self.q.as_deref()),
            ("id-prefix", self.id_prefix.as_deref()),
        ];
        words.extend(self.tags.iter().map(|tag| ("tag", Some(tag.as_str()))));
        flags_given(&words)
    }

    /// Whether it depends on the current time.
    fn is_relative(&self) -> bool {
        [&self.created_after, &self.created_before].into_iter().flatten().any(Given::is_relative)
    }

    /// The filter in the service's form, with an order.
    pub(crate) fn check(self, sort: Option<LinkSort>) -> Outcome<LinkFilter> {
        let mut filter = LinkFilter::new();
        filter.status = self.status.as_deref().map(LinkStatus::from);
        (filter.affiliate_id, filter.enabled, filter.domain) = (self.affiliate, self.enabled, self.domain);
        filter.created_after = self.created_after.map(|given| given.moment);
        filter.created_before = self.created_before.map(|given| given.moment);
        (filter.q, filter.id_prefix, filter.tags) = (self.q, self.id_prefix, self.tags);
        filter.sort = sort;
        checked(filter)
    }
}

/// The filter, if it is valid; otherwise, the error names the option and its value.
fn checked(filter: LinkFilter) -> Outcome<LinkFilter> {
    let Err(wrong) = filter.check() else { return Ok(filter) };
    let field = wrong.field.as_deref().unwrap_or_default();
    let (option, value) = match field {
        "affiliate_id" => ("affiliate", filter.affiliate_id.as_deref()),
        "status" => ("status", filter.status.as_ref().map(LinkStatus::as_str)),
        "domain" => ("domain", filter.domain.as_deref()),
        "sort" => ("sort", filter.sort.as_ref().map(LinkSort::as_str)),
        _ => return Err(wrong.into()),
    };
    let rule = wrong.message.strip_prefix(field).unwrap_or(&wrong.message).trim_start();
    let what = format!("--{option} \"{}\": {rule}", value.unwrap_or_default());
    Err(Failure::invalid(what).field(field).into())
}

/// List links, newest first by default
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl links list --limit 10",
    "dl links list --all -o id",
    "dl links list --q \"spring sale\"",
    "dl links list --tag spring --tag poster",
    "dl links list --status expired --created-after 30d -o csv",
    "dl links list --domain go.example.com --enabled false --sort oldest",
]))]
pub(crate) struct List {
    /// Order by creation: newest or oldest first [default: newest]
    #[arg(long, value_name = "ORDER")]
    sort: Option<String>,
    #[command(flatten)]
    paging: Paging,
    #[command(flatten)]
    filter: Filter,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINKS)?;
        let of_cursor = self.paging.is_continued() && self.filter.is_relative();
        let filter = self.filter.check(self.sort.as_deref().map(LinkSort::from))?;
        let mut all = LinkFilter::new();
        all.sort.clone_from(&filter.sort);
        let none = match &filter.status {
            _ if filter == all => "no links; dl links create URL creates one",
            Some(LinkStatus::Deleted) => "no deleted links match",
            _ => "no links match",
        };
        // A cursor contains its filters and its order, and 7d no longer means the same moment as on the first page.
        let filter = if of_cursor { LinkFilter::new() } else { filter };
        if of_cursor {
            ctx.console.note("relative times are ignored with --cursor; the cursor's own filters and order apply");
        }
        let client = ctx.client().await?;
        let fetch = async |size, cursor| {
            let mut list = client.links().list(&filter).page_size(size);
            if let Some(cursor) = cursor {
                list = list.cursor(cursor);
            }
            Fetched::by(list.first_page()).await.map_err(|error| ctx.stop(&error))
        };
        self.paging.part().print(ctx, &sheet, none, fetch).await
    }
}
