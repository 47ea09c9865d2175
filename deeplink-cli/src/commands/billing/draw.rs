//! The plan for people: what applies, and how much of it is used, with bars.

use deeplink_client::{BillingStatus, SubscriptionStatus};

use super::{NOT_ENFORCED, day, has_lapsed, is_on_hold, limited};
use crate::escape;
use crate::output::{Line, Pen, padded};

/// From this width there is room for whole names and percentages.
const WIDE: usize = 60;

/// The whole status. It ends with a line break.
pub(super) fn status(pen: Pen, status: &BillingStatus) -> String {
    let facts = facts(status);
    let widest = facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let fact = |(label, text): &(&str, String)| format!("{}  {text}", pen.label(&padded(label, widest)));
    let mut parts: Vec<String> = facts.iter().map(fact).collect();
    // The chart already ends with a line break.
    parts.extend([String::new(), pen.chart(&[("USAGE", lines(pen, status))])]);
    let notes = notes(pen, status);
    if !notes.is_empty() {
        parts.extend(notes);
        parts.push(String::new());
    }
    parts.join("\n")
}

fn facts(status: &BillingStatus) -> Vec<(&'static str, String)> {
    let word = |word: &str| escape::one_line(word).into_owned();
    let flag = |flag: bool| if flag { "yes" } else { "no" }.to_owned();
    let mut facts = vec![
        ("plan", word(status.plan_tier.as_str())),
        ("effective plan", word(status.effective_tier.as_str())),
        ("granted by the operator", flag(status.comp_active)),
        ("billing method", word(status.billing_method.as_str())),
        ("status", word(if is_on_hold(status) { "on hold" } else { status.status.as_str() })),
    ];
    facts.extend(status.current_period_end.map(|end| ("period ends", day(end))));
    facts.push(("cancel scheduled", flag(status.cancel_scheduled)));
    facts
}

/// A bar shows the part of its limit; without a limit there is no bar. A narrow terminal gets bars instead of
/// percentages.
fn lines(pen: Pen, status: &BillingStatus) -> Vec<Line> {
    let all = limited(status);
    let digits = all.iter().filter_map(|(.., limit)| Some(limit.as_ref()?.to_string().len())).max().unwrap_or(0);
    let is_wide = pen.width >= WIDE;
    let line = |(name, used, limit): (&str, i64, Option<i64>)| {
        let name = if is_wide { name } else { name.split(' ').next().unwrap_or(name) };
        let line = Line::new(name, used).part_of(limit.unwrap_or(0));
        match limit {
            Some(limit) if is_wide => line.tail(&format!("{} of {limit:>digits$}", pen.share(used, limit))),
            Some(limit) => line.tail(&format!("of {limit:>digits$}")),
            None if status.quotas_enforced => line.tail("unlimited"),
            None => line,
        }
    };
    all.into_iter().map(line).collect()
}

fn notes(pen: Pen, status: &BillingStatus) -> Vec<String> {
    let mut notes = Vec::new();
    let pay = match status.status {
        SubscriptionStatus::PastDue if has_lapsed(status) => {
            Some("the last payment failed and the plan has ended; to restore it, pay at: dl billing portal")
        }
        SubscriptionStatus::PastDue => {
            Some("the last payment failed; the plan ends within 7 days unless you pay at: dl billing portal")
        }
        _ if is_on_hold(status) => Some(
            "the subscription is unpaid, paused, or for a price that this service does not recognize, so it grants no \
             plan; see dl billing portal",
        ),
        _ => None,
    };
    notes.extend(pay.map(str::to_owned));
    if !status.quotas_enforced {
        notes.push(NOT_ENFORCED.to_owned());
    } else if let Some(days) = status.limits.analytics_retention_days {
        let gap = if pen.width < WIDE { '\n' } else { ' ' };
        notes.push(format!("individual clicks and other events{gap}are kept for {days} days"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use deeplink_client::mock::fixtures;
    use deeplink_core::plan::Tier;

    use super::*;

    #[test]
    fn a_status_fits_terminals_wide_and_narrow() {
        for (width, utf8) in [(80, true), (40, true), (40, false)] {
            let pen = Pen { color: false, utf8, width };
            for tier in [Tier::Free, Tier::Pro, Tier::Business, Tier::Scale] {
                let text = super::status(pen, &fixtures::billing_status(tier));
                assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
                assert!(utf8 || text.is_ascii(), "{text}");
                assert!(text.lines().all(|line| !line.ends_with(' ')), "{text:?}");
            }
        }
    }

    #[test]
    fn what_holds_is_said_in_words() {
        let mut found = fixtures::billing_status(Tier::Business);
        (found.cancel_scheduled, found.comp_active, found.status) = (true, true, SubscriptionStatus::PastDue);
        let pen = Pen { color: false, utf8: true, width: 80 };
        let text = super::status(pen, &found);
        for line in
            ["plan                     business", "granted by the operator  yes", "cancel scheduled         yes"]
        {
            assert!(text.contains(&format!("{line}\n")), "{text}");
        }
        assert!(
            text.contains("the last payment failed")
                && text.ends_with("individual clicks and other events are kept for 1095 days\n"),
            "{text}"
        );
        assert!(text.lines().any(|line| line.starts_with("team members") && line.ends_with(" unlimited")), "{text}");
    }
}
