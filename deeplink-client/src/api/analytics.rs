//! Results of links, from clicks to installs, users and conversions.

use deeplink_core::funnel::{FunnelQuery, FunnelReport};
use deeplink_core::routes;

use crate::call::{self, Call, Target};
use crate::connection::Connection;
use crate::{clock, decode, path};

/// Reports on links; see [`crate::Client::analytics`].
#[derive(Debug, Clone)]
pub struct Analytics(pub(crate) Connection);

impl Analytics {
    /// Reports the results of 1 to 100 links; unknown IDs count as zero.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{Credit, FunnelQuery};
    /// let report = dl.analytics().funnel(&FunnelQuery::new(["spring-42"]).credit(Credit::FirstTouch)).await?;
    /// assert_eq!(report.funnel.clicks, 120);
    /// assert_eq!(report.funnel.conversions["purchase"], 2);
    /// # Ok(()) });
    /// ```
    pub fn funnel(&self, query: &FunnelQuery) -> Call<FunnelReport> {
        call::json(&self.0, &routes::FUNNEL, &[]).query(query).valid(query.check(clock::now()))
    }
}

impl Call<FunnelReport> {
    /// Requests the report as CSV (RFC 4180): a line for each group or, without groups, a single line whose key is
    /// `total`. The first column is the key, and each type of conversion has its own column.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::{FunnelQuery, GroupBy};
    /// let query = FunnelQuery::new(["spring-42"]).group_by(GroupBy::Day);
    /// let csv = dl.analytics().funnel(&query).csv().await?;
    /// assert!(csv.starts_with("key,clicks,"));
    /// # Ok(()) });
    /// ```
    pub fn csv(self) -> Call<String> {
        let csv = self.edit(|draft| {
            if let Target::Path(path) = &mut draft.target {
                path::append_query(path, &[("format".to_owned(), "csv".to_owned())]);
            }
            Ok(())
        });
        csv.read_as(decode::csv)
    }
}
