//! `dl affiliates delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Delete an affiliate and its credentials
#[derive(Debug, Args)]
#[command(after_help = help(
    "Its credentials stop working immediately. Its links keep working and keep the affiliate ID.",
    &[
    "dl affiliates delete aff_0123456789abcdef01234567 --yes",
    "dl affiliates delete aff_0123456789abcdef01234567 --dry-run",
]
))]
pub(crate) struct Delete {
    /// ID of the affiliate
    id: String,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELETED)?;
        given::affiliate_id(&self.id)?;
        self.confirm(ctx).await?;
        let call = ctx.client().await?.affiliates().delete(&self.id);
        call.await.map_err(|error| ctx.stop_among(&error, "affiliates"))?;
        sheet.created(&output::object(&[("id", self.id.as_str().into()), ("deleted", true.into())]))
    }

    /// A person who is prompted types the partner key, so it is worth a request.
    async fn confirm(&self, ctx: &Context) -> Outcome {
        let warning = "Its credentials will stop working immediately; its links will keep working.";
        if !ctx.will_ask() {
            return ctx.confirm_name(&format!("{} will be deleted. {warning}", self.id), &self.id).await;
        }
        let call = ctx.client().await?.affiliates().get(&self.id);
        let found = call.await.map_err(|error| ctx.stop_among(&error, "affiliates"))?;
        let name = crate::escape::one_line(&found.name).into_owned();
        ctx.confirm_name(&format!("\"{name}\" will be deleted. {warning}"), &found.partner_key).await
    }
}
