//! `dl webhooks deliveries`.

use std::collections::HashSet;

use clap::Args;
use deeplink_core::page::{DEFAULT_LIMIT, MAX_LIMIT};
use deeplink_core::webhook::DeliveryStatus;

use crate::cli::help;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::given;
use crate::output::{self, Record, Rows};

/// List what was sent to a webhook, newest first
#[derive(Debug, Args)]
#[command(after_help = help(
    "Deliveries are kept for 30 days. JSON has the body that was sent and every attempt.",
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
            let what = format!("--status \"{word}\": one of pending, delivered, failed, canceled, dropped");
            return Err(Failure::invalid(what).field("status").into());
        }
        let mut rows = sheet.list();
        let next = self.page_through(ctx, status, &mut rows).await?;
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

    /// Writes as many as are wanted, a page at a time, and gives the cursor of what is left.
    async fn page_through(
        self,
        ctx: &Context,
        status: Option<DeliveryStatus>,
        rows: &mut Rows<'_>,
    ) -> Outcome<Option<String>> {
        let webhooks = ctx.client().await?.webhooks();
        let mut left = if self.all { u64::MAX } else { self.limit };
        let mut cursor = self.cursor;
        let mut seen: HashSet<String> = cursor.iter().cloned().collect();
        loop {
            let size = u32::try_from(left).unwrap_or(MAX_LIMIT).min(MAX_LIMIT);
            let mut pages = webhooks.deliveries(&self.id).page_size(size);
            if let Some(status) = &status {
                pages = pages.status(status.clone());
            }
            if let Some(cursor) = cursor.take() {
                pages = pages.cursor(cursor);
            }
            let page = pages.first_page().full().await.map_err(|error| ctx.stop_among(&error, "webhooks"))?;
            let body = String::from_utf8_lossy(&page.raw);
            for item in Record::read(&body).unwrap_or_default().items("deliveries") {
                rows.push(item.get())?;
                left = left.saturating_sub(1);
            }
            rows.page()?;
            match page.value.next_cursor {
                Some(next) if left > 0 => {
                    if !seen.insert(next.clone()) {
                        return Err(Failure::new(Exit::Failure, "the list repeats a page").into());
                    }
                    cursor = Some(next);
                }
                next => return Ok(next),
            }
        }
    }
}
