//! `dl webhooks trigger`: one event to a receiver, as the service would send it.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use deeplink_client::receiver::{Answer, Fault, Post, Target};
use deeplink_client::webhook::Verifier;
use deeplink_core::event::EventKind;
use deeplink_core::webhook::{ATTEMPT_MILLIS, WAITS_MILLIS};
use http::{HeaderMap, HeaderValue};

use super::kinds;
use super::sample::Made;
use super::secrets::SecretFile;
use super::sign::new_id;
use crate::cli::help;
use crate::clock::now;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::output::{self, Rows};

/// What is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tamper {
    /// The body, after it was signed
    Body,
    /// The signatures
    Signature,
}

/// Sign a made-up event and post it to a receiver
#[derive(Debug, Args)]
#[command(after_help = help(
    "Ends with 0 if the receiver answers 2xx; with --tamper, if it answers 4xx. Redirects are not followed.",
    &[
    "dl webhooks trigger conversion --to http://localhost:3000/hook --secret-file s.txt",
    "dl webhooks trigger click --to http://localhost:3000/hook --secret-file s.txt --repeat 2",
]
))]
pub(crate) struct Trigger {
    /// Kind of the event: click, attribute, identify or conversion
    #[arg(value_name = "KIND", value_parser = kinds::parse)]
    kind: EventKind,
    /// Where to post it: https://, or http:// to this machine
    #[arg(long, value_name = "URL")]
    to: Target,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    made: Made,
    /// File with the body, byte for byte, in place of a made-up one; or - for stdin
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["legacy", "set", "seed"])]
    body: Option<PathBuf>,
    /// Post the same event so many times, as the service may
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Try again as the service does until it is taken: after 0, 1, 5 and 25 seconds
    #[arg(long, conflicts_with = "repeat")]
    simulate_retries: bool,
    /// Break the body or the signature on purpose, to see that the receiver notices
    #[arg(long, value_name = "WHAT", conflicts_with = "simulate_retries")]
    tamper: Option<Tamper>,
}

impl Trigger {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ATTEMPTS)?;
        let signer = self.secret.read(ctx).await?.verifier()?;
        let body = match &self.body {
            Some(path) => Bytes::from(ctx.given_bytes(path, "--body").await?),
            None => Bytes::from(self.made.body(&self.kind)?),
        };
        if ctx.global.dry_run {
            ctx.out.line(&format!("POST {}", self.to))?;
            ctx.out.line(&String::from_utf8_lossy(&body))?;
            ctx.console.note("--dry-run: nothing was sent");
            return ctx.out.flush();
        }
        let post = Post::new(Duration::from_millis(ATTEMPT_MILLIS), &[]).map_err(|error| ctx.stop(&error))?;
        let id = new_id();
        let mut rows = sheet.several();
        let tries = if self.simulate_retries { WAITS_MILLIS.len() } else { usize::try_from(self.repeat).unwrap_or(1) };
        let mut worst: Option<Failure> = None;
        for number in 1..=tries {
            let wait = WAITS_MILLIS.get(number - 1).filter(|_| self.simulate_retries).copied().unwrap_or_default();
            tokio::time::sleep(Duration::from_millis(wait.unsigned_abs())).await;
            let (headers, body) = self.attempt(&signer, &body, &id)?;
            let answer = post.send(&self.to, &headers, &body).await;
            show(&mut rows, number, &id, &answer)?;
            let judged = self.judge(&answer);
            match judged {
                None if self.simulate_retries => {
                    worst = None;
                    break;
                }
                None => {}
                Some(failure) => worst = worst.or(Some(failure)),
            }
        }
        rows.finish(None)?;
        worst.map_or(Ok(()), |failure| Err(Stop::from(failure)))
    }

    /// The headers and the body of an attempt, which is signed anew: its time is now.
    fn attempt(&self, signer: &Verifier, body: &Bytes, id: &str) -> Outcome<(HeaderMap, Bytes)> {
        let wrong = || Failure::invalid("the event cannot be signed");
        let mut headers = signer.sign(body, id, now()).map_err(|_| wrong())?;
        let mut body = body.clone();
        match self.tamper {
            None => {}
            Some(Tamper::Body) => body = [&body[..], b" "].concat().into(),
            Some(Tamper::Signature) => {
                for (name, value) in &mut headers {
                    if name.as_str().ends_with("signature") {
                        *value =
                            HeaderValue::from_str(&spoilt(value.to_str().unwrap_or_default())).map_err(|_| wrong())?;
                    }
                }
            }
        }
        Ok((headers, body))
    }

    /// What is wrong with an answer that no good receiver gives.
    fn judge(&self, answer: &Result<Answer, Fault>) -> Option<Failure> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(fault) => {
                let what = format!("no answer from {}: {}", self.to, fault.text);
                return Some(Failure::new(Exit::Unavailable, what).code("no_answer"));
            }
        };
        match (self.tamper, answer.status) {
            (None, 200..=299) | (Some(_), 400..=499) => None,
            (Some(_), 200..=299) => {
                let what = "the receiver took what the service did not sign";
                Some(Failure::new(Exit::CheckFailed, what).code("tampered_event_taken"))
            }
            (_, status @ 500..) => {
                Some(Failure::new(Exit::Unavailable, format!("the receiver answered {status}")).code("refused"))
            }
            (_, status) => Some(Failure::new(Exit::Failure, format!("the receiver answered {status}")).code("refused")),
        }
    }
}

/// Another text of the same form. There may be a signature for each secret, and none of them stays good.
fn spoilt(signatures: &str) -> String {
    signatures.split(' ').map(spoilt_one).collect::<Vec<_>>().join(" ")
}

/// The same with another letter or digit near its end.
fn spoilt_one(signature: &str) -> String {
    let at = signature.trim_end_matches('=').len().saturating_sub(2);
    let other = if signature[at..].starts_with('0') { "1" } else { "0" };
    format!("{}{other}{}", &signature[..at], &signature[at + 1..])
}

fn show(rows: &mut Rows<'_>, number: usize, id: &str, answer: &Result<Answer, Fault>) -> Outcome {
    let (status, took, error) = match answer {
        Ok(answer) => (Some(answer.status), answer.took, None),
        Err(fault) => (None, fault.took, Some(fault.text.as_str())),
    };
    rows.push(&output::object(&[
        ("attempt", number.into()),
        ("id", id.into()),
        ("status", status.into()),
        ("duration_ms", u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into()),
        ("error", error.into()),
    ]))?;
    rows.page()
}
