//! Moments as people read them. Pages are made here, where nobody knows the reader's time zone: days are UTC.

use std::fmt;

use deeplink_core::time::Timestamp;

/// A moment: the day for people, the whole for machines.
pub(super) struct When(Timestamp);

impl When {
    /// The day as a date, such as `2026-11-20`.
    pub(super) fn date(&self) -> String {
        self.exact().split('T').next().unwrap_or_default().to_owned()
    }

    /// The day and the time to the second, such as `20 Nov 2026, 09:30:00`.
    pub(super) fn to_the_second(&self) -> String {
        let exact = self.exact();
        let time = exact.split(['T', '.']).nth(1).unwrap_or_default();
        format!("{self}, {time}")
    }

    /// The moment as RFC 3339.
    pub(super) fn exact(&self) -> String {
        self.0.to_string()
    }
}

impl From<Timestamp> for When {
    fn from(moment: Timestamp) -> Self {
        Self(moment)
    }
}

/// The day, such as `20 Nov 2026`.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let text = self.exact();
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
    fn days_are_words() {
        for (text, shown) in [("2026-11-20T23:59:59.999Z", "20 Nov 2026"), ("2027-01-01T00:00:00Z", "1 Jan 2027")] {
            assert_eq!(When::from(text.parse::<Timestamp>().expect("RFC 3339")).to_string(), shown);
        }
        let moment: Timestamp = "2026-11-20T09:30:05.999Z".parse().expect("RFC 3339");
        assert_eq!(When::from(moment).to_the_second(), "20 Nov 2026, 09:30:05");
    }
}
