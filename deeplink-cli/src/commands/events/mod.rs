//! `dl events`: what happened, event by event.

use clap::Args;
use deeplink_client::{EventFilter, EventKind};

use crate::clock::{Given, parse_given};
use crate::error::Outcome;
use crate::export::flags_given;

mod export;
mod list;

commands! {
    /// List and export individual clicks, installs, users and conversions
    #[command(after_help = crate::help::help("", &[
        "dl events list --from 1h",
        "dl events export --from 2026-11-01 --to 2026-12-01 --out november.jsonl",
    ]))]
    Events {
        List(list::List),
        Export(export::Export),
    }
}

impl Events {
    pub(crate) fn is_export(&self) -> bool {
        matches!(self.action, Action::Export(_))
    }
}

/// A filter for events.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
struct Filter {
    /// Only events of this kind: click, attribute, identify or conversion
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only events for this link: clicks, installs opened from it, and conversions for which it was the first or last
    /// touch
    #[arg(long, value_name = "ID")]
    link: Option<String>,
    /// Only events stored at or after this time: RFC 3339, a date, or how long ago (7d)
    #[arg(long, value_name = "WHEN", value_parser = parse_given)]
    from: Option<Given>,
    /// Only events stored before this time
    #[arg(long, value_name = "WHEN", value_parser = parse_given)]
    to: Option<Given>,
}

impl Filter {
    /// The filter as it was given, for an export that is resumed.
    fn describe(&self) -> String {
        let [from, to] = [&self.from, &self.to].map(|given| given.as_ref().map(|given| given.text.as_str()));
        let words = [("kind", self.kind.as_deref()), ("link", self.link.as_deref()), ("from", from), ("to", to)];
        flags_given(&words)
    }

    /// The filter in the service's form.
    fn check(self) -> Outcome<EventFilter> {
        let mut filter = EventFilter::new();
        filter.kind = self.kind.as_deref().map(EventKind::named);
        filter.link_id = self.link;
        (filter.from, filter.to) = (self.from.map(|given| given.moment), self.to.map(|given| given.moment));
        filter.check()?;
        Ok(filter)
    }
}
