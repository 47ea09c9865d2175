//! `dl events export`: the log of events, for a warehouse.

use std::cell::RefCell;
use std::sync::Arc;

use clap::Args;
use deeplink_client::{EventFilter, StoredEvent, StreamState};
use deeplink_core::event::{EventKind, MAX_EVENTS, click_event_id};
use deeplink_core::id::EventId;
use deeplink_core::time::Timestamp;
use futures_util::StreamExt;

use super::Filter;
use crate::clock;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::export::{self, Chunk, Target};
use crate::help::help;
use crate::output::{EVENTS, Record, csv_record};

/// Export all events as CSV or JSONL, oldest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Exports of a period are identical starting one minute after it ends. JSONL contains each event as sent to \
     webhooks, with its ID; CSV has columns for the fields of all event kinds. --follow keeps writing new events \
     until Ctrl-C.",
    &[
    "dl events export --from 2026-11-01 --to 2026-12-01 --out november.jsonl",
    "dl events export --from 2026-11-01 --to 2026-12-01 --out november.jsonl --resume",
    "dl events export --kind conversion -o jsonl --from 1h --follow",
]
))]
pub(crate) struct Export {
    #[command(flatten)]
    target: Target,
    /// Keep running and write new events
    #[arg(long, conflicts_with_all = ["out", "to"])]
    follow: bool,
    #[command(flatten)]
    filter: Filter,
}

impl Export {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let (jsonl, safe) = (self.target.is_jsonl(ctx)?, ctx.global.spreadsheet_safe);
        let form = format!("events{} as {}", self.filter.describe(), if jsonl { "JSONL" } else { "CSV" });
        let filter = self.filter.check()?;
        let client = ctx.client().await?;
        let form = if safe { form + " for spreadsheets" } else { form };
        // After the last event. If there was none, there is nothing to repeat: an hour earlier, for clocks that differ.
        let begin = clock::now().plus_millis(-3_600_000).max(filter.from.unwrap_or(Timestamp::from_millis(0)));
        let last = RefCell::new(click_event_id(begin.as_millis() << 20));
        let page = async |cursor: Option<String>, is_first| {
            let list = match cursor {
                None => client.events().list(&filter),
                // A time such as 7d means a different moment when the export is resumed.
                Some(cursor) => client.events().list(&EventFilter::new()).cursor(cursor),
            };
            let page = list.page_size(MAX_EVENTS).first_page().full().await.map_err(|error| ctx.stop(&error))?;
            let raw = String::from_utf8_lossy(&page.raw);
            let record = Record::read(&raw)
                .ok_or_else(|| Failure::new(Exit::Failure, "the service's response is not a list"))?;
            let mut bytes = Vec::new();
            if is_first && !jsonl {
                bytes = header(safe);
            }
            for item in record.items("events") {
                bytes.extend(line(item.get(), jsonl, safe));
            }
            if let Some(event) = page.value.events.last() {
                last.replace(event.id.clone());
            }
            let records = u64::try_from(page.value.events.len()).unwrap_or_default();
            Ok(Chunk { bytes, records, next_cursor: page.value.next_cursor })
        };
        self.target.write(ctx, "event", &form, page).await?;
        if self.follow { follow(ctx, &filter, last.into_inner(), |item| line(item, jsonl, safe)).await } else { Ok(()) }
    }
}

/// Writes new events as they happen.
async fn follow(ctx: &Context, filter: &EventFilter, after: EventId, line: impl Fn(&str) -> Vec<u8>) -> Outcome {
    let console = Arc::clone(&ctx.console);
    let watch = move |state| match state {
        StreamState::Disconnected => console.say("connection lost; reconnecting"),
        StreamState::Reconnected => console.say("reconnected"),
        _ => {}
    };
    let kinds: Vec<EventKind> = filter.kind.iter().cloned().collect();
    let mut events = ctx.client().await?.events().stream().kinds(kinds).after(after).watch(watch);
    ctx.console.say("following new events; Ctrl-C to stop");
    while let Some(event) = events.next().await {
        let event: StoredEvent = event.map_err(|error| ctx.stop(&error))?;
        if filter.link_id.as_deref().is_none_or(|link| event.event.names_link(link)) {
            let item =
                serde_json::to_string(&event).map_err(|_| Failure::new(Exit::Failure, "an event is not valid JSON"))?;
            export::print(ctx, &line(&item))?;
        }
    }
    Ok(())
}

/// The names of the columns.
fn header(safe: bool) -> Vec<u8> {
    csv_record(EVENTS.csv_fields().map(|field| field.name.to_owned()), safe)
}

/// An event as a line of JSON, or as a record of CSV.
fn line(item: &str, jsonl: bool, safe: bool) -> Vec<u8> {
    if jsonl {
        return [item.as_bytes(), b"\n"].concat();
    }
    let record = Record::read(item).unwrap_or_default();
    csv_record(EVENTS.csv_fields().map(|field| record.cell(field.path).unwrap_or_default()), safe)
}
