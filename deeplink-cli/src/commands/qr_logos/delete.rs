//! `dl qr-logos delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Delete an uploaded logo
#[derive(Debug, Args)]
#[command(after_help = help(
    "New QR codes of links that use this logo will have no logo. Codes that were already downloaded do not change.",
    &["dl qr-logos delete acme --yes", "dl qr-logos delete acme --dry-run"]
))]
pub(crate) struct Delete {
    /// Name of the logo
    name: String,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELETED)?;
        given::logo_name(&self.name)?;
        ctx.confirm(&format!("The logo {} will be deleted.", self.name)).await?;
        let call = ctx.client().await?.qr_logos().delete(&self.name);
        call.await.map_err(|error| ctx.stop_among(&error, "qr-logos").naming(&format!("logo {}", self.name)))?;
        sheet.created(&output::object(&[("id", self.name.as_str().into()), ("deleted", true.into())]))
    }
}
