//! Time zones by their names, for days that are not those of UTC.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::time::Timestamp;

/// A time zone of the IANA database, which is part of the program: a name such as `Europe/Berlin` means the same on every machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// A calendar day of a zone, from its start up to its end: 23 or 25 hours where clocks are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day {
    /// When it begins.
    pub start: Timestamp,
    /// When the next one begins.
    pub end: Timestamp,
    /// Its date, such as `2026-11-20`.
    pub date: String,
}

/// UTC.
impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

/// Whether a name is that of a place, rather than of a country or an offset.
fn is_place(name: &str) -> bool {
    const AREAS: [&str; 10] =
        ["Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"];
    name.split_once('/').is_some_and(|(area, _)| AREAS.contains(&area))
}

/// Names that the database keeps for those who stored them: `zone.tab`, its list of places, has others in their stead.
const OUTDATED: &str = "\
    Africa/Asmera Africa/Timbuktu America/Argentina/ComodRivadavia America/Atka America/Buenos_Aires \
    America/Catamarca America/Coral_Harbour America/Cordoba America/Ensenada America/Fort_Wayne America/Godthab \
    America/Indianapolis America/Jujuy America/Knox_IN America/Louisville America/Mendoza America/Montreal \
    America/Nipigon America/Pangnirtung America/Porto_Acre America/Rainy_River America/Rosario America/Santa_Isabel \
    America/Shiprock America/Thunder_Bay America/Virgin America/Yellowknife Antarctica/South_Pole Asia/Ashkhabad \
    Asia/Calcutta Asia/Choibalsan Asia/Chongqing Asia/Chungking Asia/Dacca Asia/Harbin Asia/Istanbul Asia/Kashgar \
    Asia/Katmandu Asia/Macao Asia/Rangoon Asia/Saigon Asia/Tel_Aviv Asia/Thimbu Asia/Ujung_Pandang Asia/Ulan_Bator \
    Atlantic/Faeroe Atlantic/Jan_Mayen Australia/ACT Australia/Canberra Australia/Currie Australia/LHI Australia/NSW \
    Australia/North Australia/Queensland Australia/South Australia/Tasmania Australia/Victoria Australia/West \
    Australia/Yancowinna Europe/Belfast Europe/Kiev Europe/Nicosia Europe/Tiraspol Europe/Uzhgorod Europe/Zaporozhye \
    Pacific/Enderbury Pacific/Johnston Pacific/Ponape Pacific/Samoa Pacific/Truk Pacific/Yap";

static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

impl Zone {
    /// The current names of zones, such as `Europe/Berlin`, in alphabetical order.
    pub fn places() -> &'static [String] {
        static PLACES: LazyLock<Vec<String>> = LazyLock::new(|| {
            let names = ZONES.available().map(|name| name.as_str().to_owned());
            let is_outdated = |name: &str| OUTDATED.split(' ').any(|outdated| outdated == name);
            let mut places: Vec<String> = names.filter(|name| is_place(name) && !is_outdated(name)).collect();
            places.sort_unstable();
            places
        });
        &PLACES
    }

    /// The zone of this name, without regard to case; `None` for an unknown name.
    pub fn named(name: &str) -> Option<Self> {
        ZONES.get(name).ok().filter(|zone| !zone.is_unknown()).map(Self)
    }

    /// The moment at which UTC has the time and date that the zone has at this one, for people to read.
    #[must_use]
    pub fn as_utc(&self, at: Timestamp) -> Timestamp {
        let moment = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
        at.plus_millis(i64::from(self.0.to_offset(moment).seconds()) * 1_000)
    }

    /// Its name, as the database writes it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// When a date such as `2026-11-20` begins; `None` if the text is not a date.
    pub fn midnight(&self, date: &str) -> Option<Timestamp> {
        (date.len() == 10).then(|| date.parse().ok().map(|date| self.start(date))).flatten()
    }

    /// The moment at which clocks show a time such as `2026-11-20T09:30`, the first of two where they were set back;
    /// `None` if the text is not a date and time.
    pub fn moment(&self, local: &str) -> Option<Timestamp> {
        let local: jiff::civil::DateTime = local.parse().ok()?;
        local.to_zoned(self.0.clone()).ok().map(|at| Timestamp::from_millis(at.timestamp().as_millisecond()))
    }

    /// What the zone's time is called at a moment, such as `CEST`; an offset such as `-03` where it has no name.
    pub fn abbreviation(&self, at: Timestamp) -> String {
        let moment = jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default();
        self.0.to_offset_info(moment).abbreviation().to_owned()
    }

    /// The days that a window touches, oldest first.
    pub fn days(&self, from: Timestamp, to: Timestamp) -> Vec<Day> {
        let moment = jiff::Timestamp::from_millisecond(from.as_millis()).unwrap_or_default();
        let mut days: Vec<Day> = Vec::new();
        let mut next = Some(moment.to_zoned(self.0.clone()).date());
        while let Some(date) = next {
            next = date.tomorrow().ok();
            let start = self.start(date);
            if start > to {
                break;
            }
            let end = next.map_or(Timestamp::from_millis(i64::MAX), |next| self.start(next));
            // A zone that moved over the date line has a day that never was.
            if start < end {
                days.push(Day { start, end, date: date.to_string() });
            }
        }
        days
    }

    /// The first moment of a date: after midnight where clocks were changed then.
    fn start(&self, date: jiff::civil::Date) -> Timestamp {
        let start = date.to_zoned(self.0.clone()).map(|start| start.timestamp().as_millisecond());
        Timestamp::from_millis(start.unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("RFC 3339")
    }

    fn days(zone: &str, from: &str, to: &str) -> Vec<(String, String, i64)> {
        let days = Zone::named(zone).expect("a zone").days(at(from), at(to));
        let minutes = |day: &Day| (day.end.as_millis() - day.start.as_millis()) / 60_000;
        days.iter().map(|day| (day.date.clone(), day.start.to_string(), minutes(day))).collect()
    }

    #[test]
    fn days_are_as_long_as_clocks_make_them() {
        let day = |date: &str, start: &str, minutes| (date.to_owned(), format!("{start}:00.000Z"), minutes);
        for (zone, from, to, expected) in [
            (
                "UTC",
                "2026-11-20T00:00:00Z",
                "2026-11-20T23:59:59.999Z",
                vec![day("2026-11-20", "2026-11-20T00:00", 1_440)],
            ),
            (
                "Europe/Berlin",
                "2027-03-27T22:59:59.999Z",
                "2027-03-28T22:00:00Z",
                vec![
                    day("2027-03-27", "2027-03-26T23:00", 1_440),
                    day("2027-03-28", "2027-03-27T23:00", 1_380),
                    day("2027-03-29", "2027-03-28T22:00", 1_440),
                ],
            ),
            (
                "Europe/Berlin",
                "2026-10-25T12:00:00Z",
                "2026-10-25T12:00:00Z",
                vec![day("2026-10-25", "2026-10-24T22:00", 1_500)],
            ),
            (
                "asia/kolkata",
                "2026-11-20T00:00:00Z",
                "2026-11-20T00:00:00Z",
                vec![day("2026-11-20", "2026-11-19T18:30", 1_440)],
            ),
            // Clocks go forward at midnight: the day begins at one.
            (
                "Asia/Beirut",
                "2027-03-28T10:00:00Z",
                "2027-03-28T10:00:00Z",
                vec![day("2027-03-28", "2027-03-27T22:00", 1_380)],
            ),
            // Half an hour of summer time.
            (
                "Australia/Lord_Howe",
                "2027-04-03T20:00:00Z",
                "2027-04-03T20:00:00Z",
                vec![day("2027-04-04", "2027-04-03T13:00", 1_470)],
            ),
            // Friday, 30 December 2011, never was in Samoa.
            (
                "Pacific/Apia",
                "2011-12-30T09:00:00Z",
                "2011-12-30T11:00:00Z",
                vec![day("2011-12-29", "2011-12-29T10:00", 1_440), day("2011-12-31", "2011-12-30T10:00", 1_440)],
            ),
        ] {
            assert_eq!(days(zone, from, to), expected, "{zone} {from}");
        }
        assert_eq!(days("UTC", "2025-01-01T12:00:00Z", "2026-02-05T12:00:00Z").len(), 401);
        assert_eq!(days("America/New_York", "9999-12-30T00:00:00Z", "9999-12-30T21:00:00Z").len(), 2);
    }

    #[test]
    fn a_date_begins_at_the_first_moment_of_the_zone() {
        for (zone, date, expected) in [
            ("UTC", "2026-11-20", Some("2026-11-20T00:00:00Z")),
            ("Europe/Berlin", "2026-11-20", Some("2026-11-19T23:00:00Z")),
            ("Asia/Beirut", "2027-03-28", Some("2027-03-27T22:00:00Z")),
            ("Europe/Berlin", "2026-13-20", None),
            ("Europe/Berlin", "+2026-11-2", None),
            ("Europe/Berlin", "20261120", None),
            ("Europe/Berlin", "7d", None),
        ] {
            let zone = Zone::named(zone).expect("a zone");
            assert_eq!(zone.midnight(date), expected.map(at), "{date}");
        }
    }

    #[test]
    fn a_local_time_is_one_moment() {
        for (zone, local, expected) in [
            ("UTC", "2026-11-20T09:30", Some("2026-11-20T09:30:00Z")),
            ("Europe/Berlin", "2026-11-20T09:30", Some("2026-11-20T08:30:00Z")),
            ("Europe/Berlin", "2026-10-25T02:30", Some("2026-10-25T00:30:00Z")),
            ("Europe/Berlin", "2027-03-28T02:30", Some("2027-03-28T01:30:00Z")),
            ("UTC", "2026-11-31T09:30", None),
            ("UTC", "soon", None),
        ] {
            assert_eq!(Zone::named(zone).expect("a zone").moment(local), expected.map(at), "{zone} {local}");
        }
    }

    #[test]
    fn places_have_one_name_each_and_outdated_ones_still_work() {
        for (outdated, present) in [("Asia/Calcutta", "Asia/Kolkata"), ("Europe/Kiev", "Europe/Kyiv")] {
            assert!(Zone::places().iter().any(|place| place == present), "{present}");
            assert!(
                Zone::named(outdated).is_some() && Zone::places().iter().all(|place| place != outdated),
                "{outdated}"
            );
        }
        for outdated in OUTDATED.split(' ') {
            assert_eq!(Zone::named(outdated).expect("a zone").name(), outdated);
        }
        assert!(Zone::places().len() > 400);
    }

    #[test]
    fn names_are_those_of_the_database() {
        assert_eq!(Zone::named("europe/berlin").expect("a zone").name(), "Europe/Berlin");
        for wrong in ["", " ", "Berlin", "Europe", "CEST", "+02:00", "Etc/Unknown", "../UTC", "Europe/Berlin\0"] {
            assert_eq!(Zone::named(wrong), None, "{wrong}");
        }
    }
}
