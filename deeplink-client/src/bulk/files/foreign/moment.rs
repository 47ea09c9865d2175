//! Dates as other services write them.

use deeplink_core::time::Timestamp;

/// Parses a date and time; without an offset, it is in UTC. Formats in which day and month could be confused are
/// rejected.
pub(super) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.len() >= 9 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number: i64 = text.parse().ok()?;
        // Seconds until the year 2286, else milliseconds.
        return Some(Timestamp::from_millis(if text.len() <= 10 { number * 1_000 } else { number }));
    }
    let (date, time) = match text.split_at_checked(10)? {
        (date, "") => (date, "00:00:00"),
        (date, rest) => (date, rest.strip_prefix(['T', 't', ' '])?),
    };
    let time = time.trim_end();
    let (time, offset) = match time.strip_suffix("UTC").or_else(|| time.strip_suffix(['Z', 'z'])) {
        Some(time) => (time.trim_end(), "Z".to_owned()),
        None => match time.rfind(['+', '-']) {
            Some(at) => (time[..at].trim_end(), offset(&time[at..])?),
            None => (time, "Z".to_owned()),
        },
    };
    let seconds = if time.matches(':').count() == 1 { ":00" } else { "" };
    format!("{date}T{time}{seconds}{offset}").parse().ok()
}

/// `+0000` and `+00` as `+00:00`.
fn offset(text: &str) -> Option<String> {
    let (sign, digits) = text.split_at(1);
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    let digits = if digits.len() == 2 { format!("{digits}00") } else { digits };
    let is_offset = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_offset.then(|| format!("{sign}{}:{}", &digits[..2], &digits[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_the_forms_that_exports_have() {
        for (text, moment) in [
            ("2026-11-20T09:30:00Z", "2026-11-20T09:30:00.000Z"),
            ("2026-11-20T09:30:00.123Z", "2026-11-20T09:30:00.123Z"),
            ("2026-11-20T09:30:00+0000", "2026-11-20T09:30:00.000Z"),
            ("2026-11-20T11:30:00+02:00", "2026-11-20T09:30:00.000Z"),
            ("2026-11-20T04:30:00-05", "2026-11-20T09:30:00.000Z"),
            ("2026-11-20 09:30:00", "2026-11-20T09:30:00.000Z"),
            ("2026-11-20 09:30:00 UTC", "2026-11-20T09:30:00.000Z"),
            ("2026-11-20 09:30", "2026-11-20T09:30:00.000Z"),
            ("2026-11-20", "2026-11-20T00:00:00.000Z"),
            ("1795167000", "2026-11-20T09:30:00.000Z"),
            ("1795167000120", "2026-11-20T09:30:00.120Z"),
        ] {
            assert_eq!(parse(text).map(|moment| moment.to_string()).as_deref(), Some(moment), "{text}");
        }
        for text in
            ["", "11/20/2026", "20.11.2026", "2026-13-01", "2026-11-20T", "2026-11-20x", "Nov 20, 2026", "42", "日本"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
