//! `dl webhooks deliveries`.

use clap::Args;
use deeplink_core::page::DEFAULT_LIMIT;
use deeplink_core::webhook::DeliveryStatus;

use crate::cli::help;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::{given, output, paging};

/// List what was sent to a webhook, newest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Deliveries are kept for 30 days. The answer is that of the last try: its status, or why there was none. JSON has the \
     body that was sent and every attempt.",
    &[
    "dl webhooks deliveries wh_0123456789abcdef01234567 --status failed",
    "dl webhooks deliveries wh_0123456789abcdef01234567 --all -o jsonl",
]
))]
pub(crate) struct Deliveries {
    /// Id of the webhook
    id: String,
    /// How many at most; above 100 in pages of 100
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT.into(), value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Every delivery
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on where an earlier list ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Deliveries of this status: pending, delivered, failed, canceled or dropped
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
            let what =
                format!("there is no status {word:?}; there are pending, delivered, failed, canceled and dropped");
            return Err(Failure::invalid(what).code("invalid_status").field("status").into());
        }
        let mut rows = sheet.list();
        let webhooks = ctx.client().await?.webhooks();
        let most = if self.all { u64::MAX } else { self.limit };
        let next = paging::through("deliveries", (self.cursor, most), &mut rows, async |size, cursor| {
            let mut pages = webhooks.deliveries(&self.id).page_size(size);
            if let Some(status) = &status {
                pages = pages.status(status.clone());
            }
            if let Some(cursor) = cursor {
                pages = pages.cursor(cursor);
            }
            let page = pages.first_page().full().await.map_err(|error| ctx.stop_among(&error, "webhooks"))?;
            Ok((page.raw.to_vec(), page.value.next_cursor))
        })
        .await?;
        let count = rows.count();
        rows.finish(next.as_deref())?;
        match next {
            _ if count == 0 => ctx.console.say("no deliveries; dl webhooks test sends one"),
            Some(cursor) if ctx.out.terminal => {
                ctx.console.say(&format!("there are more: --all, or --cursor {cursor}"));
            }
            _ => {}
        }
        Ok(())
    }
}
