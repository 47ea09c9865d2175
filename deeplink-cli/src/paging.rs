//! Lists that come in pages.

use std::collections::HashSet;

use deeplink_core::page::MAX_LIMIT;

use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::output::{Record, Rows};

/// One page: the body as it came, and where the next one begins.
pub(crate) type Page = (Vec<u8>, Option<String>);

/// Writes up to `most` items of a list, a page at a time, and gives the cursor of what is left. `ask` is given the size of a
/// page and where it begins.
pub(crate) async fn through(
    list: &str,
    (start, most): (Option<String>, u64),
    rows: &mut Rows<'_>,
    ask: impl AsyncFn(u32, Option<String>) -> Outcome<Page>,
) -> Outcome<Option<String>> {
    let (mut cursor, mut left) = (start, most);
    let mut seen: HashSet<String> = cursor.iter().cloned().collect();
    loop {
        let size = u32::try_from(left).unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
        let (raw, next) = ask(size, cursor).await?;
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
