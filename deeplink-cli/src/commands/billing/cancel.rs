//! `dl billing cancel`.

use clap::Args;
use deeplink_client::{BillingMethod, BillingStatus};

use super::{dated, day};
use crate::context::Context;
use crate::error::Outcome;
use crate::escape;
use crate::help::help;
use crate::output::{self, Format};

/// Cancel the subscription at the end of the period that is paid for
#[derive(Debug, Args)]
#[command(after_help = help(
    "The plan stays until then. Nothing is deleted and links keep working, but nothing can be added beyond the limits of \
     the free plan. Cancelling again does no harm.",
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
            ctx.confirm_name("the plan ends with the period that is paid for", "").await?;
        }
        let canceled = client.billing().cancel().full().await.map_err(|error| ctx.stop(&error))?;
        let (raw, end) = (String::from_utf8_lossy(&canceled.raw), canceled.value.current_period_end);
        if ctx.out.format != Format::Table {
            return sheet.one(&raw);
        }
        sheet.created(&dated(&raw, end))?;
        if let Some(end) = end.filter(|_| sheet.fields.is_none()) {
            ctx.console.say(&format!("the plan ends on {}", day(end)));
        }
        Ok(())
    }
}

/// What would be lost, and the name of the plan; nothing where the service has nothing to end or the end is set already.
fn question(status: &BillingStatus) -> Option<(String, String)> {
    if status.billing_method != BillingMethod::Stripe || status.cancel_scheduled {
        return None;
    }
    let plan = escape::one_line(status.plan_tier.as_str()).into_owned();
    let end = status.current_period_end.map_or_else(|| "with its period".to_owned(), |end| format!("on {}", day(end)));
    let warning = format!(
        "The plan {plan} ends {end}. Nothing is deleted, but nothing can be added beyond the limits of the free plan."
    );
    Some((warning, plan))
}
