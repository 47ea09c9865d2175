//! `dl links timeseries`.

use clap::{Args, ValueEnum};
use deeplink_core::stats::{Granularity, TimeseriesQuery};
use deeplink_core::time::Timestamp;
use deeplink_core::visitor::ClickKind;

use crate::clock::{self, parse_moment};
use crate::context::Context;
use crate::error::Outcome;
use crate::escape;
use crate::given;
use crate::help::help;
use crate::output::{self, Format, Record};

/// Show a link's clicks over time
#[derive(Debug, Args)]
#[command(after_help = help(
    "Without --kind, human and agent clicks are counted; previews and crawlers are not. Days and hours are in UTC.",
    &[
    "dl links timeseries spring-42 --from 7d",
    "dl links timeseries spring-42 --from 2026-11-01 --hourly -o csv",
]
))]
pub(crate) struct Series {
    /// ID of the link
    id: String,
    /// Start: RFC 3339, a date, or how long ago [default: 30 days before the end]
    #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
    from: Option<Timestamp>,
    /// End [default: now]
    #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
    to: Option<Timestamp>,
    /// Interval: daily or hourly
    #[arg(long, value_name = "WIDTH", default_value = "daily", hide_possible_values = true)]
    granularity: Width,
    /// Same as --granularity hourly
    #[arg(long, conflicts_with = "granularity")]
    hourly: bool,
    /// Only clicks of this kind: human, preview, crawler or agent
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<ClickKind>,
}

fn kind(text: &str) -> Result<ClickKind, String> {
    ClickKind::from_name(text).ok_or_else(|| format!("{text:?} is not one of human, preview, crawler, agent"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Width {
    /// One count per day
    Daily,
    /// One count per hour
    Hourly,
}

impl Series {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::BUCKETS)?;
        let mut query = TimeseriesQuery::new();
        (query.from, query.to) = (self.from, self.to);
        query.kind = self.kind;
        query.granularity = Some(match self.granularity {
            Width::Daily if !self.hourly => Granularity::Daily,
            Width::Daily | Width::Hourly => Granularity::Hourly,
        });
        given::link_id(&self.id)?;
        query.window(clock::now())?;
        let client = ctx.client().await?;
        let series = client.links().timeseries(&self.id, &query).full().await;
        let series = series.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
        let body = String::from_utf8_lossy(&series.raw);
        if ctx.out.format == Format::Json && sheet.fields.is_none() {
            return sheet.one(&body);
        }
        if ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none() {
            let clicks: Vec<i64> = series.value.data.iter().map(|bucket| bucket.clicks).collect();
            let (pen, id) = (ctx.pen(), escape::one_line(&series.value.link_id));
            ctx.out.raw(format!("{}, clicks\n{}\n\n", pen.heading(&id), pen.spark(&clicks)).as_bytes())?;
        }
        let mut rows = sheet.several();
        for bucket in Record::read(&body).unwrap_or_default().items("data") {
            rows.push(bucket.get())?;
        }
        rows.finish(None)?;
        let total: i64 = series.value.data.iter().map(|bucket| bucket.clicks).sum();
        let noun = if total == 1 { "click" } else { "clicks" };
        ctx.console.say(&format!("{total} {noun} from {} to {}", series.value.from, series.value.to));
        Ok(())
    }
}
