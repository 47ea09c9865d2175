//! Sending: the loop that takes batches from the planner, writes down what is about to be sent, sends it, and turns
//! replies into outcomes. Everything that decides is elsewhere; here it is carried out.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use deeplink_core::bulk::{BulkCreated, BulkLink};
use deeplink_core::error::ErrorCode;
use deeplink_core::link::CreatedLink;
use deeplink_core::routes;
use http::HeaderValue;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::batch::{Batch, BatchRow};
use super::conflict::{Comparer, Verdict};
use super::journal::{Done, Entry, Finished, Form, Journal, JournalError, RowSet, Settled};
use super::outcome::{Counts, Position, RowOutcome, RowResult, Stopped, Summary};
use super::pace::Pace;
use super::plan::Planned;
use super::react::{Reaction, react, refuses_links};
use super::template::{Prepared, derived_id};
use super::{OnError, Settings};
use crate::call::{self, Options};
use crate::client::Client;
use crate::decode;
use crate::error::{Error, Kind};
use crate::retry::Retry;
use crate::send;

/// Attempts of one request before its rows count as unknown.
const ATTEMPTS: u32 = 5;
/// Requests in a row that may end unknown before the run stops.
const UNKNOWN_IN_A_ROW: u32 = 3;
/// Ids made for a row before it is given up.
const TRIES: u32 = 16;

/// A batch that may be sent: what it is about to do has been written down.
#[derive(Clone)]
struct Ready {
    batch: Arc<Batch>,
    body: Bytes,
    key: String,
    failures: u32,
    /// An attempt so far may have arrived.
    open: bool,
}

/// What a spawned job has come to.
enum Job {
    Committed(Ready, Result<(), JournalError>),
    Sent(Ready, Result<Vec<BulkLink>, Error>),
    Compared(Arc<Batch>, Vec<(BatchRow, Verdict)>),
}

/// A batch that a spawned job holds.
struct UnderWay {
    batch: Arc<Batch>,
    /// A request was sent for it; else its rows are only being compared.
    is_sent: bool,
}

/// What the loop tells the outside.
pub(crate) struct Shared {
    pub(crate) summary: Mutex<Summary>,
    pub(crate) progress: watch::Sender<Position>,
}

/// What a run is started with.
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

/// The run is over because nobody listens any more.
struct Gone;

pub(crate) struct Driver {
    start: Start,
    run: String,
    pace: Pace,
    comparer: Arc<Comparer>,
    counts: Counts,
    /// Batches that were made from others and have to be written down.
    again: VecDeque<Batch>,
    ready: VecDeque<Ready>,
    /// Requests that failed and are repeated at their time.
    delayed: Vec<(Instant, Ready)>,
    jobs: JoinSet<Job>,
    committing: u32,
    under_way: HashMap<(u64, u32, bool), UnderWay>,
    exhausted: bool,
    stopped: Option<Stopped>,
    drain_until: Option<Instant>,
    unknown_in_a_row: u32,
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
            unknown_in_a_row: 0,
            links_refused: false,
            refused_templates: HashMap::new(),
            started: Instant::now(),
            start,
        }
    }

    /// Runs to the end, or until nobody listens.
    pub(crate) async fn run(mut self) {
        // Gone is an end like any other: the journal has what is needed to go on.
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

    /// Batches between the planner and the wire are at most as many as may be sent at one time.
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

    /// Requests that wait for their repeat keep their place: a service in trouble is not asked for more.
    fn may_send(&self) -> bool {
        !self.pace.is_paused() && self.under_way.len() + self.delayed.len() < self.pace.limit() as usize
    }

    fn may_commit(&self) -> bool {
        self.committing as usize + self.ready.len() < self.pace.limit() as usize
    }

    /// Sends a batch, unless it has become clear meanwhile that the service would refuse it.
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

    /// Writes down what is about to be sent.
    async fn commit(&mut self, batch: Batch) -> Result<(), Gone> {
        if batch.form == Form::Links && self.links_refused {
            self.explode(&batch);
            return Ok(());
        }
        if let Some(why) = batch.template().and_then(|template| self.refused_templates.get(template)) {
            let why = why.clone();
            return self.reject_all(&batch, &why).await;
        }
        let body = batch.body();
        let intent = batch.intent(&body, &self.run);
        let ready =
            Ready { key: intent.key.clone(), open: batch.maybe_ours, batch: Arc::new(batch), body, failures: 0 };
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

    fn compare(&mut self, batch: Arc<Batch>, rows: Vec<BatchRow>) {
        self.hold(&batch, false);
        let comparer = Arc::clone(&self.comparer);
        self.jobs.spawn(async move {
            let mut verdicts = Vec::with_capacity(rows.len());
            for row in rows {
                let verdict = comparer.settle(&row).await;
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

    async fn finish(&mut self, job: Job) -> Result<(), Gone> {
        match job {
            Job::Committed(ready, written) => {
                self.committing -= 1;
                match written {
                    Ok(()) => self.ready.push_back(ready),
                    Err(error) => self.halt(Stopped::Journal(Arc::new(error))),
                }
                Ok(())
            }
            Job::Sent(ready, result) => {
                self.release(&ready.batch, true);
                match result.and_then(|links| check_links(&ready.batch, links)) {
                    Ok(links) => self.created(&ready.batch, links).await,
                    Err(error) => self.refused(ready, error).await,
                }
            }
            Job::Compared(batch, verdicts) => {
                self.release(&batch, false);
                self.compared(&batch, verdicts).await
            }
        }
    }

    async fn created(&mut self, batch: &Batch, links: Vec<BulkLink>) -> Result<(), Gone> {
        self.pace.clean_reply();
        self.unknown_in_a_row = 0;
        let ends = batch.rows.iter().zip(links).map(|(row, link)| (row, RowResult::Created { url: link.url }));
        self.settle(batch, ends.collect()).await
    }

    async fn refused(&mut self, mut ready: Ready, error: Error) -> Result<(), Gone> {
        let batch = Arc::clone(&ready.batch);
        ready.open |= error.is_ambiguous();
        match react(&error) {
            Reaction::Rows => self.rows_refused(&ready, &error).await,
            Reaction::NewKey => {
                self.close(&batch);
                let mut again = batch.again(batch.rows.clone());
                again.maybe_ours = true;
                self.again.push_back(again);
                Ok(())
            }
            Reaction::Split if batch.rows.len() > 1 => {
                self.split(&batch);
                Ok(())
            }
            Reaction::Split | Reaction::Refused => self.template_refused(&batch, &error).await,
            Reaction::Wait(asked) => {
                if self.pace.pause(asked, self.start.settings.max_wait).is_err() {
                    self.halt(Stopped::RateLimited(Arc::new(error)));
                }
                if self.stopped.is_some() {
                    self.give_up(&ready, "the run was stopped").await
                } else {
                    self.ready.push_front(ready);
                    Ok(())
                }
            }
            Reaction::Again => self.failed(ready, error).await,
            Reaction::Stop => {
                self.halt(Stopped::Refused(Arc::new(error)));
                self.give_up(&ready, "the run was stopped").await
            }
        }
    }

    async fn failed(&mut self, mut ready: Ready, error: Error) -> Result<(), Gone> {
        if matches!(error.kind(), Kind::Timeout | Kind::Unavailable) {
            self.pace.cut();
        }
        ready.failures += 1;
        if self.stopped.is_some() {
            return self.give_up(&ready, &error.to_string()).await;
        }
        if ready.failures < ATTEMPTS {
            let delay = self.pace.retry_delay(ready.failures);
            self.delayed.push((Instant::now() + delay, ready));
            return Ok(());
        }
        self.unknown_in_a_row += 1;
        let message = error.to_string();
        if self.unknown_in_a_row >= UNKNOWN_IN_A_ROW {
            self.halt(Stopped::Unavailable(Arc::new(error)));
        }
        let ends = ready.batch.rows.iter().map(|row| (row, RowResult::Unknown { message: message.clone() }));
        self.settle(&ready.batch, ends.collect()).await
    }

    /// Nothing was inserted: taken ids are compared, rows at fault rejected, the others sent again.
    async fn rows_refused(&mut self, ready: &Ready, error: &Error) -> Result<(), Gone> {
        self.pace.clean_reply();
        self.unknown_in_a_row = 0;
        let batch = &ready.batch;
        self.close(batch);
        if batch.rows.len() > 1 && error.batch_errors().is_empty() {
            // Which row it is was not said: each gets an answer of its own.
            self.explode(batch);
            return Ok(());
        }
        let mut faults: HashMap<usize, (ErrorCode, String)> = HashMap::new();
        for fault in error.batch_errors() {
            faults.insert(
                usize::try_from(fault.index).unwrap_or(usize::MAX),
                (fault.code.clone(), fault.message.clone()),
            );
        }
        if batch.rows.len() == 1 && faults.is_empty() {
            let code = error.code().cloned().unwrap_or(ErrorCode::BadRequest);
            faults.insert(0, (code, error.message().to_owned()));
        }
        let (mut rest, mut asked, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for (at, row) in batch.rows.iter().enumerate() {
            match faults.remove(&at) {
                None => rest.push(row.clone()),
                Some((ErrorCode::LinkIdTaken, _)) => match self.comparer.without_asking(row, ready.open) {
                    Some(result) => ends.push((row, result)),
                    None => asked.push(row.clone()),
                },
                Some((code, message)) => ends.push((row, RowResult::Rejected { code, message })),
            }
        }
        self.settle(batch, ends).await?;
        if self.stopped.is_some() {
            return Ok(());
        }
        if !asked.is_empty() {
            self.compare(Arc::clone(batch), asked);
        }
        if !rest.is_empty() {
            let mut again = batch.again(rest);
            again.maybe_ours |= ready.open;
            self.again.push_back(again);
        }
        Ok(())
    }

    async fn compared(&mut self, batch: &Batch, verdicts: Vec<(BatchRow, Verdict)>) -> Result<(), Gone> {
        let (mut ends, mut next) = (Vec::new(), Vec::new());
        let settled: Vec<(BatchRow, RowResult)> = verdicts
            .into_iter()
            .filter_map(|(row, verdict)| match verdict {
                Verdict::Settled(result) => Some((row, result)),
                Verdict::NextTry => match self.next_id(row) {
                    Ok(row) => {
                        next.push(row);
                        None
                    }
                    Err(ended) => Some(ended),
                },
                Verdict::Stop(error) => {
                    self.halt(Stopped::Refused(Arc::new(error)));
                    None
                }
            })
            .collect();
        ends.extend(settled.iter().map(|(row, result)| (row, result.clone())));
        self.settle(batch, ends).await?;
        if !next.is_empty() && self.stopped.is_none() {
            let number = self.start.numbers.fetch_add(1, Ordering::Relaxed);
            self.again.push_back(Batch::new(number, batch.form, next));
        }
        Ok(())
    }

    /// The row with the next id that can be made for it.
    fn next_id(&self, mut row: BatchRow) -> Result<BatchRow, (BatchRow, RowResult)> {
        let attempt = row.made.unwrap_or_default() + 1;
        if attempt >= TRIES {
            let message = format!("{TRIES} ids were made for this row, and all were in use");
            return Err((row, RowResult::Rejected { code: ErrorCode::LinkIdTaken, message }));
        }
        let salt = self.start.settings.salt.as_deref().unwrap_or_default();
        row.id = derived_id(salt, &row.template, row.row, attempt);
        row.made = Some(attempt);
        Ok(row)
    }

    /// A template that the service refuses, or rows that differ of which it refuses one.
    async fn template_refused(&mut self, batch: &Batch, error: &Error) -> Result<(), Gone> {
        if batch.form == Form::Links && (batch.rows.len() > 1 || refuses_links(error)) {
            self.links_refused |= refuses_links(error);
            self.explode(batch);
            return Ok(());
        }
        self.close(batch);
        let why = (error.code().cloned().unwrap_or(ErrorCode::BadRequest), error.message().to_owned());
        if let Some(template) = batch.template() {
            self.refused_templates.insert(Arc::clone(template), why.clone());
        }
        self.reject_all(batch, &why).await
    }

    async fn reject_all(&mut self, batch: &Batch, (code, message): &(ErrorCode, String)) -> Result<(), Gone> {
        let rejected = || RowResult::Rejected { code: code.clone(), message: message.clone() };
        self.settle(batch, batch.rows.iter().map(|row| (row, rejected())).collect()).await
    }

    /// Sends each row by itself.
    fn explode(&mut self, batch: &Batch) {
        self.close(batch);
        self.divide(batch, Form::Single, 1);
    }

    fn split(&mut self, batch: &Batch) {
        self.close(batch);
        self.divide(batch, batch.form, batch.rows.len().div_ceil(2));
    }

    fn divide(&mut self, batch: &Batch, form: Form, size: usize) {
        for rows in batch.rows.chunks(size) {
            let number = self.start.numbers.fetch_add(1, Ordering::Relaxed);
            let mut part = Batch::new(number, form, rows.to_vec());
            part.maybe_ours = batch.maybe_ours;
            self.again.push_back(part);
        }
    }

    /// Says in the journal that a request has been answered, and that what is left of it goes in others.
    fn close(&self, batch: &Batch) {
        self.write(Done { batch: batch.number, attempt: batch.attempt, rows: Vec::new(), base: String::new() });
    }

    /// Taken by the journal at once; if it is lost in a crash, the request is only asked about again.
    fn write(&self, done: Done) {
        if let Some(journal) = &self.start.journal {
            drop(journal.append(Entry::Done(done)));
        }
    }

    /// Rows of a request whose repeats end with the run: unknown if it may have arrived, else not sent.
    async fn give_up(&mut self, ready: &Ready, message: &str) -> Result<(), Gone> {
        if !ready.open {
            return Ok(());
        }
        let unknown = || RowResult::Unknown { message: message.to_owned() };
        self.settle(&ready.batch, ready.batch.rows.iter().map(|row| (row, unknown())).collect()).await
    }

    /// Writes down what is settled, and tells it.
    async fn settle(&mut self, batch: &Batch, ends: Vec<(&BatchRow, RowResult)>) -> Result<(), Gone> {
        let mut groups: Vec<(String, Settled, Vec<u64>)> = Vec::new();
        for (row, result) in &ends {
            let Some(settled) = settled(result) else { continue };
            let base = result.url().and_then(|url| url.strip_suffix(row.id.as_str())).unwrap_or_default();
            match groups.iter_mut().find(|(known, end, _)| known == base && *end == settled) {
                Some((.., rows)) => rows.push(row.row),
                None => groups.push((base.to_owned(), settled, vec![row.row])),
            }
        }
        for (base, settled, rows) in groups {
            let rows = vec![(settled, rows.into_iter().collect::<RowSet>())];
            self.write(Done { batch: batch.number, attempt: batch.attempt, rows, base });
        }
        let is_rejected = ends.iter().any(|(_, result)| matches!(result, RowResult::Rejected { .. }));
        let outcomes = ends.into_iter().map(|(row, result)| outcome(batch.number, row, result)).collect();
        if is_rejected && self.start.settings.on_error == OnError::Stop {
            self.halt(Stopped::RowRejected);
        }
        self.emit(outcomes).await
    }

    async fn emit(&mut self, outcomes: Vec<RowOutcome>) -> Result<(), Gone> {
        for outcome in &outcomes {
            self.counts.add(&outcome.result);
        }
        self.publish();
        if outcomes.is_empty() { Ok(()) } else { self.start.outcomes.send(outcomes).await.map_err(|_| Gone) }
    }

    /// Nothing more is sent.
    fn halt(&mut self, why: Stopped) {
        if self.stopped.is_none() {
            self.stopped = Some(why);
            self.drain_until = Some(Instant::now() + self.pace.drain());
            self.start.planned.close();
        }
    }

    /// Settles what a stop has left under way.
    async fn abandon(&mut self) -> Result<(), Gone> {
        self.jobs.abort_all();
        let ready = std::mem::take(&mut self.ready).into_iter();
        let delayed = std::mem::take(&mut self.delayed).into_iter().map(|(_, ready)| ready);
        for ready in ready.chain(delayed) {
            self.give_up(&ready, "the run was stopped").await?;
        }
        for held in std::mem::take(&mut self.under_way).into_values() {
            if held.is_sent {
                let unknown = || RowResult::Unknown { message: "no answer before the run ended".to_owned() };
                self.settle(&held.batch, held.batch.rows.iter().map(|row| (row, unknown())).collect()).await?;
            }
        }
        Ok(())
    }

    async fn conclude(&mut self) {
        self.counts.requests += self.comparer.updates.load(Ordering::Relaxed);
        self.counts.unsent = self.counts.rows.saturating_sub(self.counts.settled());
        let complete = self.counts.unsent == 0 && self.counts.unknown == 0;
        if let Some(journal) = &self.start.journal {
            let written = journal.append(Entry::Finished(Finished { counts: self.counts, complete })).await;
            if let Err(error) = written {
                self.stopped.get_or_insert(Stopped::Journal(Arc::new(error)));
            }
        }
        self.publish();
    }

    fn publish(&self) {
        let position = Position {
            counts: self.counts,
            in_flight: u32::try_from(self.under_way.len()).unwrap_or(u32::MAX),
            concurrency: self.pace.limit(),
            paused_until: self.pace.paused_until.map(Instant::into_std),
        };
        self.start.shared.progress.send_replace(position);
        let mut summary = self.start.shared.summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.counts = self.counts;
        summary.elapsed = self.started.elapsed();
        summary.stopped.clone_from(&self.stopped);
    }
}

async fn stop_asked(stop: &mut watch::Receiver<bool>) {
    // A run that nobody can stop goes on.
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

fn settled(result: &RowResult) -> Option<Settled> {
    Some(match result {
        RowResult::Created { .. } => Settled::Created,
        RowResult::Existed { .. } => Settled::Existed,
        RowResult::Updated { .. } => Settled::Updated,
        RowResult::Skipped => Settled::Skipped,
        RowResult::Rejected { .. } | RowResult::Unknown { .. } => return None,
    })
}

fn outcome(batch: u64, row: &BatchRow, result: RowResult) -> RowOutcome {
    RowOutcome { line: row.line, at: row.at, id: Some(row.id.clone()), batch, result }
}

/// Sends a batch once.
async fn post(client: &Client, ready: &Ready) -> Result<Vec<BulkLink>, Error> {
    let is_single = ready.batch.form == Form::Single;
    let route = if is_single { &routes::CREATE_LINK } else { &routes::BULK_CREATE_LINKS };
    let mut draft = call::draft(route, &[])?;
    draft.body = Some(ready.body.clone());
    draft.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(crate::JSON));
    let options = Options {
        timeout: Some(client.inner().limits.attempt),
        retry: Some(Retry::none()),
        idempotency_key: Some(call::idempotency_key(&ready.key)?),
        unpaused: true,
    };
    let reply = send::perform(client, &draft, &options).await?;
    if is_single {
        let made: CreatedLink = decode::json(&reply)?;
        return Ok(vec![BulkLink { link_id: made.link_id, url: made.url }]);
    }
    decode::json::<BulkCreated>(&reply).map(|made| made.links)
}

/// The links must be those that were asked for: a reply to something else settles nothing.
fn check_links(batch: &Batch, links: Vec<BulkLink>) -> Result<Vec<BulkLink>, Error> {
    let same =
        links.len() == batch.rows.len() && links.iter().zip(&batch.rows).all(|(link, row)| link.link_id == row.id);
    if same {
        return Ok(links);
    }
    let why = "the reply names other links than the request";
    Err(Error::from_source(Kind::Decode, why, "link_id").after(1, false, true))
}
