//! Times for people to read, in the account's time zone.

use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;

/// The day, such as `20 Nov 2026`.
pub(super) fn day(at: Timestamp, zone: &Zone) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let date = date(at, zone);
    let mut parts = date.split('-');
    let mut part = || parts.next().unwrap_or_default();
    let (year, month, day) = (part(), part(), part());
    let month = month.parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
    format!("{} {} {year}", day.trim_start_matches('0'), month.copied().unwrap_or_default())
}

/// The day in ISO form, such as `2026-11-20`.
pub(super) fn date(at: Timestamp, zone: &Zone) -> String {
    let text = zone.as_utc(at).to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}

/// The time of day to the second, such as `09:30:00`.
fn clock(at: Timestamp, zone: &Zone) -> String {
    let text = zone.as_utc(at).to_string();
    text.split(['T', '.']).nth(1).unwrap_or_default().to_owned()
}

/// The time of day to the minute, such as `09:30`.
pub(super) fn hour(at: Timestamp, zone: &Zone) -> String {
    clock(at, zone).rsplit_once(':').map(|(text, _)| text.to_owned()).unwrap_or_default()
}

/// The day and the time to the minute, such as `20 Nov 2026, 09:30`.
pub(super) fn minute(at: Timestamp, zone: &Zone) -> String {
    format!("{}, {}", day(at, zone), hour(at, zone))
}

/// The day and the time to the second, such as `20 Nov 2026, 09:30:00`.
pub(super) fn second(at: Timestamp, zone: &Zone) -> String {
    format!("{}, {}", day(at, zone), clock(at, zone))
}

/// A zone's name for people, such as `America/New York`.
pub(super) fn zone_name(zone: &Zone) -> String {
    zone.name().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_zone() {
        let at = |text: &str| text.parse::<Timestamp>().expect("RFC 3339");
        let zone = |name: &str| Zone::named(name).expect("a zone");
        for (text, name, expected) in [
            ("2026-11-20T23:59:59.999Z", "UTC", "20 Nov 2026, 23:59:59"),
            ("2026-11-20T23:59:59.999Z", "Europe/Berlin", "21 Nov 2026, 00:59:59"),
            ("2027-01-01T00:00:00Z", "America/New_York", "31 Dec 2026, 19:00:00"),
            ("2027-01-01T00:00:00Z", "Asia/Kolkata", "1 Jan 2027, 05:30:00"),
        ] {
            let (at, zone) = (at(text), zone(name));
            assert_eq!(second(at, &zone), expected);
            assert_eq!(minute(at, &zone), expected[..expected.len() - 3]);
            assert!(expected.starts_with(&day(at, &zone)) && expected.contains(&hour(at, &zone)));
        }
        assert_eq!(date(at("2026-11-20T23:30:05Z"), &zone("Europe/Berlin")), "2026-11-21");
        assert_eq!(zone_name(&zone("America/New_York")), "America/New York");
    }
}
