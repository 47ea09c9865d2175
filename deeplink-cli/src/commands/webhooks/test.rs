//! `dl webhooks test`.

use clap::Args;
use deeplink_core::event::EventKind;
use deeplink_core::webhook::TestWebhook;

use super::kinds;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Send a test event to a webhook, and print the delivery
#[derive(Debug, Args)]
#[command(after_help = help(
    "The event is signed, sent and retried like any other. dl webhooks deliveries shows the result.",
    &[
    "dl webhooks test wh_0123456789abcdef01234567",
    "dl webhooks test wh_0123456789abcdef01234567 --event conversion",
]
))]
pub(crate) struct Test {
    /// ID of the webhook
    id: String,
    /// Kind of event [default: the first one the webhook is subscribed to]
    #[arg(long, value_name = "KIND", value_parser = kinds::parse)]
    event: Option<EventKind>,
}

impl Test {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELIVERIES)?;
        given::webhook_id(&self.id)?;
        kinds::check(&self.event)?;
        let asked = self.event.iter().fold(TestWebhook::new(), TestWebhook::event);
        let call = ctx.client().await?.webhooks().test(&self.id, &asked).full();
        let sent = call.await.map_err(|error| super::unsent(ctx, &error, &self.id, "list"))?;
        sheet.created(&String::from_utf8_lossy(&sent.raw))
    }
}
