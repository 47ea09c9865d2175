//! The only reader of the wall clock: for "3 minutes ago" and for time windows that end now.

use std::time::{SystemTime, UNIX_EPOCH};

use deeplink_core::time::Timestamp;

/// The current time.
#[expect(clippy::disallowed_methods, reason = "this is where dl reads the wall clock")]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A time relative to now: `just now`, `5m ago`, `in 30d`, and beyond two years the date.
pub(crate) fn relative(moment: Timestamp, now: Timestamp) -> String {
    let away = moment.as_millis().saturating_sub(now.as_millis());
    let span = away.abs();
    match span {
        _ if span < 10 * SECOND => "just now".into(),
        _ if span < MINUTE => said(away, SECOND, "s"),
        _ if span < HOUR => said(away, MINUTE, "m"),
        _ if span < DAY => said(away, HOUR, "h"),
        _ if span < 730 * DAY => said(away, DAY, "d"),
        _ => moment.to_string().chars().take(10).collect(),
    }
}

fn said(away: i64, unit: i64, name: &str) -> String {
    // Future times are rounded: a link created a moment ago with 30 days has 30, not 29.
    if away > 0 { format!("in {}{name}", (away + unit / 2) / unit) } else { format!("{}{name} ago", -away / unit) }
}

/// A length of time on the command line: `90s`, `500ms`, `2m`, `1h30m`, `7d`.
pub(crate) fn parse_duration(text: &str) -> Result<std::time::Duration, String> {
    let wrong = || "expected a duration such as 90s, 500ms, 2m or 1h30m".to_owned();
    let (mut rest, mut total) = (text, 0_u64);
    if text.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let millis = match &rest[..unit] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        rest = &rest[unit..];
        total = count.checked_mul(millis).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
    }
    Ok(std::time::Duration::from_millis(total))
}

/// A time as typed: `7d` means a different moment each time it is evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) text: String,
    pub(crate) moment: Timestamp,
}

impl Given {
    pub(crate) fn is_relative(&self) -> bool {
        parse_duration(&self.text).is_ok()
    }
}

/// Reads a moment, and keeps how it was given.
pub(crate) fn parse_given(text: &str) -> Result<Given, String> {
    Ok(Given { text: text.to_owned(), moment: parse_moment(text)? })
}

/// A moment on the command line: RFC 3339, a date (midnight UTC), or how long ago (`7d`, `12h`).
pub(crate) fn parse_moment(text: &str) -> Result<Timestamp, String> {
    parse_from_now(text, i64::saturating_neg, "how long ago, such as 7d")
}

/// A moment to come: RFC 3339, a date (midnight UTC), or how long from now (`30d`, `12h`).
pub(crate) fn parse_later(text: &str) -> Result<Timestamp, String> {
    parse_from_now(text, |millis| millis, "how long from now, such as 30d")
}

fn parse_from_now(text: &str, away: fn(i64) -> i64, span: &str) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    if text.len() == 10
        && let Ok(moment) = format!("{text}T00:00:00Z").parse()
    {
        return Ok(moment);
    }
    if let Ok(length) = parse_duration(text) {
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        return Ok(now().plus_millis(away(millis)));
    }
    Err(format!("expected a time such as 2026-11-20T09:30:00Z, a date such as 2026-11-20, or {span}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_said_shortly() {
        let now = Timestamp::from_millis(1_795_167_000_000);
        for (away, text) in [
            (0, "just now"),
            (-9_999, "just now"),
            (-10_000, "10s ago"),
            (59_999, "in 60s"),
            (-60_000, "1m ago"),
            (3_600_000, "in 1h"),
            (-86_400_000, "1d ago"),
            (30 * DAY - 1, "in 30d"),
            (-800 * DAY, "2024-09-11"),
        ] {
            assert_eq!(relative(now.plus_millis(away), now), text, "{away}");
        }
    }

    #[test]
    fn lengths_of_time() {
        for (text, millis) in
            [("90s", 90_000), ("500ms", 500), ("2m", 120_000), ("1h30m", 5_400_000), ("7d", 604_800_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text).map(|d| d.as_millis()), Ok(millis), "{text}");
        }
        for text in ["", "90", "s", "1x", "-1s", "1.5s", "99999999999999999999s", "1s ", "999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn moments_on_the_command_line() {
        assert_eq!(parse_moment("2026-11-20").map(|m| m.to_string()), Ok("2026-11-20T00:00:00.000Z".into()));
        assert_eq!(
            parse_moment("2026-11-20T11:30:00+02:00").map(|m| m.to_string()),
            Ok("2026-11-20T09:30:00.000Z".into())
        );
        assert!(parse_moment("7d").is_ok_and(|moment| moment < now()));
        for text in ["", "yesterday", "2026-13-01", "20261120"] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }
}
