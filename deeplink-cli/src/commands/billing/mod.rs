//! `dl billing`: the account's plan, and how it is paid for.

mod cancel;
mod checkout;
mod draw;
mod portal;
mod status;

use clap::Args;
use deeplink_client::{BillingMethod, BillingStatus, SubscriptionStatus};
use deeplink_core::time::Timestamp;

use crate::context::Context;
use crate::error::Outcome;
use crate::output::{Record, Sheet};

commands! {
    /// Show, buy or cancel the account's plan
    #[command(after_help = crate::help::help("", &["dl billing status", "dl billing checkout pro --open"]))]
    Billing {
        Status(status::Status),
        Checkout(checkout::Checkout),
        Portal(portal::Portal),
        Cancel(cancel::Cancel),
    }
}

/// Handling of the address of a payment processor's page.
#[derive(Debug, Args)]
struct Page {
    /// Also open the page in the browser
    #[arg(long)]
    open: bool,
}

impl Page {
    /// Prints the address only to stdout, because anyone with it can use it, and opens it on request.
    fn print(&self, ctx: &Context, sheet: &Sheet<'_>, raw: &[u8], url: &str) -> Outcome {
        ctx.console.hide(url);
        sheet.created(&String::from_utf8_lossy(raw))?;
        if self.open {
            crate::browser::open(ctx, url);
        }
        Ok(())
    }
}

/// The note that limits are not enforced, where the answer does not say so itself.
const NOT_ENFORCED: &str = "this service has no plan limits";

/// What plans limit: its name, the current count, and how many the plan includes. Where limits are not enforced, there
/// are none, and events are not counted.
fn limited(status: &BillingStatus) -> Vec<(&'static str, i64, Option<i64>)> {
    let (usage, limits, enforced) = (&status.usage, &status.limits, status.quotas_enforced);
    let all = [
        ("links", usage.links, limits.max_links),
        ("events this month", usage.events_this_month, limits.max_events_per_month),
        ("domains", usage.domains, limits.max_domains),
        ("team members", usage.team_members, limits.max_team_members),
        ("webhooks", usage.webhooks, limits.max_webhooks),
    ];
    let counted = all.into_iter().filter(|(name, ..)| enforced || *name != "events this month");
    counted.map(|(name, used, limit)| (name, used, limit.filter(|_| enforced))).collect()
}

/// The same in words, one text each.
pub(crate) fn in_words(status: &BillingStatus) -> Vec<String> {
    let words = |(name, used, limit): (&str, i64, Option<i64>)| match limit {
        Some(limit) => format!("{used} of {limit} {name}"),
        None if used == 1 => format!("1 {}", name.trim_end_matches('s')),
        None => format!("{used} {name}"),
    };
    let mut texts: Vec<String> = limited(status).into_iter().map(words).collect();
    if !status.quotas_enforced {
        texts.push(NOT_ENFORCED.to_owned());
    }
    texts
}

/// Whether there is a subscription that has not ended but grants nothing: it is unpaid, paused or for another price.
fn is_on_hold(status: &BillingStatus) -> bool {
    status.billing_method == BillingMethod::Stripe && status.status == SubscriptionStatus::Canceled
}

/// Whether a payment failed long enough ago that the subscription no longer grants anything.
fn has_lapsed(status: &BillingStatus) -> bool {
    status.status == SubscriptionStatus::PastDue && status.effective_tier.rank() < status.plan_tier.rank()
}

/// The day of a time that the service gives in milliseconds.
fn day(millis: i64) -> String {
    Timestamp::from_millis(millis).to_string().chars().take(10).collect()
}

/// An answer for people: the end of the period as a time.
fn dated(raw: &str, end: Option<i64>) -> String {
    let Some((record, end)) = Record::read(raw).zip(end) else { return raw.to_owned() };
    record.with("current_period_end", &format!("\"{}\"", Timestamp::from_millis(end)))
}
