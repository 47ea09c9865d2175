//! `dl webhooks sign`.

use std::path::{Path, PathBuf};

use clap::Args;
use deeplink_core::id::EventId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use http::HeaderMap;

use super::secrets::SecretFile;
use crate::clock::{now, parse_moment};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::output::{self, Format};

/// Print the headers that the service would send with a body
#[derive(Debug, Args)]
#[command(after_help = help(
    "With several secrets, webhook-signature contains a signature for each, as after a rotation.",
    &[
    "dl webhooks sign --body b.json --secret-file s.txt",
    "dl webhooks sample click | dl webhooks sign --secret-file s.txt --id evt_1 -o json",
]
))]
pub(crate) struct Sign {
    /// File with the exact bytes of the body, or - for stdin [default: -]
    #[arg(long, value_name = "FILE|-")]
    body: Option<PathBuf>,
    #[command(flatten)]
    secret: SecretFile,
    /// Event ID, sent as webhook-id [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Time of the attempt: RFC 3339, a date, seconds since 1970, or how long ago (5m) [default: now]
    #[arg(long, value_name = "WHEN", value_parser = parse_time)]
    timestamp: Option<Timestamp>,
}

impl Sign {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SIGNED)?;
        let verifier = self.secret.read(ctx).await?.verifier()?;
        let body = ctx.given_bytes(self.body.as_deref().unwrap_or(Path::new("-")), "--body").await?;
        let at = self.timestamp.unwrap_or_else(now);
        let id = self.id.unwrap_or_else(new_id);
        let headers = verifier.sign(&body, &id, at).map_err(|_| {
            Failure::invalid("--id: must be up to 256 visible characters without dots").code("invalid_id").field("id")
        })?;
        let pairs: Vec<(&str, &str)> = signatures(&headers).collect();
        if ctx.out.format == Format::Table && sheet.fields.is_none() {
            for (name, value) in pairs {
                ctx.out.line(&format!("{name}: {value}"))?;
            }
            return ctx.out.flush();
        }
        let members: Vec<_> = pairs.into_iter().map(|(name, value)| (name, value.into())).collect();
        sheet.one(&output::object(&members))
    }
}

/// A time, or the value of webhook-timestamp.
fn parse_time(text: &str) -> Result<Timestamp, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Timestamp::from_millis(i64::from(seconds) * 1_000)),
        Err(_) => parse_moment(text),
    }
}

/// A new event's id.
pub(super) fn new_id() -> String {
    EventId::new(now(), &mut Random::system()).as_str().to_owned()
}

/// The four headers of the signatures.
pub(super) fn signatures(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let named = headers.iter().filter(|(name, _)| *name != "content-type");
    named.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
}
