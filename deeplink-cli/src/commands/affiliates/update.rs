//! `dl affiliates update`.

use clap::{Args, ValueEnum};
use deeplink_core::affiliate::{AffiliateStatus, UpdateAffiliate};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::{given, output};

/// Rename an affiliate, or enable or disable its credentials
#[derive(Debug, Args)]
#[command(after_help = help(
    "While an affiliate is disabled, its credentials are rejected; its links keep working.",
    &[
    "dl affiliates update aff_0123456789abcdef01234567 --status disabled",
    "dl affiliates update aff_0123456789abcdef01234567 --name 'New name'",
]
))]
pub(crate) struct Update {
    /// ID of the affiliate
    id: String,
    /// Display name of the partner
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    name: Option<String>,
    /// Status of its credentials: active or disabled
    #[arg(long, value_name = "STATUS", hide_possible_values = true)]
    status: Option<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Status {
    Active,
    Disabled,
}

impl Update {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::AFFILIATES)?;
        given::affiliate_id(&self.id)?;
        let mut update = UpdateAffiliate::new();
        if let Some(name) = self.name {
            update = update.name(name);
        }
        match self.status {
            Some(Status::Active) => update = update.status(AffiliateStatus::Active),
            Some(Status::Disabled) => update = update.status(AffiliateStatus::Disabled),
            None => {}
        }
        if update == UpdateAffiliate::new() {
            return Err(Failure::usage("nothing to change").hint("--name, --status active, --status disabled").into());
        }
        update.check()?;
        let call = ctx.client().await?.affiliates().update(&self.id, &update).full();
        let now = call.await.map_err(|error| ctx.stop_among(&error, "affiliates"))?;
        sheet.one(&String::from_utf8_lossy(&now.raw))
    }
}
