//! Everything that the account has as one file, a record on each line. It is read page by page, as fast as the browser
//! takes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::IntoResponse;
use deeplink_core::error::ErrorCode;
use deeplink_core::export::AccountExport;
use deeplink_core::id::SessionId;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use super::PageResult;
use super::person::Person;
use super::time;
use crate::api;
use crate::caller::Caller;
use crate::db::sessions;
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::shares::limit::Permit;
use crate::state::Shared;

/// Records that are in memory at once: at most 1 MB, and usually much less. Each part of the file counts as unread until the
/// client accepts it, so larger ones would be refused to others.
const PAGE_SIZE: u32 = 64;
/// How often a page is asked for while the account's share of lists is in use.
const TRIES: u32 = 30;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Sends the file. What fails before its first line is an error page; later the download ends early.
pub(super) async fn download(State(app): State<Shared>, person: Person) -> PageResult {
    let Some(permit) = app.exports.try_acquire(person.caller.share()) else {
        let message = "this account has two exports in progress; wait until one of them ends";
        return Err(ApiError::TryLater(ErrorCode::Overloaded, message, RETRY_DELAY.as_secs()));
    };
    let first = api::export::page_of(&app, &person.caller, None, PAGE_SIZE).await?;
    let day = time::date(app.clock.now(), &person.who.zone);
    let name = format!("attachment; filename=\"deeplink-{day}.jsonl\"");
    let name = HeaderValue::try_from(name).map_err(|error| ApiError::Internal(error.to_string()))?;
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (CONTENT_DISPOSITION, name),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        NO_STORE,
    ];
    let (session, next) = (person.who.session.clone(), Next::Page(first));
    let rest = Rest { app, session, caller: person.caller, next, _permit: permit };
    Ok((headers, Body::from_stream(stream::unfold(rest, Rest::lines))).into_response())
}

/// What was not sent yet.
struct Rest {
    app: Shared,
    caller: Arc<Caller>,
    /// The download ends with it.
    session: SessionId,
    next: Next,
    _permit: Permit,
}

enum Next {
    Page(AccountExport),
    At(String),
    End,
}

impl Rest {
    /// The next lines, and what comes after them.
    async fn lines(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let page = match std::mem::replace(&mut self.next, Next::End) {
            Next::Page(page) => Ok(page),
            Next::At(cursor) => self.page_at(&cursor).await,
            Next::End => return None,
        };
        let lines = page.and_then(|page| {
            let lines = lines_of(&page);
            self.next = page.next_cursor.map_or(Next::End, Next::At);
            lines
        });
        let lines = lines.map_err(|error| {
            tracing::warn!(%error, tenant = %self.caller.tenant, "export of an account ended early");
            io::Error::other(error.to_string())
        });
        Some((lines, self))
    }

    async fn page_at(&self, cursor: &str) -> Result<AccountExport, ApiError> {
        let mut tries = 0;
        loop {
            if self.app.stopping.load(Ordering::Relaxed) {
                return Err(ApiError::Internal("the service is stopping".to_owned()));
            }
            if !sessions::is_live(&mut self.app.db.read().await?.conn(), &self.session, self.app.clock.now()).await? {
                return Err(ApiError::unauthorized());
            }
            tries += 1;
            match api::export::page_of(&self.app, &self.caller, Some(cursor), PAGE_SIZE).await {
                Err(error) if tries < TRIES && error.status().is_server_error() => {
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                settled => return settled,
            }
        }
    }
}

fn lines_of(page: &AccountExport) -> Result<Bytes, ApiError> {
    let mut lines = Vec::new();
    for record in &page.records {
        serde_json::to_writer(&mut lines, record).map_err(|error| ApiError::Internal(error.to_string()))?;
        lines.push(b'\n');
    }
    Ok(lines.into())
}
