//! Several ids at once: all are tried, and the exit code says whether they ended alike.

use crate::context::Context;
use crate::error::{Failure, Item, Outcome, Stop};
use crate::exit::Exit;

/// The ids of a command line; `-` stands for the lines of stdin.
pub(crate) fn read(ctx: &Context, given: &[String]) -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    for id in given {
        if id == "-" {
            let text = ctx.stdin_text("-")?;
            ids.extend(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned));
        } else {
            ids.push(id.clone());
        }
    }
    Ok(ids)
}

/// How the ids of one command fared.
pub(crate) struct Tally<'a> {
    ctx: &'a Context,
    tried: usize,
    held_back: bool,
    failed: Vec<(Exit, Item)>,
}

impl<'a> Tally<'a> {
    /// Starts a tally of these ids.
    pub(crate) fn new(ctx: &'a Context, ids: &[String]) -> Self {
        Self { ctx, tried: ids.len(), held_back: false, failed: Vec::new() }
    }

    /// Notes a failure and says it; what is more than the failure of one id ends the command.
    pub(crate) fn failed(&mut self, id: &str, stop: Stop) -> Outcome {
        match stop {
            Stop::HeldBack => self.held_back = true,
            Stop::Failed(mut failure) => {
                self.failed.push((failure.exit, failure.as_item(id)));
                if !self.ctx.out.format.is_json() {
                    failure.message = format!("{id}: {}", failure.message);
                    self.ctx.console.failure(&failure);
                }
            }
            other => return Err(other),
        }
        Ok(())
    }

    /// Nothing was sent, because nothing is to be sent.
    pub(crate) fn held_back(&self) -> bool {
        self.held_back
    }

    /// The outcome of the whole.
    pub(crate) fn finish(self) -> Outcome {
        if self.held_back {
            return Err(Stop::HeldBack);
        }
        let Some((first, _)) = self.failed.first() else { return Ok(()) };
        let alike = self.failed.len() == self.tried && self.failed.iter().all(|(exit, _)| exit == first);
        let exit = if alike { *first } else { Exit::Partial };
        if !self.ctx.out.format.is_json() {
            let what = format!("{} of {} failed", self.failed.len(), self.tried);
            return Err(Failure::new(exit, what).into());
        }
        let mut failure = Failure::new(exit, format!("{} of {} failed", self.failed.len(), self.tried));
        failure.items = self.failed.into_iter().map(|(_, item)| item).collect();
        Err(failure.into())
    }
}
