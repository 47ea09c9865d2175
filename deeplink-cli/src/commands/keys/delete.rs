//! `dl keys delete`.

use clap::Args;

use super::among_keys;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::output;

/// Delete a secret key
#[derive(Debug, Args)]
#[command(after_help = help(
    "Requests with the key are rejected immediately. A key cannot delete itself, and the last key cannot be deleted.",
    &[
    "dl keys delete skid_0123456789abcdef01234567 --yes",
    "dl keys delete skid_0123456789abcdef01234567 --dry-run",
]
))]
pub(crate) struct Delete {
    /// ID of the key
    id: String,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::DELETED)?;
        given::key_id(&self.id)?;
        let warning = self.warning(ctx).await?;
        ctx.confirm_name(&warning, &self.id).await?;
        ctx.client().await?.keys().delete(&self.id).await.map_err(|error| among_keys(ctx, &error))?;
        sheet.created(&output::object(&[("id", self.id.as_str().into()), ("deleted", true.into())]))
    }

    /// Which key it is. Only a prompt needs to know and is worth a request.
    async fn warning(&self, ctx: &Context) -> Outcome<String> {
        if !ctx.will_ask() {
            return Ok(format!("requests with the key {} will be rejected immediately.", self.id));
        }
        let keys = ctx.client().await?.keys().list().await.map_err(|error| ctx.stop(&error))?;
        let found = keys.into_iter().find(|key| key.id.as_str() == self.id).ok_or_else(|| {
            let hint = "dl keys list shows the account's keys";
            let what = format!("this account has no key {}", self.id);
            Failure::new(Exit::NotFound, what).code("not_found").hint(hint)
        })?;
        let used = match found.last_used_at {
            Some(moment) => format!("last used {}", crate::clock::relative(moment, crate::clock::now())),
            None => "never used".to_owned(),
        };
        Ok(format!("Requests with the key {} ({used}) will be rejected immediately.", found.key_prefix))
    }
}
