//! Changes to an account's sums, stored together: those of conversions after their events are published, then those of
//! the touch or binding. An account's writes wait for each other's locks on these rows, so they lock them late and in
//! one order.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::super::credits::Range;
use super::super::upsert::{Column, Upsert};
use super::super::{Conn, DbError, on};
use super::sums::{BOUND, CONVERTED, DAY, HOUR, INSTALLED, MAX_LAG, NEVER, OPENED, REVENUE};

/// Account, width, effect, start, label and since.
type Key = (i64, i64, i64, i64, String, i64);

/// How much a sum changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Change {
    count: i64,
    high: i64,
    low: i64,
}

/// The changes of a write.
#[derive(Debug, Default)]
pub(in super::super) struct Changes(BTreeMap<Key, Change>);

/// A conversion that an account is credited with, or that none of its links is.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Conversion<'a> {
    /// The account's number, or that minus one if no link is credited.
    pub(in super::super) account: i64,
    pub(in super::super) at: i64,
    pub(in super::super) conversion_type: &'a str,
    pub(in super::super) amount: Option<(i64, &'a str)>,
}

/// Link, time, type, amount and currency.
type Credit = (i64, i64, String, Option<i64>, Option<String>);

impl Changes {
    /// A link opened an install, the `number`th time that any did; `before` is the previous time, not counting the
    /// first.
    pub(in super::super) fn touch(&mut self, account: i64, at: i64, number: i64, before: Option<i64>) {
        let effect = if number == 1 { INSTALLED } else { OPENED };
        self.add((account, effect, ""), at, before, Change { count: 1, ..Change::default() });
    }

    /// The previous opening of a stored opening has changed.
    pub(in super::super) fn opened_before(&mut self, account: i64, at: i64, [from, to]: [Option<i64>; 2]) {
        for (before, count) in [(from, -1), (to, 1)] {
            self.add((account, OPENED, ""), at, before, Change { count, ..Change::default() });
        }
    }

    /// An install was bound to a user.
    pub(in super::super) fn binding(&mut self, account: i64, at: i64, bound_as: i64) {
        self.add((account, BOUND, &bound_as.to_string()), at, None, Change { count: 1, ..Change::default() });
    }

    /// A conversion is credited or, if `times` is -1, no longer credited.
    pub(in super::super) fn conversion(&mut self, of: Conversion<'_>, times: i64) {
        let Conversion { account, at, conversion_type, amount } = of;
        self.add((account, CONVERTED, conversion_type), at, None, Change { count: times, ..Change::default() });
        if let Some((cents, currency)) = amount {
            let change = Change { count: times, high: times * (cents >> 32), low: times * (cents & 0xffff_ffff) };
            self.add((account, REVENUE, currency), at, None, change);
        }
    }

    /// The same for all conversions of a range, as they are credited now.
    pub(in super::super) async fn conversions(
        &mut self,
        db: &mut Conn<'_>,
        range: Range,
        times: i64,
    ) -> Result<(), DbError> {
        const SQL: &str = "
            SELECT k.link, k.at, k.conversion_type, k.amount_cents, k.currency
            FROM conversions c JOIN conversion_credits k ON k.conversion = c.position
            WHERE c.app_user = $1 AND (c.at, c.position) > ($2, $3) AND (c.at, c.position) <= ($4, $5) AND k.link < 0";
        let Range { user, after, upto } = range;
        let credits: Vec<Credit> = on!(db, c => sqlx::query_as(SQL)
            .bind(user).bind(after.at).bind(after.position).bind(upto.at).bind(upto.position)
            .fetch_all(c).await)?;
        for (account, at, conversion_type, cents, currency) in &credits {
            let amount = cents.zip(currency.as_deref());
            self.conversion(Conversion { account: *account, at: *at, conversion_type, amount }, times);
        }
        Ok(())
    }

    fn add(&mut self, (account, effect, label): (i64, i64, &str), at: i64, before: Option<i64>, by: Change) {
        for width in [HOUR, DAY] {
            let start = at - at % width;
            let since = match (effect, before.map(|before| before - before % width)) {
                (OPENED, Some(before)) if width == DAY || start - before <= MAX_LAG => before,
                (OPENED, _) => NEVER,
                _ => 0,
            };
            let change = self.0.entry((account, width, effect, start, label.to_owned(), since)).or_default();
            change.count += by.count;
            change.high += by.high;
            change.low += by.low;
        }
    }

    /// Stores them.
    pub(in super::super) async fn store(mut self, db: &mut Conn<'_>) -> Result<(), DbError> {
        static UPSERT: LazyLock<Upsert> = LazyLock::new(|| {
            let numbers = ["account", "width", "effect", "start", "since", "count", "high", "low"];
            let columns: Vec<_> = numbers.map(|name| (name, "BIGINT")).into_iter().chain([("label", "TEXT")]).collect();
            Upsert::new(
                "account_sums",
                &columns,
                "ON CONFLICT (account, width, effect, start, label, since) DO UPDATE SET
                    count = account_sums.count + excluded.count, high = account_sums.high + excluded.high,
                    low = account_sums.low + excluded.low",
            )
        });
        self.0.retain(|_, change| *change != Change::default());
        let keys = |value: fn(&Key) -> i64| Column::Numbers(self.0.keys().map(value).collect());
        let by = |value: fn(&Change) -> i64| Column::Numbers(self.0.values().map(value).collect());
        let labels = Column::Texts(self.0.keys().map(|key| key.4.as_str()).collect());
        let columns = [
            keys(|key| key.0),
            keys(|key| key.1),
            keys(|key| key.2),
            keys(|key| key.3),
            keys(|key| key.5),
            by(|change| change.count),
            by(|change| change.high),
            by(|change| change.low),
            labels,
        ];
        UPSERT.store(db, &columns).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_in_the_same_write_is_no_change() {
        let of =
            |account, cents| Conversion { account, at: 7 * HOUR, conversion_type: "a", amount: Some((cents, "EUR")) };
        let mut changes = Changes::default();
        changes.conversion(of(-2, 500), -1);
        changes.conversion(of(-2, 500), 1);
        assert!(changes.0.len() == 4 && changes.0.values().all(|change| *change == Change::default()));
        changes.conversion(of(-3, -5), -1);
        changes.conversion(of(-2, -5), 1);
        let sum = |account: i64, effect: i64| {
            changes.0[&(account, HOUR, effect, 7 * HOUR, if effect == REVENUE { "EUR" } else { "a" }.to_owned(), 0)]
        };
        assert_eq!((sum(-2, CONVERTED).count, sum(-3, CONVERTED).count), (1, -1));
        assert_eq!(sum(-2, REVENUE), Change { count: 1, high: -1, low: 0xffff_fffb });
        assert_eq!(sum(-3, REVENUE), Change { count: -1, high: 1, low: -0xffff_fffb });
    }

    #[test]
    fn an_hour_knows_the_opening_before_for_25_hours_and_a_day_for_ever() {
        let since = |before: Option<i64>| {
            let mut changes = Changes::default();
            changes.touch(-2, 100 * HOUR + 5, 2, before);
            changes.0.into_keys().map(|key| key.5).collect::<Vec<_>>()
        };
        assert_eq!(since(None), [NEVER, NEVER]);
        assert_eq!(since(Some(100 * HOUR + 5)), [100 * HOUR, 4 * DAY]);
        assert_eq!(since(Some(75 * HOUR + 1)), [75 * HOUR, 3 * DAY]);
        assert_eq!(since(Some(75 * HOUR - 1)), [NEVER, 3 * DAY]);
        assert_eq!(since(Some(5)), [NEVER, 0]);
        let mut first = Changes::default();
        first.touch(-2, 5, 1, None);
        assert!(first.0.keys().all(|key| (key.2, key.5) == (INSTALLED, 0)));
    }
}
