//! Timestamps: unix milliseconds internally, RFC 3339 in UTC with milliseconds and `Z` externally.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A moment in UTC with millisecond precision, written as RFC 3339 (`2026-11-20T09:30:00.000Z`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// The text is not an RFC 3339 date and time with an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an RFC 3339 date and time, such as 2026-11-20T09:30:00Z")]
pub struct NotATimestamp;

impl Timestamp {
    /// The last moment that RFC 3339 can write: the end of year 9999.
    const MAX_MILLIS: i64 = 253_402_207_200_000;
    const MIN_MILLIS: i64 = -377_705_023_201_000;

    /// From milliseconds since 1970-01-01T00:00:00Z; clamped to the years that RFC 3339 can write.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(Self::MIN_MILLIS, Self::MAX_MILLIS))
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment moved by a number of milliseconds, in either direction.
    pub fn plus_millis(self, millis: i64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// This moment moved by whole days of 24 hours.
    pub fn plus_days(self, days: i64) -> Self {
        self.plus_millis(days.saturating_mul(86_400_000))
    }

    /// The start of this moment's calendar month, UTC.
    pub fn month(self) -> Self {
        let moment = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        let first = moment.to_zoned(jiff::tz::TimeZone::UTC).date().first_of_month();
        let start = first.to_zoned(jiff::tz::TimeZone::UTC).map_or(self.0, |start| start.timestamp().as_millisecond());
        Self::from_millis(start)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = NotATimestamp;

    fn from_str(text: &str) -> Result<Self, NotATimestamp> {
        text.parse::<jiff::Timestamp>()
            .map(|moment| Self::from_millis(moment.as_millisecond()))
            .map_err(|_| NotATimestamp)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_always_written() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(1_795_167_000_120).to_string(), "2026-11-20T09:30:00.120Z");
    }

    #[test]
    fn offsets_are_converted_to_utc() {
        let read: Timestamp = "2026-11-20T11:30:00.12+02:00".parse().expect("RFC 3339");
        assert_eq!(read.as_millis(), 1_795_167_000_120);
        for wrong in ["", "yesterday", "2026-11-20", "2026-11-20T09:30:00", "2026-13-01T00:00:00Z"] {
            assert!(wrong.parse::<Timestamp>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn months_begin_at_midnight_utc() {
        let month = |text: &str| text.parse::<Timestamp>().expect("RFC 3339").month().to_string();
        assert_eq!(month("2026-11-20T09:30:00.120Z"), "2026-11-01T00:00:00.000Z");
        assert_eq!(month("2028-02-29T23:59:59.999Z"), "2028-02-01T00:00:00.000Z");
        assert_eq!(month("2026-12-31T23:30:00-02:00"), "2027-01-01T00:00:00.000Z");
        assert_eq!(month("2027-01-01T00:00:00Z"), "2027-01-01T00:00:00.000Z");
        assert_eq!(month("1969-12-31T23:59:59Z"), "1969-12-01T00:00:00.000Z");
    }

    #[test]
    fn the_limits_can_be_written_and_read_back() {
        for edge in [i64::MIN, i64::MAX] {
            let moment = Timestamp::from_millis(edge);
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
    }
}
