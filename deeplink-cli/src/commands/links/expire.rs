//! `dl links expire`.

use clap::{ArgGroup, Args};
use deeplink_core::link::UpdateLink;
use deeplink_core::patch::Patch;
use deeplink_core::time::Timestamp;

use crate::clock::parse_later;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;

/// Set or remove the expiry of links
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("expiry").required(true).args(["at", "never"])))]
#[command(after_help = help(
    "Visitors who open an expired link see a notice, or are redirected to its --expired-url. Links of an account \
     without a verified domain may expire earlier.",
    &[
    "dl links expire spring-42 --at 30d",
    "dl links expire spring-42 --at 2026-12-24T18:00:00+01:00",
    "dl links expire spring-42 --never",
]
))]
pub(crate) struct Expire {
    /// IDs of the links, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
    /// Expiry: RFC 3339, a date, or how long from now, such as 30d
    #[arg(long, value_name = "WHEN", value_parser = parse_later)]
    at: Option<Timestamp>,
    /// Remove the expiry
    #[arg(long)]
    never: bool,
}

impl Expire {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let mut update = UpdateLink::new();
        update.expires_at = self.at.map_or(Patch::Clear, |end| Patch::Set(end.to_string()));
        super::update::each(ctx, &self.ids, &update).await
    }
}
