//! `dl webhooks listen`: a receiver on this machine, or the event stream instead.

mod local;
mod save;
mod show;
mod stream;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use deeplink_client::receiver::{FORWARD_LIMIT, Post, Receipt, Serving, Target};
use deeplink_client::webhook::Error;
use deeplink_core::event::EventKind;
use tokio::sync::mpsc;

use super::kinds;
use super::secrets::SecretFile;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::signals::Signals;

use self::save::Folder;
use self::show::Lines;

/// Receive events on this machine, verify them, and forward them to a local server
#[derive(Debug, Args)]
#[command(after_help = help(
    "Unsigned requests get a 401 response and are not forwarded. Runs until Ctrl-C; --timeout stops earlier, with \
     exit code 12.\n\nWith --stream, events are streamed from the service, so no public URL is needed. They are \
     signed with a secret generated for this session, which is shown after connecting, unless --secret-file \
     specifies another.",
    &[
    "dl webhooks listen --forward-to http://localhost:3000/hook --secret-file s.txt",
    "dl webhooks listen --stream --forward-to http://localhost:3000/hook --secret-file s.txt",
]
))]
pub(crate) struct Listen {
    #[command(flatten)]
    secret: SecretFile,
    /// Port to listen on; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 4242, conflicts_with = "stream")]
    port: u16,
    /// IP address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", conflicts_with = "stream", value_parser = host)]
    host: IpAddr,
    /// URL to forward events to: https://, or http:// on this machine
    #[arg(long, value_name = "URL", value_parser = given::target)]
    forward_to: Option<Target>,
    /// Stop after this many events, not counting duplicates
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Exit on the first request that is not a signed event (code 11) or that the server rejects (code 9)
    #[arg(long)]
    strict: bool,
    /// Directory to save the body and headers of each signed request in
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Stream events from the service instead of listening
    #[arg(long)]
    stream: bool,
    /// With --stream, only events of these kinds, separated by commas
    #[arg(long, value_name = "KIND", value_parser = kinds::parse, value_delimiter = ',', requires = "stream")]
    event: Vec<EventKind>,
}

/// An address of this machine; `localhost` is its IPv4 address.
fn host(text: &str) -> Result<IpAddr, String> {
    let address = if text == "localhost" { "127.0.0.1" } else { text };
    address.parse().map_err(|_| "expected an IP address of this machine, such as 127.0.0.1, or localhost".to_owned())
}

/// The totals of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    valid: u64,
    repeated: u64,
    invalid: u64,
    taken: u64,
    refused: u64,
    dropped: u64,
}

impl Tally {
    fn add(&mut self, receipt: &Receipt) {
        match (receipt.is_valid(), receipt.is_repeated) {
            (false, _) => self.invalid += 1,
            (true, true) => self.repeated += 1,
            (true, false) => self.valid += 1,
        }
        match &receipt.forwarded {
            Some(Ok(answer)) if answer.is_success() => self.taken += 1,
            Some(_) => self.refused += 1,
            None => {}
        }
    }

    fn summary(&self) -> String {
        let mut parts = vec![format!("{} valid", self.valid)];
        for (count, what) in [
            (self.repeated, "repeated"),
            (self.invalid, "invalid"),
            (self.taken, "accepted by the server"),
            (self.refused, "not accepted by the server"),
            (self.dropped, "dropped"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        parts.join(", ")
    }
}

impl Listen {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let mut signals = Signals::listen().map_err(|error| Failure::file("listen for", "signals", &error))?;
        let folder = self.save.as_deref().map(Folder::open).transpose()?;
        // There is nothing to stop until it runs.
        let mut source = tokio::select! {
            biased;
            exit = signals.next() => return Err(Stop::Exit(exit)),
            started = self.start(ctx) => started?,
        };
        let outcome = source.follow(ctx, &self, folder.as_ref(), &mut signals).await;
        source.end(&mut signals).await;
        outcome
    }

    async fn start(&self, ctx: &Context) -> Outcome<Source> {
        // A bad --fields fails before anything runs.
        ctx.out.sheet(&crate::output::RECEIPTS)?;
        kinds::check(&self.event)?;
        if self.stream { stream::start(self, ctx).await } else { local::start(self, ctx).await }
    }

    /// With `--strict`, it ends at the first request that is not a signed event or that the program does not accept.
    fn judge(&self, receipt: &Receipt) -> Outcome {
        let check_failed = |what: &str| Failure::new(Exit::CheckFailed, what);
        let failure = match (&receipt.event, &receipt.forwarded) {
            (Err(_), _) if receipt.refused.is_some() => {
                let why = receipt.refused.unwrap_or_default();
                check_failed(&format!("a request is not an event from the service: {why}")).code("invalid_request")
            }
            (Err(Error::Parse(_)), _) => check_failed("a signed request is not an event").code("invalid_event"),
            (Err(_), _) => check_failed("a request was not signed by the service").code("invalid_signature"),
            (Ok(_), Some(Err(fault))) => {
                Failure::new(Exit::Unavailable, format!("no response from the server: {}", fault.text))
                    .code("no_answer")
            }
            (Ok(_), Some(Ok(answer))) if !answer.is_success() => {
                Failure::new(Exit::Unavailable, format!("the server responded with {}", answer.status)).code("refused")
            }
            (Ok(_), _) => return Ok(()),
        };
        if self.strict { Err(failure.into()) } else { Ok(()) }
    }

    fn forward(&self, ctx: &Context) -> Outcome<Option<(Post, Target)>> {
        let Some(to) = &self.forward_to else { return Ok(None) };
        let post = Post::new(FORWARD_LIMIT, &[]).map_err(|error| ctx.stop(&error))?;
        Ok(Some((post, to.clone())))
    }
}

/// Counts, saves and prints receipts.
struct Recorder<'a> {
    listen: &'a Listen,
    folder: Option<&'a Folder>,
    lines: Lines<'a>,
    tally: Tally,
}

impl Recorder<'_> {
    /// Counts, saves and shows a receipt; returns the outcome if this receipt ends the run.
    fn take(&mut self, receipt: &Receipt) -> Option<Outcome> {
        self.tally.add(receipt);
        let kept = self.folder.filter(|_| receipt.is_signed()).map_or(Ok(()), |folder| folder.keep(receipt));
        let judged = kept.and(self.lines.push(receipt)).and(self.listen.judge(receipt));
        let is_enough = self.listen.count.is_some_and(|count| self.tally.valid >= count);
        (judged.is_err() || is_enough).then_some(judged)
    }
}

/// The source of receipts.
struct Source {
    receipts: mpsc::Receiver<Receipt>,
    /// Notices of the stream's reader.
    notices: Option<mpsc::Receiver<stream::Notice>>,
    /// The server, if it listens.
    serving: Option<Serving>,
}

impl Source {
    async fn follow(
        &mut self,
        ctx: &Context,
        listen: &Listen,
        folder: Option<&Folder>,
        signals: &mut Signals,
    ) -> Outcome {
        let sheet = ctx.out.sheet(&crate::output::RECEIPTS)?;
        let lines = Lines::start(ctx, &sheet, listen.forward_to.is_some());
        let mut recorder = Recorder { listen, folder, lines, tally: Tally::default() };
        let deadline = async {
            match ctx.global.timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(deadline);
        // Why the stream ended; earlier events are forwarded first.
        let mut refusal = Ok(());
        let outcome = loop {
            let word = async {
                match &mut self.notices {
                    Some(notices) => notices.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                exit = signals.next() => {
                    // Report the requests that were already answered before ending.
                    let mut waiting = std::iter::from_fn(|| self.receipts.try_recv().ok());
                    break waiting.find_map(|receipt| recorder.take(&receipt)).unwrap_or(Err(Stop::Exit(exit)));
                }
                receipt = self.receipts.recv() => {
                    let Some(receipt) = receipt else { break refusal.and(self.last_word(ctx, &mut recorder.tally).await) };
                    if let Some(outcome) = recorder.take(&receipt) {
                        break outcome;
                    }
                }
                () = &mut deadline => {
                    let wanted = listen.count.map_or_else(String::new, |count| format!(" of {count}"));
                    let what = format!("{}{wanted} events arrived in time", recorder.tally.valid);
                    break Err(Failure::new(Exit::Pending, what).code("timeout").into());
                }
                word = word => match word {
                    Some(stream::Notice::Dropped(dropped)) => recorder.tally.dropped = dropped,
                    Some(stream::Notice::Ended(error)) => refusal = Err(ctx.stop(&error)),
                    None => self.notices = None,
                },
            }
        };
        let Recorder { lines, tally, .. } = recorder;
        let finished = lines.finish();
        // A listener that never started has no totals.
        if tally != Tally::default() || !matches!(outcome, Err(Stop::Failed(_))) {
            ctx.console.say(&tally.summary());
        }
        outcome.and(finished)
    }

    /// Waits until requests in progress are answered: the program may have accepted them, and the sender would repeat them. A
    /// signal ends the wait.
    async fn end(mut self, signals: &mut Signals) {
        self.receipts.close();
        if let Some(serving) = self.serving {
            tokio::select! {
                biased;
                _ = signals.next() => {}
                () = serving.ended() => {}
            }
        }
    }

    /// Why there are no more receipts: the reader of the stream has ended.
    async fn last_word(&mut self, ctx: &Context, tally: &mut Tally) -> Outcome {
        let Some(notices) = &mut self.notices else { return Ok(()) };
        while let Some(word) = notices.recv().await {
            match word {
                stream::Notice::Dropped(dropped) => tally.dropped = dropped,
                stream::Notice::Ended(error) => return Err(ctx.stop(&error)),
            }
        }
        Ok(())
    }
}
