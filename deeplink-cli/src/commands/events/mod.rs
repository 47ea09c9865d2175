//! `dl events`: what happened, event by event.

use clap::Args;
use deeplink_client::{EventFilter, EventKind};
use deeplink_core::time::Timestamp;

use crate::clock::parse_moment;
use crate::error::Outcome;

mod export;
mod list;

commands! {
    /// List and export clicks, installs, users and conversions one by one
    Events {
        List(list::List),
        Export(export::Export),
    }
}

/// A filter for events.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
struct Filter {
    /// Events of this kind: click, attribute, identify or conversion
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Events that name this link: clicks on it, installs it opened, conversions it touched first or last
    #[arg(long, value_name = "ID")]
    link: Option<String>,
    /// Events stored at this time or later: RFC 3339, a date, or how long ago (7d)
    #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
    from: Option<Timestamp>,
    /// Events stored before this time
    #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
    to: Option<Timestamp>,
}

impl Filter {
    /// The filter in the service's form.
    fn check(self) -> Outcome<EventFilter> {
        let mut filter = EventFilter::new();
        filter.kind = self.kind.as_deref().map(EventKind::named);
        (filter.link_id, filter.from, filter.to) = (self.link, self.from, self.to);
        filter.check()?;
        Ok(filter)
    }
}
