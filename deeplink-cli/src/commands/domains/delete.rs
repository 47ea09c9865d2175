//! `dl domains delete`.

use clap::Args;
use deeplink_core::domain::{DomainName, DomainRole};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::output;

/// Delete a domain
#[derive(Debug, Args)]
#[command(after_help = help(
    "URLs on the domain stop working immediately. Its links keep working at the service's own URL, unless another account \
     uses their ID there. Anyone who proves ownership of the domain can add it.",
    &[
    "dl domains delete go.example.com --yes",
    "dl domains delete go.example.com --dry-run",
]
))]
pub(crate) struct Delete {
    /// Domain name
    domain: String,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELETED)?;
        let name = given::domain(&self.domain)?;
        let warning = self.warning(ctx, &name).await?;
        ctx.confirm_name(&warning, name.as_str()).await?;
        ctx.client().await?.domains().delete(&name).await.map_err(|error| ctx.stop_among(&error, "domains"))?;
        sheet.created(&output::object(&[("id", name.as_str().into()), ("deleted", true.into())]))
    }

    /// What would be lost. Only a prompt needs the exact answer and is worth a request.
    async fn warning(&self, ctx: &Context, name: &DomainName) -> Outcome<String> {
        if ctx.global.yes || ctx.global.dry_run || !ctx.can_ask() {
            return Ok(format!(
                "{name} will be deleted; if it is verified, all URLs on it will stop working immediately."
            ));
        }
        let domains = ctx.client().await?.domains().list().await.map_err(|error| ctx.stop(&error))?;
        let found = domains.into_iter().find(|domain| domain.domain == name.as_str());
        let found = found.ok_or_else(|| {
            let hint = "dl domains list shows the account's domains";
            Failure::new(Exit::NotFound, format!("this account has no domain {name}")).code("not_found").hint(hint)
        })?;
        Ok(match found.role {
            _ if !found.verified => format!("{name} is not verified: it serves no links."),
            DomainRole::Alternate => {
                format!("Taps on landing pages will no longer go through {name}, so iOS will not open apps from them.")
            }
            _ => format!("All URLs on {name} will stop working immediately."),
        })
    }
}
