//! `dl affiliates get`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Show an affiliate
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl affiliates get aff_0123456789abcdef01234567",
    "dl affiliates get aff_0123456789abcdef01234567 -o json",
]))]
pub(crate) struct Get {
    /// ID of the affiliate
    id: String,
}

impl Get {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::AFFILIATES)?;
        given::affiliate_id(&self.id)?;
        let call = ctx.client().await?.affiliates().get(&self.id).full();
        let found = call.await.map_err(|error| ctx.stop_among(&error, "affiliates"))?;
        sheet.one(&String::from_utf8_lossy(&found.raw))
    }
}
