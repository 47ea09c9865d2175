//! The runs of a program or a template: one may never end, fail after a request that changed something, or halt.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Failure, Outcome, Stop};
use crate::signals;

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The next document may come.
    Done,
    /// The program wants no further document.
    Halted,
}

/// What is known of the runs of one command.
#[derive(Default)]
pub(super) struct Runs {
    /// Goes up when a run begins and when it ends, so that it is odd meanwhile.
    count: Arc<AtomicU64>,
    /// Signals are watched from the first run on.
    watched: OnceCell<()>,
    /// Whether a request has changed something. What follows it must be done, and its result be seen.
    changed: Arc<AtomicBool>,
    /// The first failure after that; the end of the command reports it.
    late: RefCell<Option<Box<Failure>>>,
    halted: Cell<bool>,
}

impl Runs {
    /// Set when a request has changed something.
    pub(super) fn changed(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.changed)
    }

    /// Runs a program or a template on a document. If that fails after a request that changed something, the document is
    /// printed as it is, and the command goes on.
    pub(super) fn run(&self, one: impl FnOnce() -> Outcome<End>, print: impl FnOnce() -> Outcome) -> Outcome {
        if self.halted.get() {
            return Ok(());
        }
        let has_changed = self.changed.load(Ordering::Relaxed);
        match self.watching(one) {
            Ok(End::Done) => Ok(()),
            Ok(End::Halted) if has_changed => {
                self.halted.set(true);
                Ok(())
            }
            // No more output is wanted.
            Ok(End::Halted) => Err(Stop::ClosedPipe),
            Err(Stop::Failed(failure)) if has_changed => {
                print()?;
                let hint = "the request succeeded; its result is printed unfiltered";
                self.late.borrow_mut().get_or_insert_with(|| Box::new(failure.hint(hint)));
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    /// The failure that is to be reported at the end.
    pub(super) fn late(&self) -> Option<Box<Failure>> {
        self.late.take()
    }

    fn watching<T>(&self, one: impl FnOnce() -> T) -> T {
        self.watched.get_or_init(|| signals::end_long_runs(&self.count));
        self.count.fetch_add(1, Ordering::Relaxed);
        let ended = one();
        self.count.fetch_add(1, Ordering::Relaxed);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing() -> Outcome<End> {
        Err(Failure::usage("no").into())
    }

    #[test]
    fn a_failure_ends_a_command_that_only_reads() {
        let runs = Runs::default();
        let failed = runs.run(failing, || panic!("it is not printed"));
        assert!(matches!(failed, Err(Stop::Failed(_))) && runs.late().is_none());
        assert!(matches!(runs.run(|| Ok(End::Halted), || Ok(())), Err(Stop::ClosedPipe)));
    }

    #[test]
    fn after_a_change_the_command_goes_on() {
        let (runs, printed) = (Runs::default(), Cell::new(0));
        runs.changed().store(true, Ordering::Relaxed);
        let print = || {
            printed.set(printed.get() + 1);
            Ok(())
        };
        assert!(runs.run(failing, print).is_ok() && runs.run(failing, print).is_ok());
        assert_eq!(printed.get(), 2);
        assert!(runs.run(|| Ok(End::Halted), print).is_ok());
        assert!(runs.run(|| panic!("it has halted"), print).is_ok());
        assert_eq!(runs.late().map(|failure| failure.message), Some("no".to_owned()));
    }
}
