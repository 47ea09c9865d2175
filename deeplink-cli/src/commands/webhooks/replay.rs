//! `dl webhooks replay`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Send a delivery's event again, and print the new delivery
#[derive(Debug, Args)]
#[command(after_help = help(
    "The same bytes under the same webhook-id, so that a receiver can recognize a duplicate.",
    &[
    "dl webhooks replay wh_0123456789abcdef01234567 dlv_0123456789abcdef01234567",
    "dl webhooks replay wh_0123456789abcdef01234567 dlv_0123456789abcdef01234567 -o json",
]
))]
pub(crate) struct Replay {
    /// Id of the webhook
    id: String,
    /// Id of the delivery
    delivery_id: String,
}

impl Replay {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELIVERIES)?;
        given::webhook_id(&self.id)?;
        given::delivery_id(&self.delivery_id)?;
        let call = ctx.client().await?.webhooks().replay(&self.id, &self.delivery_id).full();
        let again = call.await.map_err(|error| super::unsent(ctx, &error, &self.id, "deliveries"))?;
        sheet.created(&String::from_utf8_lossy(&again.raw))
    }
}
