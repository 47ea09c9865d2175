//! `dl domains delete`.

use clap::Args;

use crate::cli::help;
use crate::context::Context;
use crate::error::Outcome;
use crate::output;

/// Give a domain up
#[derive(Debug, Args)]
#[command(after_help = help(
    "Every link on the domain stops working at once, and whoever proves to own the domain may claim it.",
    &[
    "dl domains delete go.example.com --yes",
    "dl domains delete go.example.com --dry-run",
]
))]
pub(crate) struct Delete {
    /// Name of the domain
    domain: String,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELETED)?;
        let name = self.domain.as_str();
        ctx.confirm_name(&format!("Every link on {name} stops working at once."), name).await?;
        ctx.client()?.domains().delete(name).await.map_err(|error| ctx.stop_among(&error, "domains"))?;
        sheet.created(&output::object(&[("id", name.into()), ("deleted", true.into())]))
    }
}
