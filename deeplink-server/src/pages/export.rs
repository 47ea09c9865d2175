//! Everything that the account has as one file, a record on each line.

use axum::extract::State;
use http::HeaderValue;

use super::PageResult;
use super::download::{self, FilePage, PAGE_SIZE, Pages};
use super::person::Person;
use crate::api;
use crate::caller::Caller;
use crate::error::ApiError;
use crate::state::{App, Shared};

/// Sends the file.
pub(super) async fn download(State(app): State<Shared>, person: Person) -> PageResult {
    download::send(app, person, Records).await
}

struct Records;

impl Pages for Records {
    const NAME: [&'static str; 2] = ["deeplink-", ".jsonl"];
    const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/x-ndjson");

    async fn page(&self, app: &App, caller: &Caller, cursor: Option<&str>) -> Result<FilePage, ApiError> {
        let page = api::export::page_of(app, caller, cursor, PAGE_SIZE).await?;
        let mut lines = Vec::new();
        for record in &page.records {
            serde_json::to_writer(&mut lines, record).map_err(|error| ApiError::Internal(error.to_string()))?;
            lines.push(b'\n');
        }
        Ok(FilePage { bytes: lines.into(), next: page.next_cursor })
    }
}
