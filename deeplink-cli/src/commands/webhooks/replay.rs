//! `dl webhooks replay`.

use clap::Args;
use deeplink_core::time::Timestamp;
use deeplink_core::webhook::ReplayDeliveries;

use crate::clock::parse_moment;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::Format;
use crate::{given, output};

/// Resend one delivery, or all failed ones
#[derive(Debug, Args)]
#[command(after_help = help(
    "Sends the same bytes with the same webhook-id, so that endpoints can detect duplicates. With a delivery ID, \
     prints the new delivery. --failed-since resends the newest 1,000 failed deliveries created since then, \
     except those already being resent; an event that failed several times is sent once.",
    &[
    "dl webhooks replay wh_0123456789abcdef01234567 dlv_0123456789abcdef01234567",
    "dl webhooks replay wh_0123456789abcdef01234567 dlv_0123456789abcdef01234567 -o json",
    "dl webhooks replay wh_0123456789abcdef01234567 --failed-since 1d",
]
))]
pub(crate) struct Replay {
    /// ID of the webhook
    id: String,
    /// ID of the delivery
    #[arg(required_unless_present = "failed_since")]
    delivery_id: Option<String>,
    /// Resend failed deliveries created since then: RFC 3339, a date, or how long ago
    #[arg(long, value_name = "WHEN", value_parser = parse_moment, conflicts_with = "delivery_id")]
    failed_since: Option<Timestamp>,
}

impl Replay {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        if let Some(since) = self.failed_since {
            return self.replay_failed(ctx, since).await;
        }
        let sheet = ctx.out.sheet(&output::DELIVERIES)?;
        given::webhook_id(&self.id)?;
        let delivery_id = self.delivery_id.as_deref().unwrap_or_default();
        given::delivery_id(delivery_id)?;
        let call = ctx.client().await?.webhooks().replay(&self.id, delivery_id).full();
        let again = call.await.map_err(|error| super::unsent(ctx, &error, &self.id, "deliveries"))?;
        sheet.created(&String::from_utf8_lossy(&again.raw))
    }

    async fn replay_failed(&self, ctx: &Context, since: Timestamp) -> Outcome {
        let sheet = ctx.out.sheet(&output::REPLAYED)?;
        given::webhook_id(&self.id)?;
        let asked = ReplayDeliveries::failed_since(since);
        let call = ctx.client().await?.webhooks().replay_failed(&self.id, &asked).full();
        let again = call.await.map_err(|error| super::unsent(ctx, &error, &self.id, "list"))?;
        if ctx.out.format != Format::Table || sheet.fields.is_some() {
            return sheet.one(&String::from_utf8_lossy(&again.raw));
        }
        let what = match (again.value.count, again.value.has_more) {
            (0, false) => "no failed deliveries to resend since then".to_owned(),
            (0, true) => {
                "nothing was resent: 100,000 deliveries of this webhook are pending; try again later".to_owned()
            }
            (1, _) => "resending 1 delivery".to_owned(),
            (count, false) => format!("resending {count} deliveries"),
            (count, true) => format!("resending {count} deliveries; there are more: run the command again for them"),
        };
        ctx.console.say(&what);
        Ok(())
    }
}
