//! Lists: one page, all pages, or all items, fetched as they are wanted.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};

use deeplink_core::link::{LinkDetail, LinkFilter, LinkList, LinkStatus};
use deeplink_core::page::MAX_LIMIT;
use deeplink_core::routes;
use futures_core::Stream;
use tokio::task::JoinSet;

use crate::call::{self, Call};
use crate::client::Client;
use crate::error::{Error, Kind, Result};
use crate::transport::BoxFuture;

/// A list of links that is about to be read; see [`crate::Links::list`].
#[derive(Debug, Clone)]
#[must_use]
pub struct LinkPages {
    client: Client,
    filter: LinkFilter,
    limit: u32,
    cursor: Option<String>,
    prefetch: bool,
}

impl LinkPages {
    pub(crate) fn new(client: Client, filter: LinkFilter) -> Self {
        Self { client, filter, limit: MAX_LIMIT, cursor: None, prefetch: false }
    }

    /// Items of a page, 1 to 100; 100 unless set.
    pub fn page_size(mut self, items: u32) -> Self {
        self.limit = items;
        self
    }

    /// Starts where an earlier page ended.
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// Fetches one page ahead while the current one is used.
    pub fn prefetch(mut self) -> Self {
        self.prefetch = true;
        self
    }

    /// One page: the first, or the one at the cursor.
    pub fn first_page(&self) -> Call<LinkList> {
        page(&self.client, &self.filter, self.limit, self.cursor.as_deref())
    }

    /// All pages.
    pub fn pages(self) -> PageStream {
        let cursor = self.cursor.clone();
        let seen = cursor.iter().map(|cursor| fingerprint(cursor)).collect();
        PageStream { next: Next::At(cursor.clone()), cursor, seen, list: self }
    }

    /// All links.
    pub fn items(self) -> ItemStream {
        ItemStream { pages: self.pages(), items: Vec::new().into_iter() }
    }
}

fn page(client: &Client, filter: &LinkFilter, limit: u32, cursor: Option<&str>) -> Call<LinkList> {
    #[derive(serde::Serialize)]
    struct Query<'a> {
        limit: u32,
        cursor: Option<&'a str>,
    }
    let checked = match &filter.status {
        Some(LinkStatus::Unknown(_)) => Err(Error::validation("status", "not a status that a link can have")),
        _ if !(1..=MAX_LIMIT).contains(&limit) => {
            Err(Error::validation("limit", format!("limit is a number from 1 to {MAX_LIMIT}")))
        }
        _ => Ok(()),
    };
    call::json(client, &routes::LIST_LINKS, &[]).query(filter).query(&Query { limit, cursor }).checked(checked)
}

/// Where a stream of pages stands.
enum Next {
    /// The page at this cursor is not asked for yet.
    At(Option<String>),
    /// It is on its way.
    Coming(BoxFuture<'static, Result<LinkList>>),
    /// The list has named a page that was read before: going on would be a loop.
    Loop,
    End,
}

/// All pages of a list, one at a time; it ends after the first error, and [`PageStream::cursor`] resumes.
#[must_use = "streams do nothing unless polled"]
pub struct PageStream {
    list: LinkPages,
    next: Next,
    /// The cursor of the page that comes next, or that failed.
    cursor: Option<String>,
    /// Every cursor so far, as a hash.
    seen: HashSet<u64>,
}

fn fingerprint(cursor: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    cursor.hash(&mut hasher);
    hasher.finish()
}

impl PageStream {
    /// Where the next page starts: give it to [`LinkPages::cursor`] to go on later.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    fn ask(&self, cursor: Option<&str>) -> Next {
        let call = page(&self.list.client, &self.list.filter, self.list.limit, cursor);
        Next::Coming(std::future::IntoFuture::into_future(call))
    }

    /// As [`PageStream::ask`], but under way at once and not only when polled.
    fn ask_ahead(&self, cursor: &str) -> Next {
        let call = page(&self.list.client, &self.list.filter, self.list.limit, Some(cursor));
        // Dropping the set gives the request up.
        let mut task = JoinSet::new();
        task.spawn(std::future::IntoFuture::into_future(call));
        Next::Coming(Box::pin(async move {
            match task.join_next().await {
                Some(Ok(page)) => page,
                Some(Err(failed)) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                _ => Err(Error::from_source(Kind::Transport, "the page was given up", "the runtime is shutting down")),
            }
        }))
    }

    /// What follows the page that has come.
    fn turn(&mut self, page: Result<LinkList>) -> Result<LinkList> {
        self.next = Next::End;
        let page = page?;
        self.cursor.clone_from(&page.next_cursor);
        if let Some(cursor) = &page.next_cursor {
            self.next = match self.seen.insert(fingerprint(cursor)) {
                false => Next::Loop,
                true if self.list.prefetch => self.ask_ahead(cursor),
                true => Next::At(Some(cursor.clone())),
            };
        }
        Ok(page)
    }
}

impl Stream for PageStream {
    type Item = Result<LinkList>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Next::At(cursor) = &this.next {
            this.next = this.ask(cursor.as_deref());
        }
        if matches!(this.next, Next::Loop) {
            this.next = Next::End;
            let why = "next_cursor is one that came before";
            return Poll::Ready(Some(Err(Error::from_source(Kind::Decode, "the list repeats a page", why))));
        }
        let Next::Coming(coming) = &mut this.next else { return Poll::Ready(None) };
        coming.as_mut().poll(context).map(|page| Some(this.turn(page)))
    }
}

impl std::fmt::Debug for PageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageStream").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// All items of a list; it ends after the first error.
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
pub struct ItemStream {
    pages: PageStream,
    items: std::vec::IntoIter<LinkDetail>,
}

impl ItemStream {
    /// Where the page after the current one starts.
    pub fn cursor(&self) -> Option<&str> {
        self.pages.cursor()
    }
}

impl Stream for ItemStream {
    type Item = Result<LinkDetail>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(item) = this.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            match Pin::new(&mut this.pages).poll_next(context) {
                // An empty page with a cursor goes on.
                Poll::Ready(Some(Ok(page))) => this.items = page.links.into_iter(),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
