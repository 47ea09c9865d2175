//! Paginated lists.

use std::collections::HashSet;

use clap::Args;
use deeplink_client::{Call, Listing, Pages};
use deeplink_core::page::{DEFAULT_LIMIT, MAX_LIMIT, Page};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::output::{Record, Rows, Sheet};

/// Which part of a list of any length to print.
#[derive(Debug, Args)]
pub(crate) struct Paging {
    /// Maximum number to list, fetched in pages of 100
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT.into(), value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// List all
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Continue from the cursor of an earlier list
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    cursor: Option<String>,
}

impl Paging {
    /// Whether an earlier list is continued.
    pub(crate) fn is_continued(&self) -> bool {
        self.cursor.is_some()
    }

    /// The requested part.
    pub(crate) fn part(self) -> Part {
        Part { limit: Some(self.limit).filter(|_| !self.all), cursor: self.cursor, more: "--all" }
    }
}

/// Which part of a bounded list to print: all of it by default.
#[derive(Debug, Default, Args)]
pub(crate) struct Part {
    /// Maximum number to list [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Continue from the cursor of an earlier list
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    cursor: Option<String>,
    /// The flag that lists more.
    #[arg(skip = "a larger --limit")]
    more: &'static str,
}

/// One fetched page.
pub(crate) struct Fetched {
    /// The body as received: an object with the list, or a bare array.
    pub(crate) raw: Vec<u8>,
    /// The cursor of the next page.
    next: Option<String>,
}

impl Fetched {
    /// The page that a call returns.
    pub(crate) async fn by<P: Page + 'static>(call: Call<P>) -> deeplink_client::Result<Self> {
        let page = call.full().await?;
        Ok(Self { raw: page.raw.to_vec(), next: page.value.next_cursor().map(str::to_owned) })
    }

    /// The page of a list at a cursor.
    pub(crate) async fn of<P>(
        list: Pages<Listing<P>>,
        size: u32,
        cursor: Option<String>,
    ) -> deeplink_client::Result<Self>
    where
        P: Page<Item: Unpin> + Send + 'static,
    {
        let list = list.page_size(size);
        Self::by(match cursor {
            Some(cursor) => list.cursor(cursor).first_page(),
            None => list.first_page(),
        })
        .await
    }
}

impl Part {
    /// Prints a list, a page at a time; `none` is the message for an empty one. `fetch` gets the size of a page and its
    /// cursor.
    pub(crate) async fn print(
        self,
        ctx: &Context,
        sheet: &Sheet<'_>,
        none: &str,
        fetch: impl AsyncFn(u32, Option<String>) -> Outcome<Fetched>,
    ) -> Outcome {
        let (mut cursor, mut left) = (self.cursor, self.limit.unwrap_or(u64::MAX));
        let mut seen: HashSet<String> = cursor.iter().cloned().collect();
        let mut page = fetch(size(left), cursor).await?;
        // A bare array from the service is printed as a bare array, which has no place for the next cursor.
        let is_array = page.raw.trim_ascii_start().starts_with(b"[");
        let mut rows = if is_array { sheet.several() } else { sheet.list() };
        loop {
            left = left.saturating_sub(write(sheet.noun.list, &page.raw, &mut rows)?);
            match page.next {
                Some(next) if left > 0 && !seen.insert(next.clone()) => {
                    return Err(Failure::new(Exit::Failure, "the service returned the same page twice").into());
                }
                next => cursor = next,
            }
            if cursor.is_none() || left == 0 {
                break;
            }
            page = fetch(size(left), cursor).await?;
        }
        let count = rows.count();
        rows.finish(cursor.as_deref())?;
        match cursor {
            _ if count == 0 => ctx.console.say(none),
            Some(cursor) if ctx.out.terminal || is_array => {
                ctx.console.say(&format!("more are available: {}, or --cursor {cursor}", self.more));
            }
            _ => {}
        }
        Ok(())
    }
}

fn size(left: u64) -> u32 {
    u32::try_from(left).unwrap_or(MAX_LIMIT).min(MAX_LIMIT)
}

/// Writes the records of a page, and returns their number.
fn write(list: &str, raw: &[u8], rows: &mut Rows<'_>) -> Outcome<u64> {
    let body = String::from_utf8_lossy(raw);
    let items = match Record::read(&body) {
        Some(record) => record.items(list),
        None => serde_json::from_str(&body).unwrap_or_default(),
    };
    for item in &items {
        rows.push(item.get())?;
    }
    rows.page()?;
    Ok(u64::try_from(items.len()).unwrap_or(u64::MAX))
}
