//! Lists that come in pages.

use std::collections::HashSet;

use clap::Args;
use deeplink_core::page::{DEFAULT_LIMIT, MAX_LIMIT};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::output::{Record, Rows, Sheet};

/// Which part of a list to print.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// Maximum number to list; above 100, in pages of 100
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT.into(), value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// List everything
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Continue where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// One page: the body as it came, and the cursor of the next one.
pub(crate) type Page = (Vec<u8>, Option<String>);

impl Paging {
    /// Prints a list, a page at a time; `none` is the message for an empty one. `fetch` is given the size of a page and its
    /// cursor.
    pub(crate) async fn print(
        self,
        ctx: &Context,
        sheet: &Sheet<'_>,
        none: &str,
        fetch: impl AsyncFn(u32, Option<String>) -> Outcome<Page>,
    ) -> Outcome {
        let mut rows = sheet.list();
        let limit = if self.all { u64::MAX } else { self.limit };
        let next = write_pages(sheet.noun.list, (self.cursor, limit), &mut rows, fetch).await?;
        let count = rows.count();
        rows.finish(next.as_deref())?;
        match next {
            _ if count == 0 => ctx.console.say(none),
            Some(cursor) if ctx.out.terminal => {
                ctx.console.say(&format!("more are available: --all, or --cursor {cursor}"));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Writes up to `limit` items of a list from a cursor on, and gives the cursor of what is left.
async fn write_pages(
    list: &str,
    (start, limit): (Option<String>, u64),
    rows: &mut Rows<'_>,
    fetch: impl AsyncFn(u32, Option<String>) -> Outcome<Page>,
) -> Outcome<Option<String>> {
    let (mut cursor, mut left) = (start, limit);
    let mut seen: HashSet<String> = cursor.iter().cloned().collect();
    loop {
        let size = u32::try_from(left).unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
        let (raw, next) = fetch(size, cursor).await?;
        let body = String::from_utf8_lossy(&raw);
        for item in Record::read(&body).unwrap_or_default().items(list) {
            rows.push(item.get())?;
            left = left.saturating_sub(1);
        }
        rows.page()?;
        match next {
            Some(next) if left > 0 => {
                if !seen.insert(next.clone()) {
                    return Err(Failure::new(Exit::Failure, "the list repeats a page").into());
                }
                cursor = Some(next);
            }
            next => return Ok(next),
        }
    }
}
