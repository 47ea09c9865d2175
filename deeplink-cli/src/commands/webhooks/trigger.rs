//! `dl webhooks trigger`: one event to an endpoint, as the service would send it.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use deeplink_client::receiver::{Answer, Fault, Post, Target};
use deeplink_client::webhook::Verifier;
use deeplink_core::event::{Event, EventKind};
use deeplink_core::webhook::{ATTEMPT_TIMEOUT_MILLIS, RETRY_DELAYS_SECS};
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

use super::kinds;
use super::sample::Made;
use super::secrets::SecretFile;
use super::sign::new_id;
use crate::clock::now;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::output::{self, Rows};

/// What to corrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tamper {
    /// The body, after it was signed
    Body,
    /// The signatures
    Signature,
}

/// Sign a sample event and post it to an endpoint
#[derive(Debug, Args)]
#[command(after_help = help(
    "Exits with 0 if the endpoint responds with 2xx or, with --tamper, 4xx. -v shows its response. Each attempt is \
     limited to 10 seconds, like those of the service; --timeout limits all of them together and exits with 12. \
     Redirects are not followed. SSL_CERT_FILE points to the CA for a self-signed certificate.",
    &[
    "dl webhooks trigger conversion --to http://localhost:3000/hook --secret-file s.txt",
    "dl webhooks trigger click --to http://localhost:3000/hook --secret-file s.txt --repeat 2",
]
))]
pub(crate) struct Trigger {
    /// Kind of event: click, attribute, identify or conversion; with --body, taken from the body
    #[arg(value_name = "KIND", value_parser = kinds::parse, required_unless_present = "body")]
    kind: Option<EventKind>,
    /// URL to post it to: https://, or http:// on this machine
    #[arg(long, value_name = "URL", value_parser = given::target)]
    to: Target,
    #[command(flatten)]
    secret: SecretFile,
    #[command(flatten)]
    made: Made,
    /// File with the exact bytes of the body to send instead of a sample, or - for stdin
    #[arg(long, value_name = "FILE|-", conflicts_with_all = ["legacy", "set", "seed"])]
    body: Option<PathBuf>,
    /// Post the same event this many times, to test how duplicates are handled
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Retry until accepted, like the service: after 0, 1, 5 and 25 seconds
    #[arg(long, conflicts_with = "repeat")]
    simulate_retries: bool,
    /// Tamper with the request to check that the endpoint rejects it: body or signature
    #[arg(long, value_name = "WHAT", conflicts_with = "simulate_retries", hide_possible_values = true)]
    tamper: Option<Tamper>,
}

impl Trigger {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ATTEMPTS)?;
        kinds::check(&self.kind)?;
        let signer = self.secret.read(ctx).await?.verifier()?;
        let body = self.body(ctx).await?;
        let id = new_id();
        if ctx.global.dry_run {
            return self.show_only(ctx, &signer, &body, &id);
        }
        let post = Post::new(Duration::from_millis(ATTEMPT_TIMEOUT_MILLIS), &[]).map_err(|error| ctx.stop(&error))?;
        let end = ctx.limit_set().map(|limit| Instant::now() + limit);
        let mut rows = sheet.several();
        let tries =
            if self.simulate_retries { 1 + RETRY_DELAYS_SECS.len() } else { usize::try_from(self.repeat).unwrap_or(1) };
        let mut worst: Option<Failure> = None;
        for number in 1..=tries {
            let wait =
                number.checked_sub(2).filter(|_| self.simulate_retries).and_then(|nth| RETRY_DELAYS_SECS.get(nth));
            let wait = Duration::from_secs(wait.map_or(0, |secs| secs.unsigned_abs()));
            let waited = within(end, tokio::time::sleep(wait)).await;
            let (headers, body) = self.attempt(&signer, &body, &id)?;
            let (start, attempt) = (Instant::now(), async { self.ask(ctx, &post, &headers, &body).await });
            let answer = if waited.is_some() { within(end, attempt).await } else { None };
            let Some(answer) = answer else {
                if waited.is_some() {
                    let late = Try { status: None, took: start.elapsed(), error: Some("no response in time") };
                    show(&mut rows, number, &id, &late)?;
                }
                rows.finish(None)?;
                let what = format!("timed out (--timeout) in attempt {number} of {tries}");
                return Err(Failure::new(Exit::Pending, what).code("timeout").into());
            };
            show(&mut rows, number, &id, &Try::of(&answer))?;
            match self.judge(&answer) {
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

    /// The body to post: a sample event, or a file. Warns if it is another kind of event, or not an event.
    async fn body(&self, ctx: &Context) -> Outcome<Bytes> {
        let Some(path) = &self.body else {
            let kind = self.kind.as_ref().unwrap_or(&EventKind::Click);
            return Ok(self.made.body(ctx, kind)?.into());
        };
        let body = Bytes::from(ctx.given_bytes(path, "--body").await?);
        match (Event::parse(&body), &self.kind) {
            (Err(why), _) => ctx.console.warn(&format!("--body: {why}")),
            (Ok(event), Some(kind)) if event.kind != *kind => {
                ctx.console.warn(&format!("--body contains a {} event, not {kind}", event.kind));
            }
            _ => {}
        }
        Ok(body)
    }

    /// Prints what would be posted.
    fn show_only(&self, ctx: &Context, signer: &Verifier, body: &Bytes, id: &str) -> Outcome {
        let (headers, body) = self.attempt(signer, body, id)?;
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()));
        let text = String::from_utf8_lossy(&body);
        if ctx.out.format.is_json() {
            let headers: serde_json::Map<_, _> = headers.map(|(name, value)| (name.to_owned(), value.into())).collect();
            ctx.out.json(&output::object(&[
                ("method", "POST".into()),
                ("url", self.to.to_string().into()),
                ("headers", headers.into()),
                ("body", text.into()),
            ]))?;
        } else {
            ctx.out.line(&format!("POST {}", self.to))?;
            for (name, value) in headers {
                ctx.out.line(&format!("{name}: {value}"))?;
            }
            ctx.out.line(&format!("\n{text}"))?;
        }
        ctx.console.note("--dry-run: nothing was sent");
        ctx.out.flush()
    }

    /// Posts once; `-v` shows request and response.
    async fn ask(&self, ctx: &Context, post: &Post, headers: &HeaderMap, body: &Bytes) -> PostResult {
        let console = &ctx.console;
        if console.verbosity() > 0 {
            console.trace(&format!("> POST {}", self.to));
        }
        if console.verbosity() > 1 {
            for (name, value) in headers {
                console.trace(&format!("> {name}: {}", String::from_utf8_lossy(value.as_bytes())));
            }
        }
        let result = post.ask(&self.to, headers, body).await.map(|(answer, said)| (answer, one_line(&said)));
        if console.verbosity() > 0 {
            match &result {
                Ok((answer, said)) => {
                    console.trace(&format!("< {} in {} ms", answer.status, answer.took.as_millis()));
                    if !said.is_empty() {
                        console.trace(&format!("< {said}"));
                    }
                }
                Err(fault) => console.trace(&format!("< {} after {} ms", fault.text, fault.took.as_millis())),
            }
        }
        result
    }

    /// The headers and the body of an attempt, which is signed again with the present time.
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

    /// The failure for a response that a correct endpoint would not give.
    fn judge(&self, result: &PostResult) -> Option<Failure> {
        let (answer, said) = match result {
            Ok(answered) => answered,
            Err(fault) => {
                let what = format!("no response from {}: {}", self.to, fault.text);
                let failure = Failure::new(Exit::Unavailable, what).code("no_answer");
                let is_untrusted = fault.text.contains("certificate");
                return Some(if is_untrusted {
                    failure.hint("set SSL_CERT_FILE to the file with its CA")
                } else {
                    failure
                });
            }
        };
        let failure = match (self.tamper, answer.status) {
            (None, 200..=299) | (Some(_), 400..=499) => return None,
            (Some(_), 200..=299) => {
                let what = "the endpoint accepted a request that the service did not sign";
                return Some(Failure::new(Exit::CheckFailed, what).code("tampered_event_taken"));
            }
            (_, status @ 500..) => Failure::new(Exit::Unavailable, format!("the endpoint responded with {status}")),
            (_, status) => Failure::new(Exit::Failure, format!("the endpoint responded with {status}")),
        };
        let failure = failure.code("refused");
        Some(if said.is_empty() { failure } else { failure.hint(format!("its response: {said}")) })
    }
}

/// The answer and the beginning of its body, or why there was none.
type PostResult = Result<(Answer, String), Fault>;

/// The beginning of an answer, escaped and on one line.
fn one_line(said: &[u8]) -> String {
    escape::one_line(String::from_utf8_lossy(said).trim()).into_owned()
}

/// The result of this, or `None` once the time limit, if any, is reached.
async fn within<T>(end: Option<Instant>, what: impl Future<Output = T>) -> Option<T> {
    match end {
        Some(end) => tokio::time::timeout_at(end, what).await.ok(),
        None => Some(what.await),
    }
}

/// Different text of the same form. There may be a signature for each secret, and none of them stays valid.
fn spoilt(signatures: &str) -> String {
    signatures.split(' ').map(spoilt_one).collect::<Vec<_>>().join(" ")
}

/// The same with a different letter or digit near its end.
fn spoilt_one(signature: &str) -> String {
    let at = signature.trim_end_matches('=').len().saturating_sub(2);
    let other = if signature[at..].starts_with('0') { "1" } else { "0" };
    format!("{}{other}{}", &signature[..at], &signature[at + 1..])
}

/// An attempt for display.
struct Try<'a> {
    status: Option<u16>,
    took: Duration,
    error: Option<&'a str>,
}

impl<'a> Try<'a> {
    fn of(result: &'a PostResult) -> Self {
        match result {
            Ok((answer, _)) => Self { status: Some(answer.status), took: answer.took, error: None },
            Err(fault) => Self { status: None, took: fault.took, error: Some(&fault.text) },
        }
    }
}

fn show(rows: &mut Rows<'_>, number: usize, id: &str, made: &Try<'_>) -> Outcome {
    rows.push(&output::object(&[
        ("attempt", number.into()),
        ("id", id.into()),
        ("status", made.status.into()),
        ("duration_ms", u64::try_from(made.took.as_millis()).unwrap_or(u64::MAX).into()),
        ("error", made.error.into()),
    ]))?;
    rows.page()
}
