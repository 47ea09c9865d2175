//! `dl billing cancel`.

use clap::Args;
use deeplink_client::{BillingMethod, BillingStatus, SubscriptionStatus};

use super::{dated, day, has_lapsed, is_on_hold};
use crate::context::Context;
use crate::error::Outcome;
use crate::escape;
use crate::help::help;
use crate::output::{self, Format};

/// Cancel the subscription at the end of the current billing period
#[derive(Debug, Args)]
#[command(after_help = help(
    "The plan remains active until then. Links, domains, team members and webhooks are kept, and links keep working. \
     On the free plan, nothing can be added beyond its limits, and individual clicks and other events are kept for \
     only 30 days. Canceling again has no effect.",
    &["dl billing cancel --yes", "dl billing cancel --dry-run"]
))]
pub(crate) struct Cancel {}

impl Cancel {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::CANCELLATION)?;
        let client = ctx.client().await?;
        if ctx.will_ask() {
            let status = client.billing().status().await.map_err(|error| ctx.stop(&error))?;
            if let Some((warning, name)) = question(&status) {
                ctx.confirm_name(&warning, &name).await?;
            }
        } else {
            ctx.confirm_name("the subscription will end at the end of the current billing period", "").await?;
        }
        let canceled = client.billing().cancel().full().await.map_err(|error| ctx.stop(&error))?;
        let (raw, end) = (String::from_utf8_lossy(&canceled.raw), canceled.value.current_period_end);
        if ctx.out.format != Format::Table {
            return sheet.one(&raw);
        }
        sheet.created(&dated(&raw, end))?;
        if let Some(end) = end.filter(|_| sheet.fields.is_none()) {
            ctx.console.say(&format!("the subscription will end on {}", day(end)));
        }
        Ok(())
    }
}

/// What would be lost, and the name of the plan; `None` if there is nothing to end or the end is already set.
fn question(status: &BillingStatus) -> Option<(String, String)> {
    if status.billing_method != BillingMethod::Stripe || status.cancel_scheduled {
        return None;
    }
    let plan = escape::one_line(status.plan_tier.as_str()).into_owned();
    let lost = if is_on_hold(status) || has_lapsed(status) {
        let why = if is_on_hold(status) { "on hold" } else { "not paid" };
        format!(
            "The {plan} subscription is {why} and currently grants no plan. It will end at the end of the current billing period \
             and cannot be resumed after that."
        )
    } else {
        let end = status.current_period_end;
        let end =
            end.map_or_else(|| "at the end of the current billing period".to_owned(), |end| format!("on {}", day(end)));
        // A failed payment ends it earlier.
        let latest = if status.status == SubscriptionStatus::PastDue { " at the latest" } else { "" };
        format!("The {plan} plan ends {end}{latest}.")
    };
    Some((format!("{lost} {}", afterwards(status)), plan))
}

/// What applies without the subscription.
fn afterwards(status: &BillingStatus) -> &'static str {
    match (status.quotas_enforced, status.comp_active) {
        (false, _) => "Links, domains, team members and webhooks are kept.",
        (true, true) => {
            "Links, domains, team members and webhooks are kept, but the limits of the plan granted by the operator \
             apply."
        }
        (true, false) => {
            "Links, domains, team members and webhooks are kept, but nothing can be added beyond the limits of the \
             free plan, and individual clicks and other events are kept for only 30 days."
        }
    }
}
