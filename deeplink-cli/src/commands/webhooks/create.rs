//! `dl webhooks create`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use deeplink_core::event::EventKind;
use deeplink_core::webhook::{CreateWebhook, WebhookFilters};

use super::kinds;
use crate::clock::parse_duration;
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::output::Format;
use crate::{given, output};

/// Create a webhook and print its secret; it is shown only once
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("kinds").required(true).args(["event", "all_events"])))]
#[command(after_help = help(
    "Events are signed with the secret so that the endpoint can verify their origin. The secret is not shown again.",
    &[
    "dl webhooks create --url https://hooks.example.com/deeplink --all-events",
    "dl webhooks create --url https://hooks.example.com/ --event conversion --out-file s.txt",
    "dl webhooks create --url https://hooks.example.com/ --all-events --retry-for 3d",
]
))]
pub(crate) struct Create {
    /// URL that events are posted to: https, on a public host
    #[arg(long, value_name = "URL")]
    url: String,
    /// Kinds of events to send, separated by commas: click, attribute, identify, conversion
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    event: Vec<String>,
    /// Send all kinds of events
    #[arg(long)]
    all_events: bool,
    /// Send only conversions attributed to this affiliate
    #[arg(long, value_name = "ID")]
    affiliate: Option<String>,
    /// How long to retry failed deliveries, up to 3d [default: 31s, for four retries]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    retry_for: Option<Duration>,
    #[command(flatten)]
    out: SecretOut,
}

impl Create {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::NEW_WEBHOOK)?;
        let kinds = if self.all_events { EventKind::ALL.to_vec() } else { kinds::named(ctx, &self.event) };
        let mut wanted = CreateWebhook::new(self.url, kinds);
        if let Some(affiliate) = self.affiliate {
            given::affiliate_id(&affiliate)?;
            wanted = wanted.filters(WebhookFilters::new().affiliate_id(affiliate));
        }
        if let Some(length) = self.retry_for {
            wanted = wanted.retry_for(super::whole_secs(length));
        }
        // Before a key is needed: invalid input fails first.
        wanted.validate().map_err(|invalid| given::invalid(invalid, &wanted))?;
        let client = ctx.client().await?;
        let sink = self.out.prepare(ctx, &sheet, Kind::signing_secret())?;
        let made = client.webhooks().create(&wanted).full().await.map_err(|error| ctx.stop(&error))?;
        sink.take(&sheet, &made.raw, made.value.secret.expose())?;
        kinds::note_idle_filter(ctx, &made.value.webhook.events, &made.value.webhook.filters);
        // The secret has the one line of a create.
        if ctx.out.format == Format::Table {
            let id = &made.value.webhook.id;
            ctx.console.say(&format!("created {id}; to send it a test event: dl webhooks test {id}"));
        }
        Ok(())
    }
}
