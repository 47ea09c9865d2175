//! A running import: progress, refused rows, signals, and the summary.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use deeplink_client::bulk::{BulkRun, ResultsWriter, RowOutcome, RowResult, Stopped, Summary};
use deeplink_core::error::ErrorCode;
use futures_util::StreamExt;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::import::flags::Policy;
use crate::import::{Locate, Ready, cannot, fetch, journal_failure, unreadable};
use crate::output::{self, Rows};
use crate::progress::{counted, grouped, rate};
use crate::signals::Signals;

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// Sends the rows, and reports the result.
pub(super) async fn run(
    ctx: &Context,
    ready: Ready,
    policy: &Policy,
    mut signals: Signals,
    print: Option<Rows<'_>>,
) -> Outcome {
    let Ready { checked, progress, name, invalid, locate, rejects, again, reading: _, spent } = ready;
    let total = checked.report().rows;
    let started = {
        let start: Pin<Box<dyn Future<Output = _>>> = Box::pin(checked.start());
        tokio::select! {
            biased;
            exit = signals.next() => return Err(Stop::Exit(exit)),
            started = start => started.map_err(|error| cannot(ctx, &name, &error))?,
        }
    };
    let (printing, resumed) = (print.is_some(), started.is_resumed());
    let mut reporter = RowReporter {
        invalid,
        ctx,
        print,
        locate,
        rejects,
        results: policy.results()?,
        most: policy.max_errors,
        refused: 0,
        taken: 0,
    };
    progress.begin("importing", total);
    let ended = follow(started, &progress, &mut signals, &mut reporter).await;
    progress.end();
    let (summary, signal, broken) = ended?;
    let taken = reporter.taken;
    reporter.finish()?;
    let counts = &summary.counts;
    // Rejected rows may be needed again.
    let is_over = summary.stopped.is_none() && counts.unsent + counts.unknown + counts.rejected == 0;
    if let Some(path) = spent.filter(|_| is_over) {
        fetch::discard(ctx, &path);
    }
    let over = Over { ctx, summary: &summary, signal, name: &name, again: again.as_deref(), printing, resumed, taken };
    match broken {
        Some(stop) => Err(stop),
        None => over.say(),
    }
}

/// Polls the run to its end.
async fn follow(
    mut run: BulkRun,
    progress: &crate::progress::Progress,
    signals: &mut Signals,
    reporter: &mut RowReporter<'_>,
) -> Outcome<(Summary, Option<Exit>, Option<Stop>)> {
    let (watch, mut signal, mut broken) = (run.progress(), None, None);
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            exit = signals.next() => {
                if signal.is_some() {
                    // The second signal stops at once; the journal has everything a resume needs.
                    return Err(Stop::Exit(exit));
                }
                signal = Some(exit);
                run.stop();
                let what = "stopping: waiting up to 10 s for requests in flight; a second signal stops immediately";
                reporter.ctx.console.say(what);
            }
            _ = tick.tick() => {
                let now = watch.get();
                progress.at(now.counts.settled(), now.counts.rows, now.paused);
            }
            outcome = run.next() => {
                let Some(outcome) = outcome else { break };
                if broken.is_none()
                    && let Err(stop) = reporter.row(&outcome)
                {
                    broken = Some(stop);
                    run.stop();
                }
            }
        }
    }
    Ok((run.summary(), signal, broken))
}

/// Reports each row's outcome.
struct RowReporter<'a> {
    ctx: &'a Context,
    /// Where links are printed as they are created.
    print: Option<Rows<'a>>,
    locate: Locate,
    rejects: Option<deeplink_client::bulk::RejectsWriter>,
    results: Option<ResultsWriter>,
    /// Rows that were reported before anything was sent.
    invalid: HashSet<u64>,
    most: usize,
    refused: usize,
    /// Rows with the ID of another link.
    taken: u64,
}

impl RowReporter<'_> {
    fn row(&mut self, outcome: &RowOutcome) -> Outcome {
        if let Some(results) = &mut self.results {
            results.write(outcome).map_err(|error| Failure::file("write", "--results", &error))?;
        }
        if let (Some(rows), Some(url)) = (&mut self.print, outcome.result.url()) {
            rows.push(&output::object(&[("link_id", outcome.id.as_deref().into()), ("url", url.into())]))?;
        }
        if self.invalid.contains(&outcome.at) {
            return Ok(());
        }
        let why = match &outcome.result {
            RowResult::Rejected { code, message } => format!("{message} [{code}]"),
            RowResult::Unknown { message } => format!("{message} [unknown]"),
            _ => return Ok(()),
        };
        if let Some(rejects) = &mut self.rejects {
            rejects.write(outcome.at, &why).map_err(|error| Failure::file("write", "--rejects", &error))?;
        }
        let is_taken = matches!(&outcome.result, RowResult::Rejected { code, .. } if *code == ErrorCode::LinkIdTaken);
        self.taken += u64::from(is_taken);
        self.refused += 1;
        if self.refused <= self.most && !self.ctx.out.json_errors {
            let id = outcome.id.as_deref().map_or_else(String::new, |id| format!("\"{id}\": "));
            self.ctx.console.fault(&format!("{}: {id}{why}", (self.locate)(outcome.line, None)));
        }
        Ok(())
    }

    fn finish(self) -> Outcome {
        let hidden = self.refused.saturating_sub(self.most);
        if hidden > 0 && !self.ctx.out.json_errors {
            let all = if self.rejects.is_some() { "" } else { "; --rejects FILE collects all" };
            self.ctx.console.fault(&format!("… and {} more{all}", grouped(hidden as u64)));
        }
        if let Some(results) = self.results {
            results.finish().map_err(|error| Failure::file("write", "--results", &error))?;
        }
        if let Some(rejects) = self.rejects {
            rejects.finish().map_err(|error| Failure::file("write", "--rejects", &error))?;
        }
        if let Some(rows) = self.print {
            rows.finish(None)?;
        }
        Ok(())
    }
}

/// The end of a run.
struct Over<'a> {
    ctx: &'a Context,
    summary: &'a Summary,
    signal: Option<Exit>,
    name: &'a str,
    again: Option<&'a str>,
    /// The links are printed on stdout.
    printing: bool,
    /// It resumed an earlier run, so the counts give no speed.
    resumed: bool,
    /// Rows with the ID of another link.
    taken: u64,
}

impl Over<'_> {
    fn say(&self) -> Outcome {
        let ctx = self.ctx;
        if ctx.out.format.is_json() && !self.printing {
            ctx.out.json(&self.json())?;
            ctx.out.flush()?;
        }
        self.text();
        match self.failure() {
            None => Ok(()),
            Some(Stop::Failed(mut failure)) => {
                if failure.hint.is_none() || self.again.is_some() {
                    failure.hint = self.next_step().or(failure.hint);
                }
                Err(Stop::Failed(failure))
            }
            Some(stop) => {
                if let Some(step) = self.next_step() {
                    ctx.console.say(&step);
                }
                Err(stop)
            }
        }
    }

    /// The record of `-o json`, in the order in which it is documented.
    fn json(&self) -> String {
        let counts = self.summary.counts;
        output::object(&[
            ("run", self.summary.run.as_str().into()),
            ("rows", counts.rows.into()),
            ("created", counts.created.into()),
            ("existed", counts.existed.into()),
            ("updated", counts.updated.into()),
            ("skipped", counts.skipped.into()),
            ("rejected", counts.rejected.into()),
            ("unknown", counts.unknown.into()),
            ("unsent", counts.unsent.into()),
            ("requests", counts.requests.into()),
            ("retries", counts.retries.into()),
            ("seconds", ((self.summary.elapsed.as_secs_f64() * 1_000.0).round() / 1_000.0).into()),
        ])
    }

    fn text(&self) {
        let (counts, console) = (self.summary.counts, &self.ctx.console);
        let seconds = self.summary.elapsed.as_secs_f64();
        let pace = grouped(rate(counts.settled(), self.summary.elapsed));
        let speed = if self.resumed { String::new() } else { format!(" ({pace}/s)") };
        let rows = counted(counts.rows, "row");
        let what = if counts.unsent > 0 {
            format!("stopped: {} of {rows}", grouped(counts.settled()))
        } else {
            format!("done: {rows}")
        };
        console.say(&format!("{what} of {} in {seconds:.1} s{speed}", self.name));
        for (word, count) in [
            ("created", counts.created),
            ("existed", counts.existed),
            ("updated", counts.updated),
            ("skipped", counts.skipped),
            ("rejected", counts.rejected),
            ("unknown", counts.unknown),
            ("unsent", counts.unsent),
        ] {
            if count > 0 {
                console.say(&format!("  {word:<9} {:>9}", grouped(count)));
            }
        }
        let again = if counts.retries > 0 { format!(", {} retried", grouped(counts.retries)) } else { String::new() };
        console.say(&format!("  in {}{again}", counted(counts.requests, "request")));
    }

    fn failure(&self) -> Option<Stop> {
        let (ctx, counts) = (self.ctx, self.summary.counts);
        if let Some(exit) = self.signal {
            return Some(Stop::Exit(exit));
        }
        match &self.summary.stopped {
            Some(Stopped::Refused(error) | Stopped::RateLimited(error) | Stopped::Unavailable(error)) => {
                return Some(ctx.stop(error));
            }
            Some(Stopped::Source(error)) => return Some(unreadable(self.name, error).into()),
            Some(Stopped::Journal(error)) => return Some(journal_failure(error)),
            _ => {}
        }
        let bad = counts.rejected + counts.unknown + counts.unsent;
        if bad == 0 {
            return None;
        }
        let mut parts = Vec::new();
        for (count, word) in [(counts.rejected, "rejected"), (counts.unknown, "unknown"), (counts.unsent, "not sent")] {
            if count > 0 {
                parts.push(format!("{} {word}", grouped(count)));
            }
        }
        let what = format!(
            "not all rows in {} were imported: {}; links already created are kept",
            self.name,
            parts.join(", ")
        );
        Some(Failure::new(Exit::Partial, what).into())
    }

    fn next_step(&self) -> Option<String> {
        let counts = self.summary.counts;
        let left = counts.unsent + counts.unknown > 0;
        let again = self.again.filter(|_| left).map(|command| format!("resume with: {command}"));
        if self.taken == 0 {
            return again;
        }
        let taken = "IDs in use: --on-conflict skip keeps the existing links, and --on-conflict update changes them";
        Some(again.map_or_else(|| taken.to_owned(), |again| format!("{taken}; {again}")))
    }
}
