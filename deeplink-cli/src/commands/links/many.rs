//! One change to many links, in requests of up to 100 links. Each request changes all of its links or none, so links that are
//! refused are reported, and the others are sent again without them.

use std::collections::HashSet;

use deeplink_client::{BulkUpdate, Call, Client, Error, RowError};
use deeplink_core::bulk::MAX_ROWS;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;
use crate::hints;
use crate::ids::Tally;
use crate::output::{self, Record};

/// Updates links, each named once, and shows them; `seen` gets each link as JSON.
pub(super) async fn update(
    ctx: &Context,
    client: &Client,
    ids: &[String],
    change: impl Fn(Vec<String>) -> BulkUpdate,
    mut seen: impl FnMut(&str),
) -> Outcome {
    let sheet = ctx.out.sheet(&output::LINKS)?;
    let mut rows = sheet.several();
    let mut tally = Tally::new(ctx, ids);
    let call = |ids| client.links().bulk_update(&change(ids));
    let ended = each_batch(ctx, ids, &mut tally, call, |_, body| {
        for link in Record::read(body).unwrap_or_default().items("links") {
            rows.push(link.get())?;
            seen(link.get());
        }
        rows.page()
    });
    let ended = ended.await?;
    if !tally.not_sent() {
        rows.finish(None)?;
    }
    finish(tally, ended, "changed")
}

/// Deletes links, each named once, and shows their IDs.
pub(super) async fn delete(ctx: &Context, ids: &[String]) -> Outcome {
    let sheet = ctx.out.sheet(&output::DELETED)?;
    let mut rows = sheet.several();
    ctx.confirm(&format!("Delete {} links?", ids.len())).await?;
    let client = ctx.client().await?;
    let mut tally = Tally::new(ctx, ids);
    let call = |ids| client.links().bulk_delete(ids);
    let ended = each_batch(ctx, ids, &mut tally, call, |ids, _| {
        for id in ids {
            rows.push(&output::object(&[("id", id.as_str().into()), ("deleted", true.into())]))?;
        }
        rows.page()
    });
    let ended = ended.await?;
    if !tally.not_sent() {
        rows.finish(None)?;
    }
    finish(tally, ended, "deleted")
}

/// What ended the work early.
struct Ended {
    why: Failure,
    /// How many links were done before.
    good: usize,
    /// How many may have been done by the request that failed.
    open: usize,
}

fn finish(tally: Tally<'_>, ended: Option<Ended>, done: &str) -> Outcome {
    let Some(Ended { mut why, good, open }) = ended else { return tally.finish() };
    if open > 0 {
        why.message = format!("{} (up to {open} links may have been {done})", why.message);
    }
    Err(tally.stopped_early(why, good, done).into())
}

/// Sends all IDs in batches, until something fails that does not concern single links.
async fn each_batch<T: Send + 'static>(
    ctx: &Context,
    ids: &[String],
    tally: &mut Tally<'_>,
    call: impl Fn(Vec<String>) -> Call<T>,
    mut done: impl FnMut(&[String], &str) -> Outcome,
) -> Outcome<Option<Ended>> {
    let mut good = 0;
    for batch in ids.chunks(MAX_ROWS) {
        let mut left = batch.to_vec();
        while !left.is_empty() {
            match call(left.clone()).full().await {
                Ok(reply) => {
                    done(&left, &String::from_utf8_lossy(&reply.raw))?;
                    good += left.len();
                    break;
                }
                Err(error) if !error.batch_errors().is_empty() => left = without_refused(ctx, tally, left, &error)?,
                Err(error) => match ctx.stop(&error) {
                    Stop::Failed(why) => {
                        let open = if error.is_ambiguous() { left.len() } else { 0 };
                        return Ok(Some(Ended { why: *why, good, open }));
                    }
                    Stop::NotSent => {
                        tally.failed("", Stop::NotSent)?;
                        break;
                    }
                    other => return Err(other),
                },
            }
        }
    }
    Ok(None)
}

/// Reports the IDs that a batch was refused for, and returns the others.
fn without_refused(ctx: &Context, tally: &mut Tally<'_>, ids: Vec<String>, error: &Error) -> Outcome<Vec<String>> {
    let mut refused = HashSet::new();
    for row in error.batch_errors() {
        if let Some(id) = usize::try_from(row.index).ok().and_then(|index| ids.get(index)) {
            tally.failed(id, of_row(row, error).into())?;
            refused.insert(id.clone());
        }
    }
    if refused.is_empty() {
        return Err(ctx.stop(error));
    }
    Ok(ids.into_iter().filter(|id| !refused.contains(id)).collect())
}

/// The failure of one link, as a request for it alone would have had it.
fn of_row(row: &RowError, error: &Error) -> Failure {
    let status = row.code.status();
    let exit = match status {
        Some(404) => Exit::NotFound,
        Some(409) => Exit::Conflict,
        _ => Exit::Invalid,
    };
    let mut failure = Failure::new(exit, row.message.clone()).code(row.code.as_str().to_owned());
    if exit == Exit::NotFound {
        failure = failure.hint(hints::LISTS_LINKS);
    }
    failure.field.clone_from(&row.field);
    failure.status = status;
    failure.request_id = error.request_id().map(str::to_owned);
    failure
}
