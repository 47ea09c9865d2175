//! `dl webhooks deliveries`.

use clap::Args;
use deeplink_core::webhook::DeliveryStatus;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::paging::{Fetched, Paging};
use crate::{given, output};

/// List the deliveries to a webhook, newest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Deliveries are kept for up to 30 days. Shows the response to the last attempt, or why there was none. JSON \
     includes the request body and every attempt.",
    &[
    "dl webhooks deliveries wh_0123456789abcdef01234567 --status failed",
    "dl webhooks deliveries wh_0123456789abcdef01234567 --all -o jsonl",
]
))]
pub(crate) struct Deliveries {
    /// ID of the webhook
    id: String,
    #[command(flatten)]
    paging: Paging,
    /// Only deliveries with this status: pending, delivered, failed, canceled or dropped
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
}

impl Deliveries {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELIVERIES)?;
        given::webhook_id(&self.id)?;
        let status = self.status.as_deref().map(DeliveryStatus::from);
        if let Some(DeliveryStatus::Unknown(word)) = &status {
            let word: String = word.chars().take(64).collect();
            let what = format!("unknown status {word:?}; must be pending, delivered, failed, canceled or dropped");
            return Err(Failure::invalid(what).code("invalid_status").field("status").into());
        }
        let webhooks = ctx.client().await?.webhooks();
        let fetch = async |size, cursor| {
            let mut pages = webhooks.deliveries(&self.id).page_size(size);
            if let Some(status) = &status {
                pages = pages.status(status.clone());
            }
            if let Some(cursor) = cursor {
                pages = pages.cursor(cursor);
            }
            Fetched::by(pages.first_page()).await.map_err(|error| ctx.stop_among(&error, "webhooks"))
        };
        self.paging.part().print(ctx, &sheet, "no deliveries; to send one: dl webhooks test", fetch).await
    }
}
