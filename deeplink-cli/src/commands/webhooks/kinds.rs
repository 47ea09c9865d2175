//! Kinds of events on the command line.

use deeplink_core::event::EventKind;

use crate::context::Context;

/// A kind by its name; the earlier `attribution` is `attribute`.
pub(super) fn parse(text: &str) -> Result<EventKind, String> {
    match EventKind::named(text) {
        EventKind::Unknown(_) => Err("one of click, attribute, identify, conversion".to_owned()),
        kind => Ok(kind),
    }
}

/// The kinds of a webhook; says so where an earlier name is meant.
pub(super) fn named(ctx: &Context, words: &[String]) -> Vec<EventKind> {
    if words.iter().any(|word| word == "attribution") {
        ctx.console.note("attribution is called attribute now");
    }
    words.iter().map(|word| EventKind::named(word)).collect()
}
