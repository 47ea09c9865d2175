//! Lists: one page, all pages, or all items, fetched on demand.

use std::collections::HashSet;
use std::future::{IntoFuture, poll_fn};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll};

use deeplink_core::event::{EventFilter, EventList, MAX_EVENTS};
use deeplink_core::export::{AccountExport, MAX_RECORDS};
use deeplink_core::link::{LinkFilter, LinkList};
use deeplink_core::page::Page;
use deeplink_core::routes::{self, Route};
use deeplink_core::webhook::{DeliveryList, DeliveryStatus};
use futures_core::Stream;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::error::{Error, Kind, Result};
use crate::send::Reply;
use crate::transport::BoxFuture;

/// What can be listed in pages, and how a page is requested.
mod listed {
    use deeplink_core::page::{MAX_LIMIT, Page};

    use crate::call::Call;
    use crate::connection::Connection;
    use crate::error::Result;

    /// A query with a paginated result.
    pub trait Listed: Clone + Unpin {
        /// One page.
        type Page: Page<Item: Unpin> + Send + 'static;

        /// Maximum items of a page, and their number unless set.
        const MAX_LIMIT: u32 = MAX_LIMIT;

        /// The rule of the service that the query breaks, if any.
        fn check(&self) -> Result<()>;
        /// Requests a page, without limit and cursor.
        fn ask(&self, connection: &Connection) -> Call<Self::Page>;
    }
}

use listed::Listed;

impl Listed for LinkFilter {
    type Page = LinkList;

    fn check(&self) -> Result<()> {
        Self::check(self).map(drop).map_err(Error::invalid)
    }

    fn ask(&self, connection: &Connection) -> Call<LinkList> {
        call::json(connection, &routes::LIST_LINKS, &[]).query(self)
    }
}

impl Listed for EventFilter {
    type Page = EventList;

    const MAX_LIMIT: u32 = MAX_EVENTS;

    fn check(&self) -> Result<()> {
        Self::check(self).map_err(Error::invalid)
    }

    fn ask(&self, connection: &Connection) -> Call<EventList> {
        call::json(connection, &routes::LIST_EVENTS, &[]).query(self)
    }
}

/// Everything that an account has.
#[derive(Debug, Clone)]
pub struct WholeAccount;

impl Listed for WholeAccount {
    type Page = AccountExport;

    const MAX_LIMIT: u32 = MAX_RECORDS;

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn ask(&self, connection: &Connection) -> Call<AccountExport> {
        call::json(connection, &routes::EXPORT_ACCOUNT, &[])
    }
}

/// Which deliveries are listed: those of a webhook.
#[derive(Debug, Clone)]
pub struct DeliveriesOf {
    webhook_id: String,
    status: Option<DeliveryStatus>,
}

impl Listed for DeliveriesOf {
    type Page = DeliveryList;

    fn check(&self) -> Result<()> {
        match &self.status {
            Some(DeliveryStatus::Unknown(_)) => Err(Error::validation("status", "not a valid delivery status")),
            _ => Ok(()),
        }
    }

    fn ask(&self, connection: &Connection) -> Call<DeliveryList> {
        #[derive(serde::Serialize)]
        struct Query<'a> {
            status: Option<&'a DeliveryStatus>,
        }
        let query = Query { status: self.status.as_ref() };
        call::json(connection, &routes::LIST_DELIVERIES, &[&self.webhook_id]).query(&query)
    }
}

/// A list without filters, such as that of an account's affiliates. Its number of items is bounded, so the list can be
/// awaited: `client.affiliates().list().await?` reads every page.
#[derive(Debug)]
pub struct Listing<P> {
    route: &'static Route,
    /// The path's parameter, if it has one.
    within: Option<String>,
    decode: fn(&Reply) -> Result<P>,
}

impl<P> Clone for Listing<P> {
    fn clone(&self) -> Self {
        Self { route: self.route, within: self.within.clone(), decode: self.decode }
    }
}

impl<P: Page<Item: Unpin> + Send + 'static> Listed for Listing<P> {
    type Page = P;

    fn check(&self) -> Result<()> {
        Ok(())
    }

    fn ask(&self, connection: &Connection) -> Call<P> {
        Call::new(connection, call::draft(self.route, self.within.as_deref().as_slice()), self.decode)
    }
}

/// One page of a list that the service returns as a bare array.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArrayPage<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next page starts; `None` on the last one.
    pub next_cursor: Option<String>,
}

impl<T> Page for ArrayPage<T> {
    type Item = T;

    fn next_cursor(&self) -> Option<&str> {
        self.next_cursor.as_deref()
    }

    fn into_items(self) -> Vec<T> {
        self.items
    }
}

/// A list, as pages or items.
#[derive(Debug, Clone)]
#[must_use]
pub struct Pages<L: Listed> {
    connection: Connection,
    list: L,
    limit: u32,
    cursor: Option<String>,
    prefetch: bool,
}

/// A list of links, as pages or items; see [`crate::Links::list`].
pub type LinkPages = Pages<LinkFilter>;

/// A list of events, as pages or items; see [`crate::Events::list`].
pub type EventPages = Pages<EventFilter>;

/// An export, as pages or items; see [`crate::AccountSettings::export`].
pub type ExportPages = Pages<WholeAccount>;

/// A list of deliveries, as pages or items; see [`crate::Webhooks::deliveries`].
pub type DeliveryPages = Pages<DeliveriesOf>;

impl DeliveryPages {
    pub(crate) fn of(connection: Connection, webhook_id: &str) -> Self {
        Self::new(connection, DeliveriesOf { webhook_id: webhook_id.to_owned(), status: None })
    }

    /// Only deliveries with this status.
    pub fn status(mut self, status: DeliveryStatus) -> Self {
        self.list.status = Some(status);
        self
    }
}

impl<P: Page<Item: Unpin> + DeserializeOwned + Send + 'static> Pages<Listing<P>> {
    /// A list that the service returns as an object with a `next_cursor`.
    pub(crate) fn listing(connection: &Connection, route: &'static Route, within: Option<&str>) -> Self {
        let within = within.map(str::to_owned);
        Self::new(connection.clone(), Listing { route, within, decode: decode::json })
    }
}

impl<T: DeserializeOwned + Unpin + Send + 'static> Pages<Listing<ArrayPage<T>>> {
    /// A list that the service returns as a bare array.
    pub(crate) fn array(connection: &Connection, route: &'static Route) -> Self {
        Self::new(connection.clone(), Listing { route, within: None, decode: decode::array_page })
    }
}

/// Every item, from all pages.
impl<P: Page<Item: Unpin + Send> + Send + 'static> IntoFuture for Pages<Listing<P>> {
    type Output = Result<Vec<P::Item>>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        let mut pages = self.pages();
        Box::pin(async move {
            let mut all = Vec::new();
            while let Some(page) = poll_fn(|context| Pin::new(&mut pages).poll_next(context)).await {
                all.extend(page?.into_items());
            }
            Ok(all)
        })
    }
}

impl<L: Listed> Pages<L> {
    pub(crate) fn new(connection: Connection, list: L) -> Self {
        Self { connection, list, limit: L::MAX_LIMIT, cursor: None, prefetch: false }
    }

    /// Items per page: 1 to 100, or 1 to 1,000 for events and exports; the maximum by default.
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
    pub fn first_page(&self) -> Call<L::Page> {
        self.page(self.cursor.as_deref())
    }

    /// All pages.
    pub fn pages(self) -> PageStream<L> {
        let cursor = self.cursor.clone();
        let seen = cursor.iter().map(|cursor| fingerprint(cursor)).collect();
        PageStream { next: Next::At(cursor.clone()), cursor, seen, list: self }
    }

    /// All items.
    pub fn items(self) -> ItemStream<L> {
        ItemStream { pages: self.pages(), items: Vec::new().into_iter() }
    }

    fn page(&self, cursor: Option<&str>) -> Call<L::Page> {
        #[derive(serde::Serialize)]
        struct PageQuery<'a> {
            limit: u32,
            cursor: Option<&'a str>,
        }
        let limit = self.limit;
        let checked = self.list.check().and_then(|()| {
            if (1..=L::MAX_LIMIT).contains(&limit) {
                return Ok(());
            }
            Err(Error::validation("limit", format!("limit must be a number from 1 to {}", L::MAX_LIMIT)))
        });
        self.list.ask(&self.connection).query(&PageQuery { limit, cursor }).checked(checked)
    }
}

/// The state of a stream of pages.
enum Next<P> {
    /// The page at this cursor is not requested yet.
    At(Option<String>),
    /// It was requested.
    Coming(BoxFuture<'static, Result<P>>),
    /// The list returned an earlier cursor: continuing would be a loop.
    Loop,
    End,
}

/// All pages of a list, one at a time; it ends after the first error, and [`PageStream::cursor`] resumes.
#[must_use = "streams do nothing unless polled"]
pub struct PageStream<L: Listed = LinkFilter> {
    list: Pages<L>,
    next: Next<L::Page>,
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

impl<L: Listed> PageStream<L> {
    /// Where the next page starts: pass it to [`Pages::cursor`] to continue later.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    fn ask(&self, cursor: Option<&str>) -> Next<L::Page> {
        Next::Coming(std::future::IntoFuture::into_future(self.list.page(cursor)))
    }

    /// As [`PageStream::ask`], but sent immediately rather than when polled.
    fn ask_ahead(&self, cursor: &str) -> Next<L::Page> {
        let call = self.list.page(Some(cursor));
        // Dropping the set cancels the request.
        let mut task = JoinSet::new();
        task.spawn(std::future::IntoFuture::into_future(call));
        Next::Coming(Box::pin(async move {
            match task.join_next().await {
                Some(Ok(page)) => page,
                Some(Err(failed)) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                _ => Err(Error::from_source(
                    Kind::Transport,
                    "the page request was canceled",
                    "the runtime is shutting down",
                )),
            }
        }))
    }

    /// Sets up the request for the next page.
    fn turn(&mut self, page: Result<L::Page>) -> Result<L::Page> {
        self.next = Next::End;
        let page = page?;
        self.cursor = page.next_cursor().map(str::to_owned);
        if let Some(cursor) = page.next_cursor() {
            self.next = match self.seen.insert(fingerprint(cursor)) {
                false => Next::Loop,
                true if self.list.prefetch => self.ask_ahead(cursor),
                true => Next::At(Some(cursor.to_owned())),
            };
        }
        Ok(page)
    }
}

impl<L: Listed> Stream for PageStream<L> {
    type Item = Result<L::Page>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Next::At(cursor) = &this.next {
            this.next = this.ask(cursor.as_deref());
        }
        if matches!(this.next, Next::Loop) {
            this.next = Next::End;
            let why = "next_cursor was returned before";
            return Poll::Ready(Some(Err(Error::from_source(
                Kind::Decode,
                "the service returned the same page twice",
                why,
            ))));
        }
        let Next::Coming(coming) = &mut this.next else { return Poll::Ready(None) };
        coming.as_mut().poll(context).map(|page| Some(this.turn(page)))
    }
}

impl<L: Listed> std::fmt::Debug for PageStream<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageStream").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// All items of a list; it ends after the first error.
#[must_use = "streams do nothing unless polled"]
pub struct ItemStream<L: Listed = LinkFilter> {
    pages: PageStream<L>,
    items: std::vec::IntoIter<<L::Page as Page>::Item>,
}

impl<L: Listed> ItemStream<L> {
    /// Where the page after the current one starts.
    pub fn cursor(&self) -> Option<&str> {
        self.pages.cursor()
    }
}

impl<L: Listed> std::fmt::Debug for ItemStream<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemStream").field("pages", &self.pages).finish_non_exhaustive()
    }
}

impl<L: Listed> Stream for ItemStream<L> {
    type Item = Result<<L::Page as Page>::Item>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(item) = this.items.next() {
                return Poll::Ready(Some(Ok(item)));
            }
            match Pin::new(&mut this.pages).poll_next(context) {
                // An empty page with a cursor is not the end.
                Poll::Ready(Some(Ok(page))) => this.items = page.into_items().into_iter(),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
