//! Counts, shares, changes and sums of money as a page shows them.

use deeplink_core::funnel::Revenue;

/// A count, shown with thousands separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pages) struct Count(pub(super) i64);

impl From<i64> for Count {
    fn from(count: i64) -> Self {
        Self(count)
    }
}

impl Count {
    /// The count of things in memory.
    pub(in crate::pages) fn of(things: usize) -> Self {
        Self(i64::try_from(things).unwrap_or(i64::MAX))
    }

    /// The count without separators.
    pub(in crate::pages) fn number(self) -> i64 {
        self.0
    }

    /// Whether it is 1.
    pub(in crate::pages) fn is_one(self) -> bool {
        self.0 == 1
    }

    /// Whether it is 0.
    pub(in crate::pages) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.0.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// The upper end of an axis for values up to `max`: even, so that its middle is a whole number too, and round.
pub(super) fn top(max: i64) -> i64 {
    let digits = max.max(1).ilog10();
    let step = 2 * 10_i64.pow(digits.saturating_sub(1));
    max.max(1).saturating_add(step - 1) / step * step
}

/// A part of a whole, scaled to `full`; anything above 0 becomes at least 1, so that it is visible.
pub(super) fn scaled(count: i64, whole: i64, full: i64) -> i64 {
    if count <= 0 || whole <= 0 {
        return 0;
    }
    let part = i128::from(count) * i128::from(full) / i128::from(whole);
    i64::try_from(part).unwrap_or(full).clamp(1, full)
}

/// A number of tenths, with its decimal unless that is 0.
fn decimal(tenths: i128) -> String {
    if tenths % 10 == 0 { (tenths / 10).to_string() } else { format!("{}.{}", tenths / 10, tenths % 10) }
}

/// A share in percent; `None` if it is more than the whole.
pub(super) fn percent(count: i64, whole: i64) -> Option<String> {
    if count > whole {
        return None;
    }
    let tenths = (i128::from(count) * 1_000 + i128::from(whole) / 2).checked_div(i128::from(whole))?;
    Some(format!("{}%", decimal(tenths)))
}

/// A ratio; `None` if `whole` is 0.
pub(super) fn ratio(count: i64, whole: i64) -> Option<String> {
    let tenths = (i128::from(count) * 10 + i128::from(whole) / 2).checked_div(i128::from(whole))?;
    Some(decimal(tenths))
}

/// The change in percent; `None` if there was nothing before.
pub(super) fn change(now: i64, before: i64) -> Option<String> {
    let difference = (i128::from(now) - i128::from(before)).abs() * 1_000;
    let tenths = (difference + i128::from(before) / 2).checked_div(i128::from(before))?;
    let sign = if now < before { "\u{2212}" } else { "+" };
    Some(format!("{sign}{}%", decimal(tenths)))
}

/// Revenue, such as `84.00 EUR`.
pub(in crate::pages) struct Earned {
    pub(in crate::pages) now: String,
    /// Revenue in the previous period.
    pub(in crate::pages) before: String,
}

/// The revenue of both periods; `None` if there is none.
pub(super) fn earned(now: &[Revenue], before: &[Revenue]) -> Option<Earned> {
    let nothing = |other: &Revenue| Revenue::new(other.currency.clone(), 0);
    let said = |sums: &[Revenue], other: &[Revenue]| match sums {
        [] => listed(&other.iter().map(nothing).collect::<Vec<_>>()),
        sums => listed(sums),
    };
    (!now.is_empty() || !before.is_empty()).then(|| Earned { now: said(now, before), before: said(before, now) })
}

fn listed(revenue: &[Revenue]) -> String {
    revenue.iter().map(Revenue::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn in_brackets(revenue: &[Revenue]) -> String {
    if revenue.is_empty() { String::new() } else { format!(" ({})", listed(revenue)) }
}
