//! `dl links stats`.

use clap::Args;
use deeplink_core::funnel::{ConversionSum, LinkStats, Revenue};

use crate::commands::stats::imported;
use crate::context::Context;
use crate::error::Outcome;
use crate::given;
use crate::help::help;
use crate::output::{self, Format, Line};

/// Show all-time totals for a link
#[derive(Debug, Args)]
#[command(after_help = help(
    "Counts are by last touch. Use dl stats for a time range, several links or other touches.",
    &["dl links stats spring-42", "dl links stats spring-42 -o json"]
))]
pub(crate) struct Stats {
    /// ID of the link
    id: String,
}

impl Stats {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LINK_STATS)?;
        given::link_id(&self.id)?;
        let stats = ctx.client().await?.links().stats(&self.id).full().await;
        let stats = stats.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
        if ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none() {
            ctx.out.raw(draw(ctx, &stats.value).as_bytes())?;
            return ctx.out.flush();
        }
        sheet.one(&String::from_utf8_lossy(&stats.raw))
    }
}

/// The counts for people.
fn draw(ctx: &Context, stats: &LinkStats) -> String {
    let pen = ctx.pen();
    let steps = pen.funnel(stats.click_count, stats.install_count, stats.identify_count, stats.convert_count);
    let mut sections = vec![("", steps)];
    if !stats.conversions.is_empty() {
        let line = |sum: &ConversionSum| Line::new(&sum.conversion_type, sum.count).tail(&revenue(sum));
        sections.push(("CONVERSIONS", stats.conversions.iter().map(line).collect()));
    }
    pen.chart(&sections) + &imported(pen, stats.imported_clicks)
}

/// The revenue of a type of conversion.
fn revenue(sum: &ConversionSum) -> String {
    let (Some(cents), Some(currency)) = (sum.sum_cents, &sum.currency) else { return String::new() };
    Revenue::new(currency.clone(), cents).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revenue_is_in_hundredths() {
        let of = |cents| revenue(&ConversionSum::new("purchase".into(), 1, cents, Some("EUR".into())));
        assert_eq!([of(Some(8_405)), of(Some(-5)), of(None)], ["84.05 EUR", "-0.05 EUR", ""]);
        assert_eq!(of(Some(i64::MIN)), "-92,233,720,368,547,758.08 EUR");
    }
}
