//! `dl webhooks rotate-secret`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::{given, output};

/// Give a webhook a new secret and print it; it is shown only once
#[derive(Debug, Args)]
#[command(after_help = help(
    "For 24 hours webhook-signature is made with the present secret too; X-Service-Signature with the new one at once. \
     At most two secrets sign: one still signing from an earlier rotation stops at once.",
    &[
    "dl webhooks rotate-secret wh_0123456789abcdef01234567 --yes",
    "dl webhooks rotate-secret wh_0123456789abcdef01234567 --yes --out-file new.txt",
]
))]
pub(crate) struct RotateSecret {
    /// Id of the webhook
    id: String,
    #[command(flatten)]
    out: SecretOut,
}

impl RotateSecret {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ROTATED_SECRET)?;
        given::webhook_id(&self.id)?;
        let question = format!(
            "Give the webhook {} a new secret? The present one signs for 24 hours more; the one before it, if it was changed \
             less than 24 hours ago, stops at once.",
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
