//! Lists without filters, a page at a time. Rows are in the order of their ids, newest first. Where the body is an object,
//! its `next_cursor` says where the next page begins; where it is a bare array, a `Link` header does (RFC 8288).

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse, Response};
use deeplink_core::id::TenantId;
use deeplink_core::page::{MAX_LIMIT, limit};
use futures_util::future::BoxFuture;
use http::header::{HeaderValue, LINK};
use serde::{Deserialize, Serialize};

use super::cursor;
use super::extract::Query;
use crate::caller::Caller;
use crate::db::pages::Span;
use crate::db::{Conn, DbError};
use crate::error::ApiError;
use crate::state::App;

/// Which page a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest<'a> {
    limit: u32,
    cursor: Option<&'a str>,
}

impl<'a> PageRequest<'a> {
    /// The page that `limit` and `cursor` ask for.
    pub(crate) fn read(query: &'a Query) -> Result<Self, ApiError> {
        Self::read_or(query, MAX_LIMIT)
    }

    /// The same, where a page is usually of this length.
    pub(crate) fn read_or(query: &'a Query, usual: u32) -> Result<Self, ApiError> {
        Ok(Self { limit: limit(query.one("limit")?, usual)?, cursor: query.one("cursor")? })
    }

    /// A page of at most this length, or of the usual one if that is shorter.
    pub(crate) fn within(limit: u32, cursor: Option<&'a str>) -> Self {
        Self { limit: limit.min(MAX_LIMIT), cursor }
    }

    /// A page of the usual length: the first, or the one at a cursor.
    pub(crate) fn at(cursor: Option<&'a str>) -> Self {
        Self { limit: MAX_LIMIT, cursor }
    }

    /// Begins to read one of the caller's lists, named by its path. Nothing is read until it is verified who pays.
    pub(crate) fn of<'b>(
        self,
        app: &'b App,
        caller: &'b Caller,
        list: impl Into<Cow<'b, str>>,
    ) -> Result<Paging<'b>, ApiError> {
        let list = list.into();
        caller.form_is_valid()?;
        let after = self.cursor.map(|text| cursor::read::<After<'_>>(&list, text, &app.vault, caller)).transpose()?;
        // One more than asked for tells whether there is a next page.
        let span = Span { before: after.map(|after| after.id.into_owned()), rows: i64::from(self.limit) + 1 };
        Ok(Paging { app, caller, list, limit: self.limit, span })
    }
}

/// A position in a list.
#[derive(Serialize, Deserialize)]
struct After<'a> {
    /// The id of the last row that was shown.
    #[serde(rename = "p")]
    id: Cow<'a, str>,
}

/// A page that is being read.
pub(crate) struct Paging<'a> {
    app: &'a App,
    caller: &'a Caller,
    list: Cow<'a, str>,
    limit: u32,
    /// The rows to read.
    span: Span,
}

impl Paging<'_> {
    /// Reads the rows, within the account's share of lists and reports.
    pub(crate) async fn read<R, F>(&self, work: F) -> Result<Vec<R>, ApiError>
    where
        R: Send + 'static,
        F: for<'c> FnOnce(Conn<'c>, TenantId, Span) -> BoxFuture<'c, Result<Vec<R>, DbError>> + Send + 'static,
    {
        let span = self.span.clone();
        self.app.report(self.caller, move |db, tenant| work(db, tenant, span)).await
    }

    /// Truncates the rows that were read to those of the page, and returns where the next one begins.
    pub(crate) fn end<R>(&self, rows: &mut Vec<R>, id: impl Fn(&R) -> &str) -> Result<Option<String>, ApiError> {
        let more = rows.len() > self.limit as usize;
        rows.truncate(self.limit as usize);
        let Some(last) = rows.last().filter(|_| more) else { return Ok(None) };
        let after = After { id: id(last).into() };
        cursor::write(&self.list, &after, &self.app.vault, self.caller).map(Some)
    }

    /// The answer whose body is a bare array.
    pub(crate) fn array<T>(&self, items: Vec<T>, next_cursor: Option<String>) -> ArrayPage<T> {
        let base = self.app.public_url.as_str().trim_end_matches('/');
        let link = next_cursor.as_ref().map(|cursor| {
            // Cursors are base64 for URLs, and paths of lists have nothing to encode.
            format!("<{base}{}?limit={}&cursor={cursor}>; rel=\"next\"", self.list, self.limit)
        });
        ArrayPage { items, next_cursor, link }
    }
}

/// A page that is answered as a bare array.
pub(crate) struct ArrayPage<T> {
    pub(crate) items: Vec<T>,
    /// Where the next page begins.
    pub(crate) next_cursor: Option<String>,
    link: Option<String>,
}

impl<T: Serialize> IntoResponse for ArrayPage<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.items).into_response();
        if let Some(link) = self.link.and_then(|link| HeaderValue::from_str(&link).ok()) {
            response.headers_mut().insert(LINK, link);
        }
        response
    }
}
