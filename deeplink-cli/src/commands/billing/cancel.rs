//! `dl billing cancel`.

use clap::Args;
use deeplink_client::{BillingMethod, BillingStatus, SubscriptionStatus};

use super::{dated, day, has_lapsed, is_on_hold};
use crate::context::Context;
use crate::error::Outcome;
use crate::escape;
use crate::help::help;
use crate::output::{self, Format};

/// Cancel the subscription at the end of the paid period
#[derive(Debug, Args)]
#[command(after_help = help(
    "A plan that is paid for stays until then. No link, domain, team member or webhook is deleted and links keep working. \
     On the free plan nothing can be added beyond its limits, and individual clicks and other events are kept for 30 days \
     only. Cancelling again does no harm.",
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
            ctx.confirm_name("the subscription ends with its period", "").await?;
        }
        let canceled = client.billing().cancel().full().await.map_err(|error| ctx.stop(&error))?;
        let (raw, end) = (String::from_utf8_lossy(&canceled.raw), canceled.value.current_period_end);
        if ctx.out.format != Format::Table {
            return sheet.one(&raw);
        }
        sheet.created(&dated(&raw, end))?;
        if let Some(end) = end.filter(|_| sheet.fields.is_none()) {
            ctx.console.say(&format!("the subscription ends on {}", day(end)));
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
            "The subscription to {plan} is {why} and grants nothing now. It ends with its period and cannot be resumed \
             after that."
        )
    } else {
        let end = status.current_period_end;
        let end = end.map_or_else(|| "with its period".to_owned(), |end| format!("on {}", day(end)));
        // A failed payment ends it earlier.
        let latest = if status.status == SubscriptionStatus::PastDue { " at the latest" } else { "" };
        format!("The plan {plan} ends {end}{latest}.")
    };
    Some((format!("{lost} {}", afterwards(status)), plan))
}

/// What applies without the subscription.
fn afterwards(status: &BillingStatus) -> &'static str {
    match (status.quotas_enforced, status.comp_active) {
        (false, _) => "No link, domain, team member or webhook is deleted.",
        (true, true) => {
            "No link, domain, team member or webhook is deleted, but the limits of the plan that the operator grants hold."
        }
        (true, false) => {
            "No link, domain, team member or webhook is deleted, but nothing can be added beyond the limits of the free \
             plan, and individual clicks and other events are kept for 30 days only."
        }
    }
}
