//! CSV (RFC 4180), and a report as such a file.

use std::collections::BTreeSet;

use deeplink_core::funnel::{Funnel, FunnelGroup, FunnelReport, Revenue};

/// The table: a row for each group, or one row for the whole report, and one for unattributed conversions, if there are any. If
/// groups contain only clicks, the other cells are empty. Cells are not escaped for spreadsheets: a key that looks like a formula
/// is still that key.
pub(super) fn of(report: &FunnelReport) -> String {
    let mut total = vec![FunnelGroup::whole("total", report.funnel.clone())];
    if let Some(conversions) = report.unattributed.clone().filter(|of| !of.is_empty()) {
        let revenue = report.unattributed_revenue.clone().unwrap_or_default();
        total.push(FunnelGroup::whole("unattributed", Funnel { conversions, revenue, ..Funnel::default() }));
    }
    let rows = report.groups.as_deref().unwrap_or(&total);
    let types: BTreeSet<&str> =
        rows.iter().flat_map(|row| &row.conversions).flat_map(|counts| counts.keys().map(String::as_str)).collect();
    let named = types.iter().map(|kind| format!("conversion.{kind}"));
    let currencies: BTreeSet<&str> =
        rows.iter().flat_map(|row| row.revenue.iter().flatten()).map(|sum| sum.currency.as_str()).collect();
    let revenue = currencies.iter().map(|currency| format!("revenue_cents.{currency}"));
    let fixed = ["key", "clicks", "installed", "identified", "reinstalled", "new_device", "engaged", "conversions"];
    let mut sheet = String::new();
    line(&mut sheet, fixed.map(str::to_owned).into_iter().chain(named).chain(revenue));
    for row in rows {
        line(&mut sheet, cells(row, &types, &currencies));
    }
    sheet
}

fn cells(row: &FunnelGroup, types: &BTreeSet<&str>, currencies: &BTreeSet<&str>) -> Vec<String> {
    let number = |count: Option<i64>| count.map_or_else(String::new, |count| count.to_string());
    let (new, returning) = (row.new_users.as_ref(), row.returning_users.as_ref());
    let conversions = row.conversions.as_ref();
    let mut cells = vec![
        row.key.clone(),
        row.clicks.to_string(),
        number(new.map(|new| new.installed)),
        number(new.map(|new| new.identified)),
        number(returning.map(|returning| returning.reinstalled)),
        number(returning.map(|returning| returning.new_device)),
        number(returning.map(|returning| returning.engaged)),
        number(conversions.map(|counts| counts.values().sum())),
    ];
    cells.extend(types.iter().map(|kind| number(conversions.map(|counts| counts.get(*kind).copied().unwrap_or(0)))));
    cells.extend(currencies.iter().map(|currency| {
        let of =
            |sums: &Vec<Revenue>| sums.iter().find(|sum| sum.currency == *currency).map_or(0, |sum| sum.amount_cents);
        number(row.revenue.as_ref().map(of))
    }));
    cells
}

/// Adds a line with these cells.
pub(crate) fn line(sheet: &mut String, cells: impl IntoIterator<Item: AsRef<str>>) {
    for (nth, cell) in cells.into_iter().enumerate() {
        let cell = cell.as_ref();
        if nth > 0 {
            sheet.push(',');
        }
        if cell.contains(['"', ',', '\r', '\n']) {
            sheet.push('"');
            sheet.push_str(&cell.replace('"', "\"\""));
            sheet.push('"');
        } else {
            sheet.push_str(cell);
        }
    }
    sheet.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use deeplink_core::funnel::{FunnelQuery, GroupBy};
    use deeplink_core::time::Timestamp;

    fn report(groups: Option<Vec<FunnelGroup>>, funnel: Funnel) -> FunnelReport {
        let query = FunnelQuery::new(["a"]).group_by(GroupBy::Link);
        let scope = query.check(Timestamp::from_millis(1_795_167_000_000)).expect("a question");
        FunnelReport::new(scope, funnel, groups)
    }

    fn funnel(clicks: i64, conversions: &[(&str, i64)]) -> Funnel {
        let conversions = conversions.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        Funnel { clicks, conversions, ..Funnel::default() }
    }

    #[test]
    fn cells_are_quoted_where_they_must_be_and_never_changed() {
        let odd = funnel(3, &[("a,b", 1), ("=cmd|'/c'!A1", 2), ("say \"hi\"", 4), ("+1", 5)]);
        assert_eq!(
            of(&report(None, odd)),
            "key,clicks,installed,identified,reinstalled,new_device,engaged,conversions,conversion.+1,\
             conversion.=cmd|'/c'!A1,\"conversion.a,b\",\"conversion.say \"\"hi\"\"\"\r\n\
             total,3,0,0,0,0,0,12,5,2,1,4\r\n"
        );
    }

    #[test]
    fn groups_are_rows() {
        let groups =
            vec![FunnelGroup::whole("a", funnel(1, &[("buy", 2)])), FunnelGroup::whole("b", funnel(0, &[("see", 1)]))];
        assert_eq!(
            of(&report(Some(groups), Funnel::default())).lines().skip(1).collect::<Vec<_>>(),
            ["a,1,0,0,0,0,0,2,2,0", "b,0,0,0,0,0,0,1,0,1"]
        );
        let earned = |revenue: &[(&str, i64)]| Funnel {
            revenue: revenue.iter().map(|(currency, cents)| Revenue::new((*currency).to_owned(), *cents)).collect(),
            ..Funnel::default()
        };
        let groups = vec![
            FunnelGroup::whole("a", earned(&[("EUR", 1_999), ("USD", -5)])),
            FunnelGroup::whole("b", earned(&[("JPY", 100)])),
        ];
        assert_eq!(
            of(&report(Some(groups), Funnel::default())),
            "key,clicks,installed,identified,reinstalled,new_device,engaged,conversions,revenue_cents.EUR,\
             revenue_cents.JPY,revenue_cents.USD\r\na,0,0,0,0,0,0,0,1999,0,-5\r\nb,0,0,0,0,0,0,0,0,100,0\r\n"
        );
        let clicks = vec![FunnelGroup::of_clicks("", 4), FunnelGroup::of_clicks("example.com", 1)];
        assert_eq!(
            of(&report(Some(clicks), funnel(5, &[("buy", 2)]))),
            "key,clicks,installed,identified,reinstalled,new_device,engaged,conversions\r\n,4,,,,,,\r\nexample.com,1,,,,,,\r\n"
        );
    }
}
