//! `dl domains verify`.

use std::time::{Duration, Instant};

use clap::Args;
use deeplink_client::{Client, DomainVerification};
use deeplink_core::domain::DomainName;

use crate::clock::parse_duration;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::output::{self, Format};

/// Wait before the second check; each later wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(15);
/// Longest time between two checks.
const MAX_WAIT: Duration = Duration::from_mins(2);

/// Verify a domain by checking its DNS records
#[derive(Debug, Args)]
#[command(after_help = help(
    "Exits with 12 if the domain is not verified yet. With --wait, checks again after 15 s and then at increasing \
     intervals, up to 2 minutes.",
    &[
    "dl domains verify go.example.com",
    "dl domains verify go.example.com --wait 30m && dl doctor",
]
))]
pub(crate) struct Verify {
    /// Domain name
    domain: String,
    /// Keep checking for up to this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    wait: Option<Duration>,
}

impl Verify {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::VERIFICATIONS)?;
        let name = given::domain(&self.domain)?;
        // People read the reason in the error, next to what to write.
        let is_told = ctx.out.format == Format::Table && sheet.fields.is_none();
        let mut search = Search { ctx, client: ctx.client().await?, name, reported: None };
        let end = Instant::now() + self.wait.unwrap_or_default();
        let mut wait = FIRST_WAIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let last = left.is_zero();
            let why = match search.look().await {
                Ok((found, raw)) if found.verified => return sheet.one(&raw),
                Ok((found, raw)) => {
                    if is_told {
                        search.report(&found).await;
                    }
                    if last {
                        if !is_told {
                            sheet.one(&raw)?;
                        }
                        return Err(self.pending(&search.name, &found).into());
                    }
                    reason(&found)
                }
                // The service may be briefly unavailable; the next check decides.
                Err(Stop::Failed(failure)) if failure.retryable && !last => failure.message,
                Err(stop) => return Err(stop),
            };
            let pause = wait.min(left);
            ctx.console.say(&format!(
                "{} is not verified yet: {why}; checking again in {} s, for up to {} more",
                search.name,
                pause.as_secs().max(1),
                minutes(left)
            ));
            tokio::time::sleep(pause).await;
            wait = (wait * 2).min(MAX_WAIT);
        }
    }

    fn pending(&self, name: &DomainName, found: &DomainVerification) -> Failure {
        let hint = match self.wait {
            None => format!("dl domains verify {name} --wait 30m keeps checking"),
            Some(_) => {
                "dl domains list --fields domain,txt_record,verification_token shows the required DNS record".into()
            }
        };
        let what = format!("{name} is not verified: {}", reason(found));
        Failure::new(Exit::Pending, what).code("domain_not_verified").hint(hint)
    }
}

/// A claim and what was reported about it.
struct Search<'a> {
    ctx: &'a Context,
    client: Client,
    name: DomainName,
    /// The values that were reported.
    reported: Option<Vec<String>>,
}

impl Search<'_> {
    async fn look(&self) -> Outcome<(DomainVerification, String)> {
        let call = self.client.domains().verify(&self.name).full();
        let found = call.await.map_err(|error| self.ctx.stop_among(&error, "domains"))?;
        Ok((found.value, String::from_utf8_lossy(&found.raw).into_owned()))
    }

    /// Reports what DNS has and should have, when it changed.
    async fn report(&mut self, found: &DomainVerification) {
        if self.ctx.console.quiet() || self.reported.as_ref() == Some(&found.txt_found) {
            return;
        }
        let is_first = self.reported.replace(found.txt_found.clone()).is_none();
        let record = self.name.txt_record();
        if !found.txt_found.is_empty() {
            let values: Vec<_> = found.txt_found.iter().map(|value| format!("  {}", escape::one_line(value))).collect();
            self.ctx.console.say(&format!("\ncurrent TXT values at {record}:\n\n{}", values.join("\n")));
        }
        if is_first && let Some(token) = self.token().await {
            let wanted = super::record("TXT", &record, &token);
            self.ctx.console.say(&format!("\nrequired DNS record (name, then value):\n\n{wanted}"));
        }
    }

    /// The value that proves the claim. Without it there is less to report, but that is no failure.
    async fn token(&self) -> Option<String> {
        let domains = self.client.domains().list().await.ok()?;
        domains.into_iter().find(|domain| domain.domain == self.name.as_str())?.verification_token
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
