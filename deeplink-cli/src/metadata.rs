//! Metadata on the command line: text entries, or raw JSON.

use deeplink_core::metadata::Metadata;

use crate::context::Context;
use crate::error::{Failure, Outcome};

/// The metadata of `--meta` and `--meta-json`, if there is any.
pub(crate) fn read(ctx: &Context, entries: &[String], json: Option<&str>) -> Outcome<Option<Metadata>> {
    if let Some(given) = json {
        let text = match given.strip_prefix('@') {
            Some(path) => ctx.text_of(path.as_ref(), "--meta-json")?,
            None => given.to_owned(),
        };
        return parse(&text).map(Some);
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let mut members = Vec::new();
    for pair in entries {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(Failure::usage(format!("--meta requires KEY=VALUE, not \"{pair}\"")).into());
        };
        let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
        members.push(format!("{}:{}", quoted(name), quoted(value)));
    }
    parse(&format!("{{{}}}", members.join(","))).map(Some)
}

fn parse(json: &str) -> Outcome<Metadata> {
    Metadata::parse(json).map_err(|error| {
        Failure::invalid(format!("the metadata is not valid JSON: {error}"))
            .code("invalid_metadata")
            .field("metadata")
            .hint("--meta KEY=VALUE needs no JSON")
            .into()
    })
}
