//! The journal in a directory.

use std::path::{Path, PathBuf};

use super::journal::{Entry, Journal, JournalError, Opened, RunInfo, RunPlan};
use crate::transport::BoxFuture;

/// Keeps each run in a directory of its own below one directory, readable by its owner alone.
#[derive(Debug)]
pub struct FileJournal {
    root: PathBuf,
    command: Option<String>,
    restart: bool,
}

impl FileJournal {
    /// Runs below `root`, which is made when needed.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), command: None, restart: false }
    }

    /// What identifies the command (file, mapping, profile): the unfinished run of the same command is resumed, and
    /// refused if its content or service has changed. Without it, the unfinished run of the same content is resumed.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// Begins a new run, whatever is unfinished.
    pub fn restart(mut self, restart: bool) -> Self {
        self.restart = restart;
        self
    }

    /// The unfinished run that [`FileJournal::command`] would resume.
    pub fn pending(&self) -> Result<Option<RunInfo>, JournalError> {
        let _ = (&self.command, self.restart);
        Ok(None)
    }

    /// All runs below `root`, oldest first.
    pub fn list(root: &Path) -> Result<Vec<RunInfo>, JournalError> {
        let _ = root;
        Ok(Vec::new())
    }

    /// Removes a run.
    pub fn remove(run: &RunInfo) -> Result<(), JournalError> {
        let _ = run;
        Ok(())
    }
}

impl Journal for FileJournal {
    fn open(&self, plan: &RunPlan) -> Result<Opened, JournalError> {
        let _ = (plan, &self.root);
        Err(JournalError::Closed)
    }

    fn replay(&self, each: &mut dyn FnMut(Entry)) -> Result<(), JournalError> {
        let _ = each;
        Err(JournalError::Closed)
    }

    fn append(&self, entry: Entry) -> BoxFuture<'static, Result<(), JournalError>> {
        let _ = entry;
        Box::pin(async { Err(JournalError::Closed) })
    }
}
