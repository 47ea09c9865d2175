//! What the migrations of accounts' counts fill in of the time before it is what would have been counted meanwhile.

use deeplink_testing::World;

/// The rows of accounts by table, as text.
const ROWS: [(&str, &str); 9] = [
    ("click_hours", "link, hour, visitor, clicks, first_position, last_position, first_at, last_at"),
    ("click_days", "link, day, visitor, clicks"),
    ("click_facets", "link, hour, platform, host, clicks, first_position, last_position, first_at, last_at"),
    ("click_facet_days", "link, day, platform, host, clicks"),
    ("install_credits", "link, at, bound_as, is_first, is_last, install"),
    (
        "conversion_credits",
        "link, at, conversion_type, is_first, is_last, conversion, COALESCE(amount_cents,-1), COALESCE(currency,'')",
    ),
    ("account_sums", "account, width, start, effect, label, since, count, high, low"),
    ("account_links", "account, day, link, clicks"),
    ("touches", "account, at, number, install, COALESCE(account_before,-1)"),
];

/// Deletes what accounts counted, and runs the migration's statements that fill it in.
pub(super) async fn counts_as_they_were_counted(world: &World) {
    let counted = of_accounts(world).await;
    assert!(counted.iter().all(|rows| !rows.is_empty()), "{:?}", counted.iter().map(Vec::len).collect::<Vec<_>>());
    let (credited, touched) = ROWS.split_at(8);
    let deleted = credited.iter().map(|(table, columns)| {
        let account = columns.split(',').next().unwrap_or_default();
        format!("DELETE FROM {table} WHERE {account} < 0")
    });
    let emptied = touched.iter().map(|(table, _)| format!("UPDATE {table} SET account = NULL, account_before = NULL"));
    let statements: Vec<String> = deleted.chain(emptied).chain(filling_in()).collect();
    world.db.execute(format!("BEGIN;\n{};\nCOMMIT", statements.join(";\n"))).await;
    for ((table, _), (after, before)) in ROWS.iter().zip(of_accounts(world).await.iter().zip(&counted)) {
        let differing = || before.iter().zip(after).find(|(before, after)| before != after);
        assert!(after == before, "{table}: {} rows instead of {}: {:?}", after.len(), before.len(), differing());
    }
}

async fn of_accounts(world: &World) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for (table, columns) in ROWS {
        let account = columns.split(',').next().unwrap_or_default();
        let columns = columns.replace(", ", " || ' ' || ");
        // A sum that was taken back stays as a row.
        let not_zero = if table == "account_sums" { " AND count <> 0" } else { "" };
        all.push(
            world.db.texts(format!("SELECT {columns} FROM {table} WHERE {account} < 0{not_zero} ORDER BY 1")).await,
        );
    }
    all
}

/// The statements of the migrations but for the columns, the indexes and the accounts' numbers, which are there, and with
/// the later name of a column.
fn filling_in() -> impl Iterator<Item = String> {
    let all = [
        include_str!("../../../migrations/0028_account_counts.sql"),
        include_str!("../../../migrations/0031_account_openings.sql"),
        include_str!("../../../migrations/0033_revenue.sql"),
        include_str!("../../../migrations/0035_account_sums.sql"),
        include_str!("../../../migrations/0036_account_links.sql"),
    ]
    .concat();
    let all = all.replace("kind", "visitor");
    let lines = all.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    let statements: Vec<String> = lines.split(';').map(|sql| sql.trim().to_owned()).collect();
    let is_there = [
        "ALTER TABLE",
        "CREATE TABLE account_sums",
        "CREATE TABLE account_links",
        "CREATE INDEX",
        "CREATE UNIQUE INDEX",
        "DROP INDEX",
        "UPDATE tenants",
    ];
    let is_there = move |sql: &String| sql.is_empty() || is_there.iter().any(|start| sql.starts_with(start));
    statements.into_iter().filter(move |sql| !is_there(sql))
}
