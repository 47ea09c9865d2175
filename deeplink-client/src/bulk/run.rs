//! A running import, as its caller sees it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::drive::Shared;
use super::outcome::{ProgressWatch, RowOutcome, Summary};

/// A running import: a stream of row outcomes, in the order in which they arrive. Not polling it stops dispatch;
/// dropping it ends the run, which the journal can resume.
#[must_use = "streams do nothing unless polled"]
pub struct BulkRun {
    shared: Arc<Shared>,
    stop: Arc<watch::Sender<bool>>,
    outcomes: mpsc::Receiver<Vec<RowOutcome>>,
    chunk: std::vec::IntoIter<RowOutcome>,
    task: Option<JoinHandle<()>>,
    resumed: bool,
}

impl BulkRun {
    pub(crate) fn new(
        shared: Arc<Shared>,
        stop: watch::Sender<bool>,
        outcomes: mpsc::Receiver<Vec<RowOutcome>>,
        task: JoinHandle<()>,
        resumed: bool,
    ) -> Self {
        let chunk = Vec::new().into_iter();
        Self { shared, stop: Arc::new(stop), outcomes, chunk, task: Some(task), resumed }
    }

    /// The run's name in the journal.
    pub fn run(&self) -> String {
        self.summary().run
    }

    /// Whether this resumes an earlier run.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Watches counts and pauses.
    pub fn progress(&self) -> ProgressWatch {
        ProgressWatch(self.shared.progress.subscribe())
    }

    /// Stops sending; the stream ends once the requests in flight have ended, within 10 s.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// A handle that stops the run while something else polls it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// How the run ended; before its end, the state so far.
    pub fn summary(&self) -> Summary {
        self.shared.summary.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for BulkRun {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl fmt::Debug for BulkRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkRun").field("summary", &self.summary()).finish_non_exhaustive()
    }
}

/// Stops a run from elsewhere, such as from a signal handler.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<watch::Sender<bool>>);

impl Stopper {
    /// As [`BulkRun::stop`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stream for BulkRun {
    type Item = RowOutcome;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(outcome) = this.chunk.next() {
                return Poll::Ready(Some(outcome));
            }
            match this.outcomes.poll_recv(context) {
                Poll::Ready(Some(chunk)) => this.chunk = chunk.into_iter(),
                Poll::Ready(None) => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        // The summary is complete once the task has ended.
        let Some(task) = &mut this.task else { return Poll::Ready(None) };
        let Poll::Ready(ended) = Pin::new(task).poll(context) else { return Poll::Pending };
        this.task = None;
        match ended {
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            _ => Poll::Ready(None),
        }
    }
}
