//! Files that are too large to be in memory: they are read page by page, as fast as the browser takes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use deeplink_core::error::ErrorCode;
use deeplink_core::id::SessionId;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use tokio::time::Instant;

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
/// How long reading a page is retried while the account's share of lists is in use.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
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
        retried(|| self.check(), || self.pages.page(&self.app, &self.caller, Some(cursor))).await
    }

    /// Fails once the service is stopping or the session has ended.
    async fn check(&self) -> Result<(), ApiError> {
        if self.app.stopping.load(Ordering::Relaxed) {
            return Err(ApiError::Internal("the service is stopping".to_owned()));
        }
        if !sessions::is_live(&mut self.app.db.read().await?.conn(), &self.session, self.app.clock.now()).await? {
            return Err(ApiError::unauthorized());
        }
        Ok(())
    }
}

/// Reads a page, and retries for [`RETRY_TIMEOUT`] if the service cannot read it now. An error of `check`, which precedes each
/// attempt, is final.
async fn retried<T, C, R>(mut check: impl FnMut() -> C, mut read: impl FnMut() -> R) -> Result<T, ApiError>
where
    C: Future<Output = Result<(), ApiError>>,
    R: Future<Output = Result<T, ApiError>>,
{
    let until = Instant::now() + RETRY_TIMEOUT;
    loop {
        check().await?;
        match read().await {
            Err(error) if Instant::now() < until && error.status().is_server_error() => {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            settled => return settled,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    /// The status of the result if a read fails with this error for some seconds, and the number of reads.
    async fn outcome(error: fn() -> ApiError, failing_secs: u64, live_secs: u64) -> (u16, u64) {
        let (begun, mut reads) = (Instant::now(), 0);
        let has_passed = |secs| begun.elapsed() >= Duration::from_secs(secs);
        let read = || {
            reads += 1;
            ready(if has_passed(failing_secs) { Ok(()) } else { Err(error()) })
        };
        let check = || ready(if has_passed(live_secs) { Err(ApiError::unauthorized()) } else { Ok(()) });
        let settled = retried(check, read).await;
        (settled.map_or_else(|error| error.status().as_u16(), |()| 200), reads)
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_cannot_be_read_is_retried_for_half_a_minute() {
        let overloaded: fn() -> ApiError = || ApiError::TryLater(ErrorCode::Overloaded, "the share is in use", 1);
        let invalid: fn() -> ApiError = || ApiError::bad_request("another cursor");
        for (error, failing_secs, live_secs, expected) in [
            (overloaded, 0, 60, (200, 1)),
            (overloaded, 1, 60, (200, 2)),
            (overloaded, 29, 60, (200, 30)),
            (overloaded, 30, 60, (200, 31)),
            (overloaded, 31, 60, (503, 31)),
            (overloaded, 600, 60, (503, 31)),
            // What is no overload, and the end of the session, are final.
            (invalid, 5, 60, (400, 1)),
            (overloaded, 600, 0, (401, 0)),
            (overloaded, 600, 5, (401, 5)),
        ] {
            let begun = Instant::now();
            assert_eq!(outcome(error, failing_secs, live_secs).await, expected, "{failing_secs} {live_secs}");
            assert!(begun.elapsed() < RETRY_TIMEOUT + RETRY_DELAY, "{:?}", begun.elapsed());
        }
    }
}
