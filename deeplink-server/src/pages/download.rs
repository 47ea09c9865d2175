//! Files that are too large to be in memory: they are read page by page, as fast as the browser takes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use deeplink_core::error::ErrorCode;
use deeplink_core::id::SessionId;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::PageResult;
use super::person::Person;
use super::time;
use crate::caller::Caller;
use crate::db::sessions;
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::shares::limit::Permit;
use crate::state::{App, Shared};

/// Records of a page: usually much less than 1 MB. Each part of the file counts as unread until the client accepts it, so
/// larger ones would be refused to others.
pub(super) const PAGE_SIZE: u32 = 64;
/// How long a page is asked for again while the account's share of lists is in use.
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A file in pages.
pub(super) trait Pages: Send + Sync + 'static {
    /// The beginning and the end of its name, which has the day between them.
    const NAME: [&'static str; 2];
    const MEDIA_TYPE: HeaderValue;

    /// Reads the first page, or the one at a cursor.
    fn page(
        &self,
        app: &App,
        caller: &Caller,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<FilePage, ApiError>> + Send;
}

/// One page of a file.
pub(super) struct FilePage {
    pub(super) bytes: Bytes,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

/// Sends a file. What fails before its first page is an error page; later the download ends early.
pub(super) async fn send<P: Pages>(app: Shared, person: Person, pages: P) -> PageResult {
    let Some(permit) = app.exports.try_acquire(person.caller.share()) else {
        let message = "this account has two exports in progress; wait until one of them ends";
        return Err(ApiError::TryLater(ErrorCode::Overloaded, message, RETRY_DELAY.as_secs()));
    };
    let first = pages.page(&app, &person.caller, None).await?;
    let day = time::date(app.clock.now(), &person.who.zone);
    let name = format!("attachment; filename=\"{}\"", P::NAME.join(&*day));
    let name = HeaderValue::try_from(name).map_err(|error| ApiError::Internal(error.to_string()))?;
    let headers = [
        (CONTENT_TYPE, P::MEDIA_TYPE),
        (CONTENT_DISPOSITION, name),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        NO_STORE,
    ];
    let (session, next) = (person.who.session.clone(), Next::Page(first));
    let rest = Rest { app, session, caller: person.caller, pages, next, _permit: permit };
    Ok((headers, Body::from_stream(stream::unfold(rest, Rest::next))).into_response())
}

/// What was not sent yet.
struct Rest<P> {
    app: Shared,
    caller: Arc<Caller>,
    /// The download ends with it.
    session: SessionId,
    pages: P,
    next: Next,
    _permit: Permit,
}

enum Next {
    Page(FilePage),
    At(String),
    End,
}

impl<P: Pages> Rest<P> {
    /// The next part of the file, and what comes after it.
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let page = match std::mem::replace(&mut self.next, Next::End) {
            Next::Page(page) => Ok(page),
            Next::At(cursor) => self.page_at(&cursor).await,
            Next::End => return None,
        };
        let bytes = page.map(|page| {
            self.next = page.next.map_or(Next::End, Next::At);
            page.bytes
        });
        let bytes = bytes.map_err(|error| {
            tracing::warn!(%error, tenant = %self.caller.tenant, "download ended early");
            io::Error::other(error.to_string())
        });
        Some((bytes, self))
    }

    async fn page_at(&self, cursor: &str) -> Result<FilePage, ApiError> {
        let until = Instant::now() + PATIENCE;
        loop {
            if self.app.stopping.load(Ordering::Relaxed) {
                return Err(ApiError::Internal("the service is stopping".to_owned()));
            }
            if !sessions::is_live(&mut self.app.db.read().await?.conn(), &self.session, self.app.clock.now()).await? {
                return Err(ApiError::unauthorized());
            }
            match self.pages.page(&self.app, &self.caller, Some(cursor)).await {
                Err(error) if Instant::now() < until && error.status().is_server_error() => {
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                settled => return settled,
            }
        }
    }
}
