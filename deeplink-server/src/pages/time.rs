//! Times formatted for people. The server does not know the reader's time zone, so they are in UTC.

use std::fmt;

use deeplink_core::time::Timestamp;

/// A point in time: the day for people, the full timestamp for machines.
pub(super) struct DisplayTime(Timestamp);

impl DisplayTime {
    /// The day in ISO form, such as `2026-11-20`.
    pub(super) fn date(&self) -> String {
        self.rfc3339().split('T').next().unwrap_or_default().to_owned()
    }

    /// The day and the time to the second, such as `20 Nov 2026, 09:30:00`.
    pub(super) fn date_time(&self) -> String {
        let text = self.rfc3339();
        let time = text.split(['T', '.']).nth(1).unwrap_or_default();
        format!("{self}, {time}")
    }

    /// The day and the time to the minute, such as `20 Nov 2026, 09:30`.
    pub(super) fn to_the_minute(&self) -> String {
        self.date_time().rsplit_once(':').map(|(text, _)| text.to_owned()).unwrap_or_default()
    }

    /// As RFC 3339.
    pub(super) fn rfc3339(&self) -> String {
        self.0.to_string()
    }
}

impl From<Timestamp> for DisplayTime {
    fn from(moment: Timestamp) -> Self {
        Self(moment)
    }
}

/// The day, such as `20 Nov 2026`.
impl fmt::Display for DisplayTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let text = self.rfc3339();
        let mut parts = text.split(['-', 'T']);
        let mut part = || parts.next().unwrap_or_default();
        let (year, month, day) = (part(), part(), part());
        let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
        write!(f, "{} {} {year}", day.trim_start_matches('0'), month.copied().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_month_names() {
        for (text, expected) in [("2026-11-20T23:59:59.999Z", "20 Nov 2026"), ("2027-01-01T00:00:00Z", "1 Jan 2027")] {
            assert_eq!(DisplayTime::from(text.parse::<Timestamp>().expect("RFC 3339")).to_string(), expected);
        }
        let moment: Timestamp = "2026-11-20T09:30:05.999Z".parse().expect("RFC 3339");
        assert_eq!(DisplayTime::from(moment).date_time(), "20 Nov 2026, 09:30:05");
        assert_eq!(DisplayTime::from(moment).to_the_minute(), "20 Nov 2026, 09:30");
    }
}
