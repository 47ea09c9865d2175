//! Sending: the loop that takes batches from the planner, journals what is about to be sent, sends it, and turns responses
//! into outcomes. Decisions are made elsewhere; this module executes them.

mod post;
mod replies;
mod settle;

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use deeplink_core::bulk::BulkLink;
use deeplink_core::error::ErrorCode;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Settings;
use super::batch::{Batch, BatchRow};
use super::conflict::{Comparer, Verdict};
use super::journal::{Entry, Form, Journal, JournalError};
use super::outcome::{Counts, Position, RowOutcome, RowResult, Stopped, Summary};
use super::pace::Pace;
use super::plan::Planned;
use super::template::Prepared;
use crate::client::Client;
use crate::error::Error;
use crate::payer::SentPayment;
use post::post;

/// A batch that may be sent: its journal entry is written.
#[derive(Clone)]
struct Ready {
    batch: Arc<Batch>,
    body: Bytes,
    key: String,
    failures: u32,
    /// An attempt so far may have arrived.
    open: bool,
    /// The payment of an earlier attempt.
    payment: Option<SentPayment>,
}

/// The result of a spawned job.
enum Job {
    Committed(Ready, Result<(), JournalError>),
    Sent(Ready, Result<Vec<BulkLink>, Error>),
    Compared(Arc<Batch>, Vec<(BatchRow, Verdict)>),
}

/// A batch that a spawned job holds.
struct UnderWay {
    batch: Arc<Batch>,
    /// A request was sent for it; otherwise its rows are only being compared.
    is_sent: bool,
}

/// State that the loop publishes.
pub(crate) struct Shared {
    pub(crate) summary: Mutex<Summary>,
    pub(crate) progress: watch::Sender<Position>,
}

/// The inputs of a run.
pub(crate) struct Start {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) numbers: Arc<AtomicU64>,
    pub(crate) planned: mpsc::Receiver<Planned>,
    pub(crate) outcomes: mpsc::Sender<Vec<RowOutcome>>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) shared: Arc<Shared>,
}

/// The run ends because the stream was dropped.
struct Gone;

pub(crate) struct Driver {
    start: Start,
    run: String,
    pace: Pace,
    comparer: Arc<Comparer>,
    counts: Counts,
    /// Batches split from others, to be journaled.
    again: VecDeque<Batch>,
    ready: VecDeque<Ready>,
    /// Failed requests waiting for their retry.
    delayed: Vec<(Instant, Ready)>,
    jobs: JoinSet<Job>,
    committing: u32,
    under_way: HashMap<(u64, u32, bool), UnderWay>,
    exhausted: bool,
    stopped: Option<Stopped>,
    drain_until: Option<Instant>,
    given_up_in_a_row: u32,
    links_refused: bool,
    refused_templates: HashMap<Arc<Prepared>, (ErrorCode, String)>,
    started: Instant,
}

impl Driver {
    pub(crate) fn new(start: Start) -> Self {
        let summary = start.shared.summary.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            run: summary.run,
            pace: Pace::new(start.settings.concurrency, start.settings.times),
            comparer: Arc::new(Comparer::new(start.client.clone(), start.settings.on_conflict)),
            counts: summary.counts,
            again: VecDeque::new(),
            ready: VecDeque::new(),
            delayed: Vec::new(),
            jobs: JoinSet::new(),
            committing: 0,
            under_way: HashMap::new(),
            exhausted: false,
            stopped: None,
            drain_until: None,
            given_up_in_a_row: 0,
            links_refused: false,
            refused_templates: HashMap::new(),
            started: Instant::now(),
            start,
        }
    }

    /// Runs to the end, or until the stream is dropped.
    pub(crate) async fn run(mut self) {
        // A dropped stream is a normal end: the journal has everything a resume needs.
        if self.work().await.is_ok() && self.abandon().await.is_ok() {
            self.conclude().await;
        }
    }

    async fn work(&mut self) -> Result<(), Gone> {
        loop {
            self.dispatch().await?;
            self.publish();
            if self.is_over() {
                return Ok(());
            }
            let wants_more = self.wants_more();
            let next_timer = self.next_timer();
            tokio::select! {
                biased;
                () = stop_asked(&mut self.start.stop), if self.stopped.is_none() => self.halt(Stopped::Asked),
                Some(job) = self.jobs.join_next(), if !self.jobs.is_empty() => match job {
                    Ok(job) => self.finish(job).await?,
                    Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                    Err(_) => return Err(Gone),
                },
                planned = self.start.planned.recv(), if wants_more => match planned {
                    Some(planned) => self.take(planned).await?,
                    None => self.exhausted = true,
                },
                () = timer(next_timer), if next_timer.is_some() => {
                    if self.drain_until.is_some_and(|until| until <= Instant::now()) {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let idle = self.jobs.is_empty();
        let empty = self.again.is_empty() && self.ready.is_empty() && self.delayed.is_empty();
        idle && (self.stopped.is_some() || self.exhausted && empty)
    }

    /// At most as many batches wait between the planner and the wire as may be sent concurrently.
    fn wants_more(&self) -> bool {
        let held = self.committing as usize + self.ready.len() + self.again.len() + self.delayed.len();
        self.stopped.is_none() && !self.exhausted && held < self.pace.limit() as usize
    }

    fn next_timer(&self) -> Option<Instant> {
        let pause = self.pace.paused_until.filter(|_| self.pace.is_paused() && !self.ready.is_empty());
        let delayed = self.delayed.iter().map(|(at, _)| *at).min();
        pause.into_iter().chain(delayed).chain(self.drain_until).min()
    }

    async fn dispatch(&mut self) -> Result<(), Gone> {
        if self.stopped.is_some() {
            return Ok(());
        }
        let now = Instant::now();
        for at in (0..self.delayed.len()).rev() {
            if self.delayed[at].0 <= now {
                let (_, ready) = self.delayed.swap_remove(at);
                self.ready.push_front(ready);
            }
        }
        while self.stopped.is_none() {
            if self.may_send()
                && let Some(ready) = self.ready.pop_front()
            {
                self.send_or_drop(ready).await?;
            } else if self.may_commit()
                && let Some(batch) = self.again.pop_front()
            {
                self.commit(batch).await?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Requests waiting for a retry count as in flight: a failing service gets no additional load.
    fn may_send(&self) -> bool {
        !self.pace.is_paused() && self.under_way.len() + self.delayed.len() < self.pace.limit() as usize
    }

    fn may_commit(&self) -> bool {
        self.committing as usize + self.ready.len() < self.pace.limit() as usize
    }

    /// Sends a batch, unless the service is already known to refuse it.
    async fn send_or_drop(&mut self, ready: Ready) -> Result<(), Gone> {
        if ready.batch.form == Form::Links && self.links_refused {
            self.explode(&ready.batch);
            return Ok(());
        }
        let refused = ready.batch.template().and_then(|template| self.refused_templates.get(template));
        if let Some(why) = refused.cloned() {
            self.close(&ready.batch);
            return self.reject_all(&ready.batch, &why).await;
        }
        self.send(ready);
        Ok(())
    }

    async fn take(&mut self, planned: Planned) -> Result<(), Gone> {
        match planned {
            Planned::Batch(batch) => self.commit(batch).await,
            Planned::Settled(outcomes) => self.emit(outcomes).await,
            Planned::Failed(error) => {
                self.halt(Stopped::Source(Arc::new(error)));
                Ok(())
            }
        }
    }

    /// Journals what is about to be sent.
    async fn commit(&mut self, batch: Batch) -> Result<(), Gone> {
        if batch.form == Form::Links && self.links_refused {
            self.explode(&batch);
            return Ok(());
        }
        if let Some(why) = batch.template().and_then(|template| self.refused_templates.get(template)) {
            let why = why.clone();
            self.close(&batch);
            return self.reject_all(&batch, &why).await;
        }
        let body = batch.body();
        let intent = batch.intent(&body, &self.run);
        let (key, open) = (intent.key.clone(), batch.maybe_ours);
        let ready = Ready { key, open, batch: Arc::new(batch), body, failures: 0, payment: None };
        let Some(journal) = &self.start.journal else {
            self.ready.push_back(ready);
            return Ok(());
        };
        let written = journal.append(Entry::Intent(intent));
        self.committing += 1;
        self.jobs.spawn(async move { Job::Committed(ready, written.await) });
        Ok(())
    }

    fn send(&mut self, ready: Ready) {
        self.counts.requests += 1;
        self.counts.retries += u64::from(ready.failures > 0);
        self.hold(&ready.batch, true);
        let client = self.start.client.clone();
        self.jobs.spawn(async move {
            let sent = post(&client, &ready).await;
            Job::Sent(ready, sent)
        });
    }

    /// Compares rows with the links that have their ids. A row with a refusal keeps it where there is no such link.
    fn compare(&mut self, batch: Arc<Batch>, rows: Vec<(BatchRow, Option<RowResult>)>) {
        self.hold(&batch, false);
        let comparer = Arc::clone(&self.comparer);
        self.jobs.spawn(async move {
            let mut verdicts = Vec::with_capacity(rows.len());
            for (row, refusal) in rows {
                let verdict = comparer.settle(&row, refusal).await;
                let stop = matches!(verdict, Verdict::Stop(_));
                verdicts.push((row, verdict));
                if stop {
                    break;
                }
            }
            Job::Compared(batch, verdicts)
        });
    }

    fn hold(&mut self, batch: &Arc<Batch>, is_sent: bool) {
        let key = (batch.number, batch.attempt, is_sent);
        self.under_way.insert(key, UnderWay { batch: Arc::clone(batch), is_sent });
    }

    fn release(&mut self, batch: &Batch, is_sent: bool) {
        self.under_way.remove(&(batch.number, batch.attempt, is_sent));
    }
}

async fn stop_asked(stop: &mut watch::Receiver<bool>) {
    // Without a stopper the run continues.
    if stop.wait_for(|asked| *asked).await.is_err() {
        pending::<()>().await;
    }
}

async fn timer(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
