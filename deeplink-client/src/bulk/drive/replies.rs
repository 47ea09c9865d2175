//! Applies responses to the batches that were sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use deeplink_core::bulk::BulkLink;
use deeplink_core::error::ErrorCode;
use tokio::time::Instant;

use super::post::check_links;
use super::{Driver, Gone, Job, Ready};
use crate::bulk::batch::{Batch, BatchRow};
use crate::bulk::conflict::Verdict;
use crate::bulk::journal::Form;
use crate::bulk::outcome::{RowResult, Stopped};
use crate::bulk::react::{Reaction, react, refuses_links};
use crate::bulk::template::derived_id;
use crate::error::{Error, Kind};

/// Maximum attempts of one request.
const ATTEMPTS: u32 = 5;
/// Failed requests in a row before the run stops.
const GIVEN_UP_IN_A_ROW: u32 = 3;
/// Maximum ids generated for a row.
const TRIES: u32 = 16;

impl Driver {
    pub(super) async fn finish(&mut self, job: Job) -> Result<(), Gone> {
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

    pub(super) async fn created(&mut self, batch: &Batch, links: Vec<BulkLink>) -> Result<(), Gone> {
        self.pace.clean_reply();
        self.given_up_in_a_row = 0;
        let ends = batch.rows.iter().zip(links).map(|(row, link)| (row, RowResult::Created { url: link.url }));
        self.settle(batch, ends.collect()).await
    }

    pub(super) async fn refused(&mut self, mut ready: Ready, error: Error) -> Result<(), Gone> {
        let batch = Arc::clone(&ready.batch);
        ready.open |= error.is_ambiguous();
        // A repeat without it would be paid for again.
        ready.payment = error.sent_payment().cloned().or(ready.payment);
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

    pub(super) async fn failed(&mut self, mut ready: Ready, error: Error) -> Result<(), Gone> {
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
        self.given_up_in_a_row += 1;
        let message = error.to_string();
        if self.given_up_in_a_row >= GIVEN_UP_IN_A_ROW {
            self.halt(Stopped::Unavailable(Arc::new(error)));
        }
        if ready.open {
            return self.give_up(&ready, &message).await;
        }
        // No attempt of it arrived: it counts as unsent.
        ready.failures = 0;
        self.ready.push_back(ready);
        Ok(())
    }

    /// Nothing was inserted: taken ids are compared, rows at fault rejected, the others sent again.
    pub(super) async fn rows_refused(&mut self, ready: &Ready, error: &Error) -> Result<(), Gone> {
        self.pace.clean_reply();
        self.given_up_in_a_row = 0;
        let batch = &ready.batch;
        self.close(batch);
        if batch.rows.len() > 1 && error.batch_errors().is_empty() {
            // The response does not name the row: send each one separately.
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
                    None => asked.push((row.clone(), None)),
                },
                Some((code, message)) => {
                    let is_asked = self.comparer.may_exist(&code);
                    let rejected = RowResult::Rejected { code, message };
                    if is_asked {
                        asked.push((row.clone(), Some(rejected)));
                    } else {
                        ends.push((row, rejected));
                    }
                }
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

    pub(super) async fn compared(&mut self, batch: &Batch, verdicts: Vec<(BatchRow, Verdict)>) -> Result<(), Gone> {
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

    /// The row with the next generated id.
    pub(super) fn next_id(&self, mut row: BatchRow) -> Result<BatchRow, (BatchRow, RowResult)> {
        let attempt = row.made.unwrap_or_default() + 1;
        if attempt >= TRIES {
            let message = format!("{TRIES} IDs were generated for this row, and all were in use");
            return Err((row, RowResult::Rejected { code: ErrorCode::LinkIdTaken, message }));
        }
        let salt = self.start.settings.salt.as_deref().unwrap_or_default();
        row.id = derived_id(salt, &row.template, row.row, attempt);
        row.made = Some(attempt);
        Ok(row)
    }

    /// The service refused a template, or one of several different rows.
    pub(super) async fn template_refused(&mut self, batch: &Batch, error: &Error) -> Result<(), Gone> {
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

    pub(super) async fn reject_all(
        &mut self,
        batch: &Batch,
        (code, message): &(ErrorCode, String),
    ) -> Result<(), Gone> {
        let rejected = || RowResult::Rejected { code: code.clone(), message: message.clone() };
        if self.comparer.may_exist(code) {
            let asked = batch.rows.iter().map(|row| (row.clone(), Some(rejected()))).collect();
            self.compare(Arc::new(batch.clone()), asked);
            return Ok(());
        }
        self.settle(batch, batch.rows.iter().map(|row| (row, rejected())).collect()).await
    }

    /// Sends each row separately.
    pub(super) fn explode(&mut self, batch: &Batch) {
        self.close(batch);
        self.divide(batch, Form::Single, 1);
    }

    pub(super) fn split(&mut self, batch: &Batch) {
        self.close(batch);
        self.divide(batch, batch.form, batch.rows.len().div_ceil(2));
    }

    pub(super) fn divide(&mut self, batch: &Batch, form: Form, size: usize) {
        for rows in batch.rows.chunks(size) {
            let number = self.start.numbers.fetch_add(1, Ordering::Relaxed);
            let mut part = Batch::new(number, form, rows.to_vec());
            part.maybe_ours = batch.maybe_ours;
            self.again.push_back(part);
        }
    }
}
