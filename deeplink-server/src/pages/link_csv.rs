//! The links of the list as a CSV file with the columns of an export by `dl`, so that an import can read it.

use axum::extract::State;
use deeplink_core::formula;
use deeplink_core::link::LinkFilter;
use deeplink_core::link::row::{COLUMNS, cells};
use http::HeaderValue;

use super::download::{self, FilePage, PAGE_SIZE, Pages};
use super::link_filter::LinkListQuery;
use super::person::Person;
use super::{PageResult, link_list};
use crate::api::{self, sheet};
use crate::caller::Caller;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::state::{App, Shared};

/// Sends the file.
pub(super) async fn download(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let list = LinkListQuery::parse(&query)?;
    let filter = list.filter(app.clock.now(), &person.who.zone).check()?;
    download::send(app, person, Links { filter, is_by_clicks: list.is_by_clicks() }).await
}

/// The links that match a filter.
struct Links {
    filter: LinkFilter,
    /// Whether they are those of the most clicked links, the one with the most clicks first.
    is_by_clicks: bool,
}

impl Pages for Links {
    const NAME: [&'static str; 2] = ["deeplink-links-", ".csv"];
    const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8");

    async fn page(&self, app: &App, caller: &Caller, cursor: Option<&str>) -> Result<FilePage, ApiError> {
        let (links, next) = if self.is_by_clicks {
            let most = link_list::most_clicked(app, caller, self.filter.clone()).await?;
            (most.into_iter().map(|(_, link)| link).collect(), None)
        } else {
            // A cursor has the filter of its list.
            let filter = if cursor.is_none() { self.filter.clone() } else { LinkFilter::new() };
            let found = api::link_list::list_for(app, caller, filter, cursor, PAGE_SIZE).await?;
            (found.links, found.next_cursor)
        };
        let mut lines = String::new();
        if cursor.is_none() {
            // Spreadsheets take the file for UTF-8 if it begins with a byte order mark.
            lines.push('\u{feff}');
            sheet::line(&mut lines, COLUMNS);
        }
        for link in &links {
            // People open the file in a spreadsheet, and affiliates can write texts of links, too.
            sheet::line(&mut lines, cells(link).iter().map(|cell| formula::defuse(cell)));
        }
        Ok(FilePage { bytes: lines.into(), next })
    }
}
