//! `dl webhooks update`.

use std::time::Duration;

use clap::Args;
use deeplink_core::event::EventKind;
use deeplink_core::patch::Patch;
use deeplink_core::webhook::{UpdateWebhook, WebhookFilters};

use super::kinds;
use crate::clock::parse_duration;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::{given, output};

/// Change a webhook's URL or events, or enable or disable it
#[derive(Debug, Args)]
#[command(after_help = help(
    "Only the fields you specify change. With --active false, nothing is sent: pending deliveries are canceled, and \
     events that occur in the meantime are never sent. --active true also resumes a webhook that the service paused \
     after three days of failures.",
    &[
    "dl webhooks update wh_0123456789abcdef01234567 --active false",
    "dl webhooks update wh_0123456789abcdef01234567 --event click --event conversion",
    "dl webhooks update wh_0123456789abcdef01234567 --retry-for 3d",
]
))]
pub(crate) struct Update {
    /// ID of the webhook
    id: String,
    /// URL that events are posted to: https, on a public host
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Kinds of events to send instead of the current ones, separated by commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    event: Vec<String>,
    /// Send all kinds of events
    #[arg(long, conflicts_with = "event")]
    all_events: bool,
    /// Send only conversions attributed to this affiliate
    #[arg(long, value_name = "ID")]
    affiliate: Option<String>,
    /// Send all conversions, regardless of affiliate
    #[arg(long, conflicts_with = "affiliate")]
    no_filter: bool,
    /// How long to retry failed deliveries, from 0s to 3d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retry_for: Option<Duration>,
    /// Enable (true) or disable (false) the webhook
    #[arg(long, value_name = "BOOL")]
    active: Option<bool>,
}

impl Update {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::WEBHOOKS)?;
        given::webhook_id(&self.id)?;
        let mut update = UpdateWebhook::new();
        if let Some(url) = self.url {
            update = update.url(url);
        }
        if self.all_events {
            update = update.events(EventKind::ALL.iter().cloned());
        } else if !self.event.is_empty() {
            update = update.events(kinds::named(ctx, &self.event));
        }
        if let Some(affiliate) = self.affiliate {
            given::affiliate_id(&affiliate)?;
            update = update.filters(WebhookFilters::new().affiliate_id(affiliate));
        }
        if self.no_filter {
            update.filters = Patch::Clear;
        }
        if let Some(length) = self.retry_for {
            update = update.retry_for(super::whole_secs(length));
        }
        if let Some(active) = self.active {
            update = update.active(active);
        }
        if update == UpdateWebhook::new() {
            let hint = "--url, --event, --all-events, --affiliate, --no-filter, --retry-for, --active";
            return Err(Failure::usage("nothing to change").hint(hint).into());
        }
        update.validate().map_err(|invalid| given::invalid(invalid, &update))?;
        let call = ctx.client().await?.webhooks().update(&self.id, &update).full();
        let now = call.await.map_err(|error| ctx.stop_among(&error, "webhooks"))?;
        sheet.one(&String::from_utf8_lossy(&now.raw))?;
        if self.active == Some(false) {
            ctx.console.note(
                "the webhook is disabled: pending deliveries are canceled, and events that occur in the meantime will not be sent later",
            );
        }
        kinds::note_idle_filter(ctx, &now.value.events, &now.value.filters);
        Ok(())
    }
}
