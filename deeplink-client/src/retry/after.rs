//! `Retry-After`: a number of seconds or an HTTP date (RFC 9110, 10.2.3), in all three date formats.

use std::time::Duration;

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

use crate::clock;

/// How long the response asks to wait. A date is taken relative to the response's own `Date`, so that a wrong local clock
/// does not matter.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX / 2)));
    }
    let until = http_date(text)?;
    let sent = headers.get(DATE).and_then(|value| value.to_str().ok()).and_then(http_date);
    let now = sent.unwrap_or_else(|| clock::now().as_millis().div_euclid(1_000));
    Some(Duration::from_secs(u64::try_from(until - now).unwrap_or(0)))
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or `Sun Nov  6 08:49:37 1994`.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split([' ', ',', '-']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match *words.as_slice() {
        [_, day, month, year, time, "GMT"] => (day, month, year, time),
        [_, month, day, time, year] => (day, month, year, time),
        _ => return None,
    };
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = i64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let day: i64 = day.parse().ok().filter(|day| (1..=31).contains(day))?;
    let year: i64 = match (year.len(), year.parse::<i64>().ok()?) {
        (2, year @ 0..70) => year + 2_000,
        (2, year) => year + 1_900,
        (4, year) => year,
        _ => return None,
    };
    let mut parts = time.split(':').map(|part| part.parse::<i64>().ok().filter(|n| (0..=60).contains(n)));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 23 || minute > 59 {
        return None;
    }
    Some(days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &str)]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().expect("a header value"));
        }
        retry_after(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_and_all_date_forms_are_read() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (value, seconds) in [
            ("0", Some(0)),
            ("17", Some(17)),
            (" 17 ", Some(17)),
            ("Sun, 06 Nov 1994 08:49:40 GMT", Some(3)),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
            ("Sun Nov  6 08:49:37 1994", Some(0)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 25:00:00 GMT", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(asked(&[("retry-after", value), date]), seconds, "{value:?}");
        }
        assert_eq!(asked(&[date]), None);
    }

    #[test]
    fn without_a_date_the_own_clock_counts() {
        let soon = jiff_free_date(clock::now().as_millis() / 1_000 + 30);
        let wait = asked(&[("retry-after", &soon)]).expect("a date");
        assert!((28..=30).contains(&wait), "{wait}");
    }

    /// The asctime form of a moment, made from the calendar's own arithmetic.
    fn jiff_free_date(seconds: i64) -> String {
        let text = deeplink_core::time::Timestamp::from_millis(seconds * 1_000).to_string();
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let month: usize = text[5..7].parse().expect("a month");
        format!("Sun, {} {} {} {} GMT", &text[8..10], months[month - 1], &text[..4], &text[11..19])
    }
}
