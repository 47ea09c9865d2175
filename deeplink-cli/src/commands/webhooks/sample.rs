//! `dl webhooks sample`: sample events.

use clap::Args;
use deeplink_core::event::sample::{in_earlier_form, sample};
use deeplink_core::event::{Event, EventKind};
use serde_json::Value;

use super::kinds;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;

/// Options of a sample event.
#[derive(Debug, Args)]
pub(super) struct Made {
    /// Use the format of earlier versions
    #[arg(long)]
    legacy: bool,
    /// Set a field to another value, such as data.user_id=user-7
    #[arg(long, value_name = "PATH=VALUE", allow_hyphen_values = true)]
    set: Vec<String>,
    /// Seed: the same number always produces the same body
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl Made {
    /// The body of an event of this kind.
    pub(super) fn body(&self, ctx: &Context, kind: &EventKind) -> Outcome<String> {
        let unknown = || Failure::invalid("unknown kind of event").code("invalid_event");
        let event = sample(kind, self.seed).ok_or_else(unknown)?;
        let body = if self.legacy { in_earlier_form(&event).ok_or_else(unknown)? } else { event.raw };
        if self.set.is_empty() {
            return Ok(body);
        }
        let mut json: Value = serde_json::from_str(&body).unwrap_or_default();
        for pair in &self.set {
            let (path, text) = pair
                .split_once('=')
                .ok_or_else(|| Failure::usage(format!("--set {pair}: expected data.field=value")))?;
            let is_known = is_known(kind, &json, path);
            set(&mut json, path, text)?;
            if !is_known {
                ctx.console.warn(&format!("--set {path}: the service never sends a {kind} event with this field"));
            }
        }
        let body = json.to_string();
        Event::parse(body.as_bytes()).map_err(|why| {
            Failure::invalid(format!("--set: the result is {why}")).code("invalid_event").field("set")
        })?;
        Ok(body)
    }
}

/// Whether events of this kind have such a member, as far as is known. Anything below the metadata belongs to the link.
fn is_known(kind: &EventKind, json: &Value, path: &str) -> bool {
    let at_times: &[&str] = match kind {
        EventKind::Attribute => &["data.user_id"],
        EventKind::Conversion => &["data.amount_cents", "data.currency", "data.link_id"],
        _ => &[],
    };
    let is_free = ["data.metadata.", "data.first_touch_link_metadata."].iter().any(|free| path.starts_with(free));
    is_free || at_times.contains(&path) || json.pointer(&format!("/{}", path.replace('.', "/"))).is_some()
}

/// Puts a value at a path: as JSON, unless the current value is a text.
fn set(json: &mut Value, path: &str, text: &str) -> Outcome {
    let wrong = || Failure::usage(format!("--set: \"{path}\" is not a field of an event")).field("set");
    let mut at = json;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            return Err(wrong().into());
        }
        let is_new_object = parts.peek().is_some() && at.get(part).is_none_or(Value::is_null);
        let members = at.as_object_mut().ok_or_else(wrong)?;
        at = members.entry(part).or_insert(Value::Null);
        if is_new_object {
            *at = Value::Object(serde_json::Map::new());
        }
    }
    let typed = || serde_json::from_str(text).ok();
    *at = if at.is_string() { None } else { typed() }.unwrap_or_else(|| text.into());
    Ok(())
}

/// Print the body of a sample event
#[derive(Debug, Args)]
#[command(after_help = help(
    "The same kind and seed produce the same bytes within a release.",
    &[
    "dl webhooks sample conversion --set data.user_id=user-7",
    "dl webhooks sample attribute --legacy --seed 3",
]
))]
pub(crate) struct Sample {
    /// Kind of event: click, attribute, identify or conversion
    #[arg(value_name = "KIND", value_parser = kinds::parse)]
    kind: EventKind,
    #[command(flatten)]
    made: Made,
}

impl Sample {
    #[expect(clippy::unused_async, reason = "the form of every command")]
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        ctx.out.refuse_filter("sample events", "the body is JSON: pipe it to jq")?;
        kinds::check([&self.kind])?;
        let body = self.made.body(ctx, &self.kind)?;
        // No newline in a pipe: it would become part of the body.
        if ctx.out.terminal {
            ctx.out.line(&body)?;
        } else {
            ctx.out.raw(body.as_bytes())?;
        }
        ctx.out.flush()
    }
}
