//! Kinds of events on the command line.

use deeplink_core::event::EventKind;
use deeplink_core::webhook::{TestWebhook, WebhookFilters};

use crate::context::Context;
use crate::error::Outcome;

/// A kind by its name; the earlier `attribution` is `attribute`. [`check`] says whether it exists.
#[expect(clippy::unnecessary_wraps, reason = "the form that clap asks for")]
pub(super) fn parse(text: &str) -> Result<EventKind, String> {
    Ok(EventKind::named(text))
}

/// Whether these kinds exist, by the service's own rule.
pub(super) fn check<'a>(kinds: impl IntoIterator<Item = &'a EventKind>) -> Outcome {
    for kind in kinds {
        TestWebhook::new().event(kind).check()?;
    }
    Ok(())
}

/// The kinds of a webhook; notes the use of an earlier name.
pub(super) fn named(ctx: &Context, words: &[String]) -> Vec<EventKind> {
    if words.iter().any(|word| word == "attribution") {
        ctx.console.note("\"attribution\" is now called \"attribute\"");
    }
    words.iter().map(|word| EventKind::named(word)).collect()
}

/// Notes a filter on an affiliate's conversions if conversions are not subscribed to.
pub(super) fn note_idle_filter(ctx: &Context, kinds: &[EventKind], filters: &WebhookFilters) {
    if !filters.is_empty() && !kinds.contains(&EventKind::Conversion) {
        ctx.console.note("the affiliate filter applies only to conversions, and this webhook does not receive any");
    }
}
