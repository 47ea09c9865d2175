//! Search in an account's links: for a text that is contained, without case, in what the owner wrote, for links that
//! the owner enabled or disabled, and for those with a host in their URL; in the order of the list.
//!
//! No index answers these. So one search looks at a bounded number of the links that pass the filters on index entries, a
//! window of positions at a time, begins no window after a while, and says where it stopped. Windows are small while rows
//! are read slowly, as after a restart, so that the last one ends soon. Where few entries pass, a window may read all of the
//! account's, until the report's own time is over. The database compares ASCII, which leaves few rows to read; those are
//! compared again here, by Unicode's lower case, in the parts of them that are searched.

use std::time::{Duration, Instant};

use deeplink_core::link::{Alias, LinkFilter, LinkStatus};
use deeplink_core::metadata::Metadata;
use deeplink_core::tag::Tag;
use tokio::task::yield_now;

use super::link_list::{Found, ListRequest, Window};
use super::links::{Link, Row};
use super::{Conn, DbError, on, tags};

/// Links that the first window looks at.
const FIRST_WINDOW: u32 = 500;
/// The fewest and the most that any window looks at.
const WINDOW: [u32; 2] = [100, 1_000];
/// The most if all of them are read: up to 7 MB.
const WHOLE_WINDOW: u32 = 500;
/// How long a window may take before the next one is smaller.
const WINDOW_TIME: Duration = Duration::from_millis(25);
/// Links that are compared before other tasks have their turn: each takes up to 0.1 ms.
const AT_ONCE: usize = 16;
/// Most links that one search looks at, of those that pass the filters on index entries.
const MAX_LOOKED_AT: u32 = 50_000;
/// How long one search begins new windows.
const MAX_TIME: Duration = Duration::from_millis(165);

/// Whether a filter needs a search.
pub(crate) fn is_needed(filter: &LinkFilter) -> bool {
    filter.q.as_deref().is_some_and(|text| !text.is_empty()) || filter.enabled.is_some() || filter.domain.is_some()
}

/// Whether no link can match: one that its owner disabled is `disabled`, or what the operator says.
fn matches_nothing(filter: &LinkFilter) -> bool {
    filter.enabled == Some(false) && matches!(filter.status, Some(LinkStatus::Active | LinkStatus::Expired))
}

/// The next links of a list, up to its limit. An affiliate, who is not shown names and tags, finds nothing by them.
pub(crate) async fn search(db: &mut Conn<'_>, list: &ListRequest<'_>) -> Result<Found, DbError> {
    if matches_nothing(list.filter) {
        return Ok(Found::default());
    }
    let began = Instant::now();
    let ListRequest { tenant, is_affiliate, filter, limit, .. } = *list;
    let text = filter.q.as_deref().unwrap_or_default().to_lowercase();
    let pattern = pattern(&text);
    let Some(filtered) = tags::filtered(db, tenant, &filter.tags).await? else { return Ok(Found::default()) };
    let looks_at_tags = pattern.is_some() && !is_affiliate;
    let containing = if looks_at_tags { tags::containing(db, tenant, &text).await? } else { Vec::new() };
    let [_, most] = WINDOW;
    let (most, most_read) = match &pattern {
        // The database finds the links by itself, so no more are read than asked for.
        None if text.is_empty() => (most, limit + 1),
        None => (WHOLE_WINDOW, WHOLE_WINDOW),
        Some(_) => (most, most),
    };
    let (mut links, mut last, mut looked_at, mut window) = (Vec::new(), list.last, 0, FIRST_WINDOW);
    loop {
        let window_began = Instant::now();
        let whole = Window { list, tags: &filtered, last, until: None, limit: window };
        let until: Option<i64> = on!(db, c => whole.end().build_query_scalar().fetch_optional(c).await)?;
        let part = Window { until, limit: most_read, ..whole };
        let like = pattern.as_deref().map(|pattern| (pattern, &*containing));
        let rows: Vec<Row> = on!(db, c => part.query("", like).build_query_as().fetch_all(c).await)?;
        let compare = |row| {
            let mut link = Link::try_from(row)?;
            if is_affiliate {
                link.hide_from_affiliate();
            }
            if contains(&link, &text) {
                links.push(link);
            }
            Ok(())
        };
        in_turns(rows, compare).await?;
        looked_at += window;
        let is_full = links.len() > limit as usize;
        if is_full || until.is_none() || looked_at >= MAX_LOOKED_AT || began.elapsed() >= MAX_TIME {
            return Ok(Found::of(links, limit, until));
        }
        last = until;
        window = next_window(window, window_began.elapsed(), looked_at).min(most);
    }
}

/// How many links the window looks at that follows one of `window` links, which took this long: no more than are left of
/// those that the search may look at.
fn next_window(window: u32, took: Duration, looked_at: u32) -> u32 {
    let next = if took > WINDOW_TIME {
        window / 2
    } else if took < WINDOW_TIME / 2 {
        window * 2
    } else {
        window
    };
    let [fewest, most] = WINDOW;
    next.clamp(fewest, most).min(MAX_LOOKED_AT.saturating_sub(looked_at))
}

/// Calls `each` with every item, and lets other tasks have their turn from time to time.
async fn in_turns<T>(items: Vec<T>, mut each: impl FnMut(T) -> Result<(), DbError>) -> Result<(), DbError> {
    for (nth, item) in (1..).zip(items) {
        each(item)?;
        if nth % AT_ONCE == 0 {
            yield_now().await;
        }
    }
    Ok(())
}

/// The text as a pattern of the database's, which knows upper and lower case of ASCII alone. `None`: not every row that
/// contains it would match, because it has other letters, or what JSON escapes.
fn pattern(text: &str) -> Option<String> {
    let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    let escaped = text.replace('%', r"\%").replace('_', r"\_");
    (!text.is_empty() && text.bytes().all(is_plain)).then(|| format!("%{escaped}%"))
}

/// Whether it contains a lowercase text.
pub(super) fn contains(link: &Link, text: &str) -> bool {
    let content = &link.content;
    let title = content.social_preview.as_ref().and_then(|preview| preview.title.as_deref());
    let metadata = content.metadata.as_ref().map(Metadata::as_str);
    let urls = content.urls().map(|(_, url)| url);
    let texts = [Some(link.link_id.as_str()), content.name.as_deref(), title, metadata];
    let tags = content.tags.iter().map(Tag::as_str);
    // The lower case of ASCII is ASCII, and looking for other letters costs much less.
    let may_contain = |one: &str| text.is_ascii() || !one.is_ascii();
    let aliases = content.aliases.iter().map(Alias::as_str);
    let mut all = texts.into_iter().flatten().chain(urls).chain(tags).chain(aliases);
    all.any(|one| may_contain(one) && one.to_lowercase().contains(text))
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use futures_util::FutureExt;

    use super::*;

    /// R3: a window that took long is followed by a smaller one.
    #[test]
    fn r3_windows_of_a_search_follow_its_speed() {
        let after = |millis| next_window(400, Duration::from_millis(millis), 0);
        assert_eq!([1, 12, 13, 25, 26, 500].map(after), [800, 800, 400, 400, 200, 200]);
    }

    /// R3: a search looks at no more links than it may, however long its windows take.
    #[test]
    fn r3_the_windows_of_a_search_end_at_its_limit() {
        for millis in [0, 20, 30] {
            let (mut window, mut looked_at) = (FIRST_WINDOW, 0);
            while looked_at < MAX_LOOKED_AT {
                looked_at += window;
                window = next_window(window, Duration::from_millis(millis), looked_at);
                assert!(window <= WINDOW[1] && (window > 0 || looked_at >= MAX_LOOKED_AT), "{window} {looked_at}");
            }
            assert_eq!(looked_at, MAX_LOOKED_AT, "{millis} ms");
        }
    }

    /// R3: a search compares a few links, and then others have their turn.
    #[tokio::test]
    async fn r3_a_search_gives_others_their_turn() {
        let mut compared = Vec::new();
        let mut search = in_turns((0..100).collect(), |item: usize| {
            compared.push(item);
            Ok(())
        })
        .boxed_local();
        let mut turns = 0;
        while search.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending() {
            turns += 1;
        }
        drop(search);
        assert_eq!((turns, compared), (100 / AT_ONCE, (0..100).collect()));
    }
}
