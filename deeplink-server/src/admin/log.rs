//! The log on stderr: short lines on a terminal, JSON otherwise.
//!
//! Libraries may log headers or statements that contain secrets, so whatever the filter, only our own crates log below
//! `info`. PostgreSQL's notices, such as that a table already exists, are hidden; its warnings are logged.

use std::io::IsTerminal;

use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use super::output::Stderr;
use crate::clock::Clock;
use crate::db::NOTICES;

/// Installs the global logger.
pub(super) fn start(filter: &str) {
    let subscriber = tracing_subscriber::registry().with(layer(filter, std::io::stderr().is_terminal(), || Stderr));
    // Fails only if a subscriber is already set, which then stays.
    drop(subscriber.try_init());
}

/// The log as a layer, for any writer.
fn layer<S, W>(filter: &str, terminal: bool, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // The filter was checked with the settings.
    let filter = EnvFilter::builder().parse(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // To report its own errors, the formatter would print to stderr, and panic if stderr is closed.
    let lines = fmt::layer().with_writer(writer).log_internal_errors(false);
    let lines = if terminal {
        lines.with_target(false).with_timer(TimeOfDay).boxed()
    } else {
        lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    };
    lines.with_filter(filter).with_filter(filter_fn(may_be_logged)).boxed()
}

/// The time of day in UTC; on a terminal, the date is not needed.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        let now = Clock::system().now().to_string();
        line.write_str(now.get(11..19).unwrap_or(&now))
    }
}

fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    let most = match metadata.target() {
        target if target.starts_with("deeplink") => Level::TRACE,
        NOTICES => Level::WARN,
        // Its warnings are about clients, each of which could fill the log.
        target if target.starts_with("h2::") => Level::ERROR,
        // It has several lines for each message.
        target if target.starts_with("rmcp") => Level::ERROR,
        _ => Level::INFO,
    };
    *metadata.level() <= most
}
