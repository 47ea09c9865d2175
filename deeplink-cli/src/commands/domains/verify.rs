//! `dl domains verify`.

use std::time::{Duration, Instant};

use clap::Args;
use deeplink_client::{Client, DomainVerification};

use crate::cli::help;
use crate::clock::parse_duration;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::output::{self, Format};

/// Before the second look; each later one waits twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(15);
/// Longest time between two looks.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// Look for the proof of a claim in DNS
#[derive(Debug, Args)]
#[command(after_help = help(
    "Exits with 12 while the TXT record is not there. With --wait it looks again after 15 s, then at longer intervals, \
     up to 2 minutes.",
    &[
    "dl domains verify go.example.com",
    "dl domains verify go.example.com --wait 30m && dl doctor",
]
))]
pub(crate) struct Verify {
    /// Name of the domain
    domain: String,
    /// Go on looking for so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
}

impl Verify {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::VERIFICATIONS)?;
        let client = ctx.client()?;
        let end = Instant::now() + self.wait.unwrap_or_default();
        let mut wait = FIRST_WAIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let last = left.is_zero();
            let why = match self.look(ctx, &client).await {
                Ok((found, raw)) if found.verified => return sheet.one(&raw),
                Ok((found, raw)) if last => {
                    // People read the reason in the error.
                    if ctx.out.format != Format::Table || sheet.fields.is_some() {
                        sheet.one(&raw)?;
                    }
                    return Err(self.pending(&found).into());
                }
                Ok((found, _)) => reason(&found),
                // The service may be away for a moment; the next look decides.
                Err(Stop::Failed(failure)) if failure.retryable && !last => failure.message,
                Err(stop) => return Err(stop),
            };
            let pause = wait.min(left);
            ctx.console.say(&format!(
                "{} is not verified yet: {why}; looking again in {} s, for another {}",
                self.domain,
                pause.as_secs().max(1),
                minutes(left)
            ));
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn look(&self, ctx: &Context, client: &Client) -> Outcome<(DomainVerification, String)> {
        let found =
            client.domains().verify(&self.domain).full().await.map_err(|error| ctx.stop_among(&error, "domains"))?;
        Ok((found.value, String::from_utf8_lossy(&found.raw).into_owned()))
    }

    fn pending(&self, found: &DomainVerification) -> Failure {
        let hint = match self.wait {
            None => format!("dl domains verify {} --wait 30m goes on looking", self.domain),
            Some(_) => "dl domains list --fields domain,txt_record,verification_token shows what DNS should say".into(),
        };
        let what = format!("{} is not verified: {}", self.domain, reason(found));
        Failure::new(Exit::Pending, what).code("domain_not_verified").hint(hint)
    }
}

fn reason(found: &DomainVerification) -> String {
    found.reason.clone().unwrap_or_else(|| "the TXT record was not found".to_owned())
}

fn minutes(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..100 => format!("{} s", seconds.max(1)),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}
