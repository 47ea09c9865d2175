//! Click counts over time.

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::time::Timestamp;
use crate::visitor::ClickKind;
use crate::words::{reply, words};

/// Longest window of a time series in days.
pub const MAX_WINDOW_DAYS: i64 = 400;
/// Default window of a time series, in days.
pub const DEFAULT_WINDOW_DAYS: i64 = 30;

words! {
    /// Width of a bucket.
    Granularity {
        /// One bucket a day, from midnight UTC.
        Daily = "daily",
        /// One bucket an hour.
        Hourly = "hourly",
    }
}

impl Granularity {
    /// Width of a bucket in milliseconds.
    pub const fn millis(&self) -> i64 {
        match self {
            Self::Hourly => 3_600_000,
            Self::Daily | Self::Unknown(_) => 86_400_000,
        }
    }
}

/// Parameters of a time series.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimeseriesQuery {
    /// Start; by default, 30 days before `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// End; by default, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Width of a bucket; by default, daily.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granularity: Option<Granularity>,
    /// Only clicks of this kind; by default, clicks by people and agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ClickKind>,
}

impl TimeseriesQuery {
    /// The last 30 days, by day.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies defaults and rules: `from` ≤ `to`, at most 400 days.
    pub fn window(&self, now: Timestamp) -> Result<(Timestamp, Timestamp, Granularity), Invalid> {
        let wrong = |field: &'static str, message: String| Err(Invalid::field(ErrorCode::BadRequest, field, message));
        let granularity = self.granularity.clone().unwrap_or(Granularity::Daily);
        if matches!(granularity, Granularity::Unknown(_)) {
            return wrong("granularity", "granularity must be daily or hourly".into());
        }
        let to = self.to.unwrap_or(now);
        let from = self.from.unwrap_or_else(|| to.plus_days(-DEFAULT_WINDOW_DAYS));
        if from > to {
            return wrong("from", "from must not be later than to".into());
        }
        if to > from.plus_days(MAX_WINDOW_DAYS) {
            return wrong("from", format!("the window must be at most {MAX_WINDOW_DAYS} days"));
        }
        Ok((from, to, granularity))
    }
}

reply! {
    /// Clicks on a link over time. Buckets without clicks are included, with 0.
    Timeseries {
        /// The link.
        link_id: String,
        /// Width of a bucket.
        granularity: Granularity,
        /// Start of the window.
        from: Timestamp,
        /// End of the window.
        to: Timestamp,
        /// The buckets that overlap the window, oldest first.
        data: Vec<Bucket>,
    }
}

/// Clicks in one interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bucket {
    /// Start of the interval: a date (`2026-11-20`) for daily, a time (`2026-11-20T09:00:00.000Z`) for hourly
    /// buckets.
    pub date: String,
    /// Clicks of the requested kind; by default, clicks by people and agents, excluding previews and crawlers.
    pub clicks: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_defaults_and_limits() {
        let now = Timestamp::from_millis(1_795_167_000_000);
        let ask = |from, to, granularity: Option<&str>| {
            TimeseriesQuery { from, to, granularity: granularity.map(Granularity::from), kind: None }.window(now)
        };
        assert_eq!(ask(None, None, None), Ok((now.plus_days(-30), now, Granularity::Daily)));
        assert!(ask(Some(now.plus_days(-400)), None, None).is_ok());
        for (query, field) in [
            (ask(Some(now.plus_days(-401)), None, None), "from"),
            (ask(Some(now.plus_millis(1)), None, None), "from"),
            (ask(None, None, Some("weekly")), "granularity"),
        ] {
            assert_eq!(query.map_err(|e| e.field), Err(Some(field.into())));
        }
    }
}
