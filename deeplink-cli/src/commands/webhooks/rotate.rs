//! `dl webhooks rotate-secret`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::{given, output};

/// Replace a webhook's secret and print the new one; it is shown only once
#[derive(Debug, Args)]
#[command(after_help = help(
    "For 24 hours, webhook-signature also carries a signature with the old secret; X-Service-Signature switches \
     immediately. At most two secrets are active; an older one is revoked.",
    &[
    "dl webhooks rotate-secret wh_0123456789abcdef01234567 --yes",
    "dl webhooks rotate-secret wh_0123456789abcdef01234567 --yes --out-file new.txt",
]
))]
pub(crate) struct RotateSecret {
    /// ID of the webhook
    id: String,
    #[command(flatten)]
    out: SecretOut,
}

impl RotateSecret {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ROTATED_SECRET)?;
        given::webhook_id(&self.id)?;
        let question = format!(
            "Replace the secret of the webhook {}? The current one stays valid for 24 hours; one that was replaced \
             less than 24 hours ago is revoked immediately.",
            self.id
        );
        ctx.confirm(&question).await?;
        let client = ctx.client().await?;
        let sink = self.out.prepare(ctx, &sheet, Kind::signing_secret())?;
        let made = client.webhooks().rotate_secret(&self.id).full().await;
        let made = made.map_err(|error| ctx.stop_among(&error, "webhooks"))?;
        sink.take(&sheet, &made.raw, made.value.secret.expose())
    }
}
