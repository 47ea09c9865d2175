//! Several ids at once: all are tried, and the exit code says whether they ended the same way.

use deeplink_client::{Call, Client};

use crate::context::{Context, is_stdin};
use crate::error::{Failure, Item, Outcome, Stop};
use crate::exit::Exit;
use crate::output;

/// The ids of a command line; `-` stands for the lines of stdin. One that `check` refuses ends the command.
pub(crate) async fn read(ctx: &Context, given: &[String], check: fn(&str) -> Outcome) -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    for id in given {
        if id == "-" {
            if ctx.global.api_key_file.as_deref().is_some_and(is_stdin) {
                // The key must not be read as ids.
                ctx.take_stdin("--api-key-file")?;
            }
            let text = ctx.piped_text("-").await?;
            for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
                if !line.is_empty() {
                    check(line).map_err(|stop| on_line(at, stop))?;
                    ids.push(line.to_owned());
                }
            }
        } else {
            check(id)?;
            ids.push(id.clone());
        }
    }
    Ok(ids)
}

/// Each ID once, in the order of its first occurrence.
pub(crate) fn distinct(ids: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    ids.into_iter().filter(|id| seen.insert(id.clone())).collect()
}

/// The same failure, with its line.
fn on_line(number: usize, stop: Stop) -> Stop {
    match stop {
        Stop::Failed(failure) => {
            let message = format!("line {number} of stdin: {}", failure.message);
            Failure { message, ..*failure }.into()
        }
        other => other,
    }
}

/// Deletes the resources with these ids, after confirmation if there is a `question`. A single id from the command line fails
/// with its own error. `group` is the command that lists the resources.
pub(crate) async fn delete(
    ctx: &Context,
    group: &str,
    given: &[String],
    ids: &[String],
    question: Option<&str>,
    call: impl Fn(&Client, &str) -> Call<()>,
) -> Outcome {
    let sheet = ctx.out.sheet(&output::DELETED)?;
    if let Some(question) = question {
        ctx.confirm(question).await?;
    }
    let client = ctx.client().await?;
    let single = given.len() == 1 && ids.len() == 1;
    let (mut rows, mut tally) = (sheet.several(), Tally::new(ctx, ids));
    for id in ids {
        let gone = output::object(&[("id", id.as_str().into()), ("deleted", true.into())]);
        match call(&client, id).await {
            Ok(()) if single => return sheet.created(&gone),
            Ok(()) => {
                rows.push(&gone)?;
                rows.page()?;
            }
            Err(error) if single => return Err(ctx.stop_among(&error, group)),
            Err(error) => tally.failed(id, ctx.stop_among(&error, group))?,
        }
    }
    if !tally.not_sent() {
        rows.finish(None)?;
    }
    tally.finish()
}

/// The subject of a prompt does not exist; `list` is the command that shows what does.
pub(crate) fn unknown(what: &str, id: &str, list: &str) -> Stop {
    let failure = Failure::new(Exit::NotFound, format!("this account has {what} with the ID {id}"));
    failure.code("not_found").hint(format!("dl {list} shows the valid IDs")).into()
}

/// The results of the ids of one command.
pub(crate) struct Tally<'a> {
    ctx: &'a Context,
    tried: usize,
    not_sent: bool,
    failed: Vec<(Exit, Item)>,
    /// The hints that were given: once is enough.
    hints: Vec<String>,
}

impl<'a> Tally<'a> {
    /// Starts a tally of these ids.
    pub(crate) fn new(ctx: &'a Context, ids: &[String]) -> Self {
        Self { ctx, tried: ids.len(), not_sent: false, failed: Vec::new(), hints: Vec::new() }
    }

    /// Records a failure and reports it on one line, after which comes a hint that was not given before. Anything more than
    /// the failure of one id ends the command.
    pub(crate) fn failed(&mut self, id: &str, stop: Stop) -> Outcome {
        match stop {
            Stop::NotSent => self.not_sent = true,
            Stop::Failed(mut failure) => {
                self.failed.push((failure.exit, failure.as_item(id)));
                if !self.ctx.out.json_errors {
                    failure.message = format!("{id}: {}", failure.message);
                    if self.ctx.console.verbosity() == 0 {
                        failure.request_id = None;
                    }
                    if let Some(hint) = failure.hint.take()
                        && !self.hints.contains(&hint)
                    {
                        self.hints.push(hint.clone());
                        failure.hint = Some(hint);
                    }
                    self.ctx.console.failure(&failure);
                }
            }
            other => return Err(other),
        }
        Ok(())
    }

    /// Records a failure that the end of the command reports.
    pub(crate) fn covered(&mut self, id: &str, failure: &Failure) {
        self.failed.push((failure.exit, failure.as_item(id)));
    }

    /// The end of a command whose work stopped at `why` after `good` ids were `done`, such as `written`. Individual
    /// failures have already been recorded.
    pub(crate) fn stopped_early(self, why: Failure, good: usize, done: &str) -> Failure {
        let (bad, tried) = (self.failed.len(), self.tried);
        let alike = good == 0 && self.failed.iter().all(|(exit, _)| *exit == why.exit);
        let left = tried.saturating_sub(good + bad);
        let message = format!("{}; {good} of {tried} {done}, {bad} failed, {left} not tried", why.message);
        let exit = if alike { why.exit } else { Exit::Partial };
        let items =
            if self.ctx.out.json_errors { self.failed.into_iter().map(|(_, item)| item).collect() } else { Vec::new() };
        Failure { exit, message, items, ..why }
    }

    /// Nothing was sent, because this is a dry run.
    pub(crate) fn not_sent(&self) -> bool {
        self.not_sent
    }

    /// The overall outcome.
    pub(crate) fn finish(self) -> Outcome {
        if self.not_sent {
            return Err(Stop::NotSent);
        }
        let Some((first, _)) = self.failed.first() else { return Ok(()) };
        let alike = self.failed.len() == self.tried && self.failed.iter().all(|(exit, _)| exit == first);
        let exit = if alike { *first } else { Exit::Partial };
        if !self.ctx.out.json_errors {
            let what = format!("{} of {} failed", self.failed.len(), self.tried);
            return Err(Failure::new(exit, what).into());
        }
        let mut failure = Failure::new(exit, format!("{} of {} failed", self.failed.len(), self.tried));
        failure.items = self.failed.into_iter().map(|(_, item)| item).collect();
        Err(failure.into())
    }
}
