//! The account's numbers as the sum over its links: of clicks under any credit; of installs, users, conversions and revenue
//! where one touch is credited.

use std::collections::BTreeMap;

use deeplink_core::funnel::{Credit, Funnel, FunnelReport, Revenue};

/// Counts of the whole window (`None`) and of each group, if they can be summed.
#[derive(Debug, Default)]
pub(super) struct Sums(BTreeMap<Option<String>, Funnel>);

impl Sums {
    pub(super) fn add(&mut self, report: &FunnelReport) {
        for (key, part) in parts(report) {
            let Funnel { clicks, new_users, returning_users, conversions, revenue } = part;
            let sum = self.0.entry(key).or_default();
            sum.clicks += clicks;
            sum.new_users.installed += new_users.installed;
            sum.new_users.identified += new_users.identified;
            sum.returning_users.reinstalled += returning_users.reinstalled;
            sum.returning_users.new_device += returning_users.new_device;
            for (kind, count) in conversions {
                *sum.conversions.entry(kind).or_default() += count;
            }
            for of in revenue {
                match sum.revenue.iter_mut().find(|known| known.currency == of.currency) {
                    Some(known) => known.amount_cents += of.amount_cents,
                    None => sum.revenue.push(Revenue::new(of.currency, of.amount_cents)),
                }
            }
            sum.revenue.sort_by(|a, b| a.currency.cmp(&b.currency));
        }
    }

    /// Compares with the report on the account, which names only the links that have clicks.
    pub(super) fn compare(&self, account: &FunnelReport) -> Result<(), String> {
        let mut told: BTreeMap<_, _> = parts(account).collect();
        for (key, sum) in &self.0 {
            match told.remove(key) {
                Some(of) if of == *sum => {}
                None if sum.clicks == 0 => {}
                of => return Err(format!("{key:?}: {of:?}, but the links add up to {sum:?}")),
            }
        }
        if told.is_empty() { Ok(()) } else { Err(format!("of no link: {told:?}")) }
    }
}

/// The parts of a report that can be summed. An install that several links open again counts once for them all.
fn parts(report: &FunnelReport) -> impl Iterator<Item = (Option<String>, Funnel)> {
    let groups = report.groups.iter().flatten().map(|group| {
        let funnel = Funnel {
            clicks: group.clicks,
            new_users: group.new_users.unwrap_or_default(),
            returning_users: group.returning_users.unwrap_or_default(),
            conversions: group.conversions.clone().unwrap_or_default(),
            revenue: group.revenue.clone().unwrap_or_default(),
        };
        (Some(group.key.clone()), funnel)
    });
    let is_shared = report.credit == Credit::Touched;
    groups.chain([(None, report.funnel.clone())]).map(move |(key, mut funnel)| {
        funnel.returning_users.engaged = 0;
        (key, if is_shared { Funnel { clicks: funnel.clicks, ..Funnel::default() } } else { funnel })
    })
}
