//! A report for people: a funnel with bars, or a line for each group.

use deeplink_core::funnel::{Credit, Funnel, FunnelGroup, FunnelReport, GroupBy, Revenue};
use deeplink_core::time::Timestamp;

use crate::escape;
use crate::output::{Line, Pen, columns_of, padded, wrapped};

/// Width from which room is reserved for a short bar.
const WIDE: usize = 60;
/// Maximum types of conversion that are shown: anyone may report any type.
const TYPES: usize = 20;
/// A shorter bar would be meaningless.
const MIN_BAR: usize = 6;

/// The whole report. It ends with a line break.
pub(super) fn report(pen: Pen, report: &FunnelReport) -> String {
    let what = match report.link_ids.as_slice() {
        [] => "All links".to_owned(),
        [id] => escape::one_line(id).into_owned(),
        ids => format!("{} links", ids.len()),
    };
    let days = days_of(report.tz.as_deref());
    let head = format!(
        "{}, {}\n{} to {} UTC{days}\n\n",
        pen.heading(&what),
        credit(&report.credit),
        minute(report.from),
        minute(report.to)
    );
    let body = match (&report.groups, &report.group_by) {
        (Some(groups), by) => grouped(pen, groups, by.as_ref()) + &unattributed(report),
        (None, _) => {
            let unattributed = report.unattributed.as_ref().map_or(0, sum);
            whole(pen, &report.funnel, unattributed, report.unattributed_revenue.as_deref().unwrap_or_default())
        }
    };
    head + &body + &imported(pen, report.imported_clicks)
}

/// The clicks that a previous service counted, on a line apart; empty without any.
pub(crate) fn imported(pen: Pen, clicks: Option<i64>) -> String {
    let Some(clicks) = clicks.and_then(|clicks| u64::try_from(clicks).ok()) else { return String::new() };
    let clicks = crate::progress::grouped(clicks);
    let text = format!("Imported clicks  {clicks} (counted before the import; not included above)");
    format!("\n{}\n", wrapped(&text, pen.width, 0))
}

/// Which touch is credited, in words.
pub(super) fn credit(credit: &Credit) -> String {
    match credit {
        Credit::LastTouch => "by last touch".to_owned(),
        Credit::FirstTouch => "by first touch".to_owned(),
        Credit::Touched => "by any touch".to_owned(),
        other => format!("by {}", escape::one_line(other.as_str())),
    }
}

/// Whose days the groups are, if not those of UTC.
pub(super) fn days_of(tz: Option<&str>) -> String {
    tz.map(|zone| format!(", days in {}", escape::one_line(zone))).unwrap_or_default()
}

/// `2026-11-20 09:30`.
fn minute(moment: Timestamp) -> String {
    moment.to_string().chars().take(16).collect::<String>().replace('T', " ")
}

/// The sum of all types.
fn sum(conversions: &std::collections::BTreeMap<String, i64>) -> i64 {
    conversions.values().fold(0, |sum: i64, count| sum.saturating_add(*count))
}

fn whole(pen: Pen, funnel: &Funnel, unattributed: i64, unattributed_revenue: &[Revenue]) -> String {
    let (new, back) = (funnel.new_users, funnel.returning_users);
    let steps = pen.funnel(funnel.clicks, new.installed, new.identified, sum(&funnel.conversions));
    let returning = [("reinstalled", back.reinstalled), ("new device", back.new_device), ("engaged", back.engaged)];
    let returning = returning.map(|(label, count)| Line::new(label, count)).to_vec();
    let mut sections = vec![("", steps), ("RETURNING", returning)];
    let more = funnel.conversions.len().saturating_sub(TYPES);
    if !funnel.conversions.is_empty() {
        let mut types: Vec<_> = funnel.conversions.iter().collect();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shown = types.into_iter().take(TYPES).map(|(name, count)| Line::new(name, *count));
        sections.push(("CONVERSIONS", shown.collect()));
    }
    if unattributed > 0 {
        sections.push(("UNATTRIBUTED", vec![Line::new("conversions", unattributed)]));
    }
    let chart = pen.chart(&sections);
    let chart = if more > 0 { format!("{chart}and {more} more; to see all: -o json\n") } else { chart };
    chart + &revenue(pen, "REVENUE", &funnel.revenue) + &revenue(pen, "UNATTRIBUTED REVENUE", unattributed_revenue)
}

/// What no link led to, on a line below groups.
fn unattributed(report: &FunnelReport) -> String {
    match report.unattributed.as_ref().map_or(0, sum) {
        0 => String::new(),
        count => {
            let sums = report.unattributed_revenue.as_deref().filter(|sums| !sums.is_empty());
            let revenue = sums.map(|sums| format!(", {}", amounts(sums))).unwrap_or_default();
            format!("\nunattributed conversions: {count}{revenue}\n")
        }
    }
}

/// Amounts of several currencies on one line.
pub(super) fn amounts(sums: &[Revenue]) -> String {
    let amounts: Vec<String> = sums.iter().map(|sum| escape::one_line(&sum.to_string()).into_owned()).collect();
    amounts.join(" + ")
}

/// A line for each currency, under a heading.
fn revenue(pen: Pen, heading: &str, sums: &[Revenue]) -> String {
    if sums.is_empty() {
        return String::new();
    }
    let amounts: Vec<String> = sums.iter().map(|sum| escape::one_line(&sum.to_string()).into_owned()).collect();
    let wide = amounts.iter().map(String::len).max().unwrap_or(0);
    let lines: Vec<String> = amounts.iter().map(|amount| format!("{amount:>wide$}")).collect();
    format!("\n{}\n{}\n", pen.heading(heading), lines.join("\n"))
}

/// A column: its heading and its cells.
type Column = (&'static str, fn(&FunnelGroup) -> Option<String>);

const CLICKS: &str = "CLICKS";
const REVENUE: &str = "REVENUE";

/// The columns after the key, the most useful first.
const COLUMNS: [Column; 8] = [
    (CLICKS, |group| Some(group.clicks.to_string())),
    ("INSTALLED", |group| group.new_users.map(|new| new.installed.to_string())),
    ("IDENTIFIED", |group| group.new_users.map(|new| new.identified.to_string())),
    ("CONVERSIONS", |group| group.conversions.as_ref().map(|types| sum(types).to_string())),
    (REVENUE, |group| group.revenue.as_deref().filter(|sums| !sums.is_empty()).map(amounts)),
    ("ENGAGED", |group| group.returning_users.map(|back| back.engaged.to_string())),
    ("REINSTALLED", |group| group.returning_users.map(|back| back.reinstalled.to_string())),
    ("NEW DEVICE", |group| group.returning_users.map(|back| back.new_device.to_string())),
];

/// A column with its cells.
struct Drawn {
    name: &'static str,
    wide: usize,
    cells: Vec<String>,
}

impl Drawn {
    /// The column, if a group has it.
    fn of((name, cell): Column, groups: &[FunnelGroup]) -> Option<Self> {
        let cells: Vec<Option<String>> = groups.iter().map(cell).collect();
        if cells.iter().all(Option::is_none) {
            return None;
        }
        let cells: Vec<String> = cells.into_iter().map(Option::unwrap_or_default).collect();
        let wide = cells.iter().map(String::len).chain([name.len()]).max().unwrap_or(0);
        Some(Self { name, wide, cells })
    }

    fn is_zero(&self) -> bool {
        self.cells.iter().all(|cell| matches!(cell.as_str(), "" | "0"))
    }

    /// Whether a bar is more useful.
    fn is_of_returning(&self) -> bool {
        matches!(self.name, "ENGAGED" | "REINSTALLED" | "NEW DEVICE")
    }
}

/// The room that columns take.
fn taken(columns: &[Drawn]) -> usize {
    columns.iter().map(|column| column.wide + 2).sum()
}

/// Removes columns until the others fit in `room`, and returns the names of those: first those that are zero throughout,
/// then the returning users, then the bar, for which `bar` is reserved, and then others. Amounts stay.
fn leave_out(columns: &mut Vec<Drawn>, room: usize, bar: usize) -> Vec<&'static str> {
    let all: Vec<&'static str> = columns.iter().map(|column| column.name).collect();
    let least: usize =
        columns.iter().filter(|column| [CLICKS, REVENUE].contains(&column.name)).map(|column| column.wide + 2).sum();
    // Amounts too wide to stand beside the clicks make room for the counts.
    if least > room {
        columns.retain(|column| column.name != REVENUE);
    }
    type MayGo = fn(&Drawn) -> bool;
    let steps: [(usize, MayGo); 3] =
        [(bar, Drawn::is_zero), (bar, Drawn::is_of_returning), (0, |column| column.name != REVENUE)];
    for (bar, may_go) in steps {
        while taken(columns) + bar > room {
            let Some(at) = columns.iter().rposition(|column| column.name != CLICKS && may_go(column)) else { break };
            columns.remove(at);
        }
    }
    all.into_iter().filter(|name| columns.iter().all(|column| column.name != *name)).collect()
}

/// A line for each group: as many columns as fit, and a bar of its clicks in the room that is left.
fn grouped(pen: Pen, groups: &[FunnelGroup], by: Option<&GroupBy>) -> String {
    if groups.is_empty() {
        return "no clicks in this period\n".to_owned();
    }
    let heading = by.map_or("KEY", GroupBy::as_str).to_uppercase().replace('_', " ");
    // Ids are never cut.
    let most = if by == Some(&GroupBy::Link) { usize::MAX } else { pen.width / 2 };
    let keys: Vec<String> = groups.iter().map(|group| pen.cut(&shown(&group.key, by), most)).collect();
    let keys_wide = keys.iter().map(|key| columns_of(key)).chain([heading.len()]).max().unwrap_or(0);
    let beside = pen.width.saturating_sub(keys_wide);
    let mut columns: Vec<Drawn> = COLUMNS.into_iter().filter_map(|column| Drawn::of(column, groups)).collect();
    let hidden = leave_out(&mut columns, beside, if pen.width >= WIDE { MIN_BAR + 2 } else { 0 });
    let room = beside.saturating_sub(taken(&columns) + 2);
    let room = if room < MIN_BAR { 0 } else { room };
    let longest = groups.iter().map(|group| group.clicks).max().unwrap_or(0);
    let head = columns
        .iter()
        .fold(format!("{heading:keys_wide$}"), |head, Drawn { name, wide, .. }| format!("{head}  {name:>wide$}"));
    let mut out = vec![pen.heading(&head)];
    for (at, (key, group)) in keys.iter().zip(groups).enumerate() {
        let line = columns.iter().fold(padded(key, keys_wide), |line, Drawn { wide, cells, .. }| {
            format!("{line}  {:>wide$}", cells.get(at).map_or("", String::as_str))
        });
        let bar = pen.bar(group.clicks, longest, room);
        let line = if bar.is_empty() { line } else { format!("{line}  {}", pen.bar_color(&bar)) };
        // A group without amounts has nothing in the last column.
        out.push(line.trim_end().to_owned());
    }
    if !hidden.is_empty() {
        let note = format!("hidden columns: {}; use a wider terminal or -o csv", hidden.join(", "));
        out.extend([String::new(), wrapped(&note, pen.width, 0)]);
    }
    out.push(String::new());
    out.join("\n")
}

/// A key for people.
fn shown(key: &str, by: Option<&GroupBy>) -> String {
    match by {
        Some(GroupBy::Hour) => key.parse().map_or_else(|_| escape::one_line(key).into_owned(), minute),
        _ if key.is_empty() => "(none)".to_owned(),
        _ => escape::one_line(key).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use deeplink_core::funnel::{FunnelQuery, NewUsers, ReturningUsers};

    use super::*;

    fn funnel(clicks: i64) -> Funnel {
        Funnel {
            clicks,
            new_users: NewUsers { installed: clicks / 4, identified: clicks / 10 },
            returning_users: ReturningUsers { reinstalled: 2, new_device: 1, engaged: 9 },
            conversions: BTreeMap::from([("purchase".to_owned(), clicks / 20), ("signup".to_owned(), 1)]),
            revenue: vec![Revenue::new("EUR".to_owned(), clicks * 100), Revenue::new("USD".to_owned(), -5)],
        }
    }

    fn made(pen: Pen, by: Option<GroupBy>, groups: Option<Vec<FunnelGroup>>) -> String {
        let now = Timestamp::from_millis(1_795_167_000_000);
        let mut query = FunnelQuery::new(["spring-42"]);
        query.group_by = by;
        report(pen, &FunnelReport::new(query.check(now).expect("a question"), funnel(1_204), groups))
    }

    #[test]
    fn a_report_fits_terminals_wide_and_narrow() {
        let days =
            |count: i64| (0..count).map(|day| FunnelGroup::whole(format!("2026-11-{:02}", day + 1), funnel(day * day)));
        for (width, utf8, color) in [(80, true, false), (40, true, false), (40, false, false), (80, false, false)] {
            let pen = Pen { color, utf8, width };
            for text in [made(pen, None, None), made(pen, Some(GroupBy::Day), Some(days(20).collect()))] {
                assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
                assert!(utf8 || text.is_ascii(), "{text}");
                assert!(!text.contains('\u{1b}') && text.lines().all(|line| !line.ends_with(' ')), "{text:?}");
            }
        }
        let narrow = Pen { color: false, utf8: true, width: 40 };
        assert_eq!(
            made(narrow, Some(GroupBy::Day), Some(days(3).collect())),
            "spring-42, by last touch\n2026-10-21 09:30 to 2026-11-20 09:30 UTC\n\n\
             DAY         CLICKS               REVENUE\n\
             2026-11-01       0  0.00 EUR + -0.05 USD\n\
             2026-11-02       1  1.00 EUR + -0.05 USD\n\
             2026-11-03       4  4.00 EUR + -0.05 USD\n\
             \nhidden columns: INSTALLED, IDENTIFIED,\n\
             CONVERSIONS, ENGAGED, REINSTALLED, NEW\n\
             DEVICE; use a wider terminal or -o csv\n"
        );
    }

    /// Amounts stay while there is room for them beside the clicks: the bar is shortened first, then the columns that are
    /// zero throughout are hidden, and the note names all that are hidden.
    #[test]
    fn amounts_stay_and_zeros_go_first() {
        let sold = |clicks, amount_cents| Funnel {
            clicks,
            new_users: NewUsers { installed: 0, identified: 0 },
            returning_users: ReturningUsers { reinstalled: 0, new_device: 0, engaged: 3 },
            conversions: BTreeMap::from([("purchase".to_owned(), 7)]),
            revenue: vec![Revenue::new("EUR".to_owned(), amount_cents)],
        };
        let heading = |text: &str| text.lines().find(|line| line.starts_with("LINK")).expect("a heading").to_owned();
        let drawn = |width, cents| {
            let groups = vec![FunnelGroup::whole("a-rather-long-id-of-a-link", sold(9, cents))];
            made(Pen { color: false, utf8: true, width }, Some(GroupBy::Link), Some(groups))
        };
        // A line takes 118 columns, and 126 with a short bar.
        for (width, ends, hidden) in [
            (126, "NEW DEVICE", None),
            (118, "REINSTALLED", Some("hidden columns: NEW DEVICE;")),
            (80, "ENGAGED", Some("hidden columns: INSTALLED, IDENTIFIED, REINSTALLED, NEW DEVICE;")),
            (62, "REVENUE", Some("hidden columns: INSTALLED, IDENTIFIED, ENGAGED, REINSTALLED,")),
            (48, "REVENUE", Some("hidden columns: INSTALLED, IDENTIFIED,\nCONVERSIONS, ")),
        ] {
            let text = drawn(width, 120_450);
            let heading = heading(&text);
            assert!(heading.ends_with(ends) && heading.contains("REVENUE"), "{width}: {text}");
            assert_eq!(text.contains("hidden columns"), hidden.is_some(), "{width}: {text}");
            assert!(hidden.is_none_or(|hidden| text.contains(hidden)), "{width}: {text}");
            assert!(text.contains("1,204.50 EUR") && text.lines().all(|line| columns_of(line) <= width), "{text}");
        }
        // An amount that does not fit there leaves the room to the counts.
        let text = drawn(48, 123_456_789_012_345);
        assert!(heading(&text).ends_with("CLICKS  CONVERSIONS") && text.contains("REVENUE"), "{text}");
        let none = made(Pen { color: false, utf8: true, width: 80 }, Some(GroupBy::Link), Some(Vec::new()));
        assert!(none.ends_with("\n\nno clicks in this period\n"), "{none}");
    }

    #[test]
    fn the_most_frequent_types_are_shown() {
        let pen = Pen { color: false, utf8: true, width: 40 };
        let kinds =
            |count: i64| Funnel { conversions: (0..count).map(|n| (format!("type-{n}"), n)).collect(), ..funnel(9) };
        let text = whole(pen, &kinds(33), 0, &[]);
        let end = "\nand 13 more; to see all: -o json\n\nREVENUE\n 9.00 EUR\n-0.05 USD\n";
        assert!(text.ends_with(end) && text.contains("\ntype-13 "), "{text}");
        assert!(!text.contains("type-12"), "{text}");
        let text = whole(pen, &kinds(20), 0, &[]);
        assert!(!text.contains("more") && !text.contains("UNATTRIBUTED"), "{text}");
        let text = whole(pen, &kinds(20), 7, &[Revenue::new("JPY".to_owned(), 120_456_750)]);
        assert!(text.contains("\nUNATTRIBUTED\n"), "{text}");
        assert!(text.ends_with("\n\nUNATTRIBUTED REVENUE\n1,204,567.50 JPY\n"), "{text}");
    }

    #[test]
    fn clicks_alone_have_no_other_column_and_ids_are_whole() {
        let pen = Pen { color: false, utf8: true, width: 40 };
        let hosts = vec![FunnelGroup::of_clicks("h".repeat(60), 9), FunnelGroup::of_clicks("", 3)];
        let text = made(pen, Some(GroupBy::RefererHost), Some(hosts));
        assert!(
            text.contains("REFERER HOST          CLICKS\n") && text.contains("\n(none)") && text.contains("h…"),
            "{text}"
        );
        assert!(!text.contains("INSTALLED"), "{text}");
        let id = "l".repeat(64);
        let text = made(pen, Some(GroupBy::Link), Some(vec![FunnelGroup::whole(id.clone(), funnel(9))]));
        assert!(text.contains(&id), "{text}");
        let hour = made(pen, Some(GroupBy::Hour), Some(vec![FunnelGroup::of_clicks("2026-11-20T09:00:00.000Z", 0)]));
        assert!(hour.contains("2026-11-20 09:00       0\n"), "{hour}");
    }
}
