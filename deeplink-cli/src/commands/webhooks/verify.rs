//! `dl webhooks verify`.

use clap::Args;
use deeplink_client::webhook::{Error, Verifier};
use deeplink_core::event::{Event, EventKind};
use deeplink_core::signature::{SERVICE_SIGNATURE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use deeplink_core::time::Timestamp;

use super::diagnose::diagnose;
use super::kinds;
use super::request::{Received, Request};
use super::secrets::{Given, SecretFile};
use crate::clock::parse_duration;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::help::help;
use crate::output;

/// Verify the signature of a received request, and explain any failure
#[derive(Debug, Args)]
#[command(after_help = help(
    "The body is verified byte for byte. Exits with 0 if the service signed it, 11 if not, 2 if there is no \
     signature, 3 if the signed body is not an event.",
    &[
    "dl webhooks verify --raw request.txt --secret-file s.txt",
    "dl webhooks verify --headers h.txt --body b.json --secret-file s.txt --print",
]
))]
pub(crate) struct Verify {
    #[command(flatten)]
    received: Received,
    #[command(flatten)]
    secret: SecretFile,
    /// Reject signatures older than this; requires webhook-signature, webhook-id and webhook-timestamp
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    max_age: Option<std::time::Duration>,
    /// Accept only this kind
    #[arg(long, value_name = "KIND", value_parser = kinds::parse)]
    event: Option<EventKind>,
    /// Print the body unchanged
    #[arg(long)]
    print: bool,
}

impl Verify {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::VERIFIED)?;
        kinds::check(&self.event)?;
        let given = self.secret.read(ctx).await?;
        let request = self.received.read(ctx).await?;
        if self.max_age.is_some()
            && let Some(name) = missing(&request)
        {
            let what = format!("--max-age requires the header {name}, which is missing");
            return Err(Failure::usage(what).hint("--headers and --raw include it").into());
        }
        let all = self.strict(given.verifier()?);
        let exact = given.exact().map(|exact| self.strict(exact));
        let verified = exact.as_ref().and_then(|exact| exact.verify_both(&request.headers, &request.body).ok());
        let (Some(exact), Some(verified)) = (&exact, verified) else {
            return Err(Self::refused(&all, &given, &request));
        };
        let id = verified.id.map(str::to_owned);
        self.warn_of_others(ctx, exact, &request);
        let event = Event::parse(&request.body).map_err(|why| {
            Failure::invalid(format!("the signature is valid, but the body is {why}")).code("invalid_event")
        })?;
        if let Some(wanted) = self.event.filter(|wanted| *wanted != event.kind) {
            let what = format!("the signature is valid, but the event is {}, not {wanted}", event.kind);
            return Err(Failure::invalid(what).code("other_event").into());
        }
        if self.print {
            if ctx.out.terminal {
                ctx.out.line(&String::from_utf8_lossy(&request.body))?;
            } else {
                ctx.out.raw(&request.body)?;
            }
            return ctx.out.flush();
        }
        let id = id.or_else(|| event.event_id().map(|id| id.as_str().to_owned()));
        sheet.one(&output::object(&[
            ("valid", true.into()),
            ("event", event.kind.as_str().into()),
            ("id", id.into()),
            ("timestamp", event.timestamp.to_string().into()),
        ]))
    }

    /// As strict about time as requested.
    fn strict(&self, verifier: Verifier) -> Verifier {
        match self.max_age {
            Some(age) => verifier.require_timestamp(age).with_clock(crate::clock::now),
            None => verifier,
        }
    }

    /// Why the request was rejected. `all` uses the secrets without surrounding space; a signature valid only with such
    /// a secret does not match.
    fn refused(all: &Verifier, given: &Given, request: &Request) -> Stop {
        let refused = all.verify_both(&request.headers, &request.body).err();
        let is_half = refused.is_some() && all.verify(&request.headers, &request.body).is_ok();
        let why = refused.unwrap_or(Error::Mismatch);
        if matches!(why, Error::Missing) {
            let what = match missing(request) {
                Some(name) if request.headers.contains_key(WEBHOOK_SIGNATURE) => {
                    format!("webhook-signature requires the header {name}, which is missing")
                }
                _ => "no signature in the headers".to_owned(),
            };
            let hint = "required: X-Service-Signature, or webhook-signature with webhook-id and webhook-timestamp";
            return Failure::usage(what).code("no_signature").hint(hint).into();
        }
        let found = match why {
            Error::TooOld => None,
            _ => diagnose(given, request),
        };
        let what = match why {
            Error::TooOld => how_far(request),
            why if is_half => format!("{SERVICE_SIGNATURE} is valid, but {WEBHOOK_SIGNATURE} is not: {why}"),
            why => why.to_string(),
        };
        let failure = Failure::new(Exit::CheckFailed, what).code("invalid_signature");
        match found {
            Some(found) => failure.hint(found),
            None => failure,
        }
        .into()
    }

    /// One good signature is enough, and an invalid one beside it is reported.
    fn warn_of_others(&self, ctx: &Context, verifier: &Verifier, request: &Request) {
        for name in [SERVICE_SIGNATURE, WEBHOOK_SIGNATURE] {
            let other = if name == SERVICE_SIGNATURE { WEBHOOK_SIGNATURE } else { SERVICE_SIGNATURE };
            let mut alone = request.headers.clone();
            alone.remove(other);
            if self.max_age.is_none() && alone.contains_key(name) && verifier.verify(&alone, &request.body).is_err() {
                ctx.console.warn(&format!("{other} is valid, but {name} is not"));
            }
        }
    }
}

/// A signature whose time is too far from now, in words.
fn how_far(request: &Request) -> String {
    let text = request.headers.get(WEBHOOK_TIMESTAMP).and_then(|value| value.to_str().ok());
    let seconds: i64 = text.and_then(|text| text.parse().ok()).unwrap_or_default();
    let (at, now) = (Timestamp::from_millis(seconds.saturating_mul(1_000)), crate::clock::now());
    if at > now {
        return format!("the signature is from the future ({at}); check this machine's clock");
    }
    format!("the signature is too old: it was made at {at}, {}", crate::clock::relative(at, now))
}

/// The first missing header of the second signature.
fn missing(request: &Request) -> Option<&'static str> {
    [WEBHOOK_TIMESTAMP, WEBHOOK_ID, WEBHOOK_SIGNATURE].into_iter().find(|name| !request.headers.contains_key(*name))
}
