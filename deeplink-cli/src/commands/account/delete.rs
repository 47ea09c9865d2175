//! `dl account delete`.

use clap::Args;
use deeplink_client::Auth;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::net::Reads;
use crate::output;

/// Schedule the account and everything in it for deletion in 7 days
#[derive(Debug, Args)]
#[command(after_help = help(
    "After 7 days, everything in the account is permanently deleted: links (which then stop working), clicks, \
     reports, domains, keys and team members. Until then, everything keeps working as usual, and \"dl account \
     cancel-deletion\" cancels the deletion. \"dl links import\" recreates links from a file written by \"dl links \
     export\".",
    &[
    "dl links export -o csv --out links.csv && dl account delete --yes",
    "dl account delete --dry-run",
]
))]
pub(crate) struct Delete {}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ACCOUNTS)?;
        // A dry run reads the account, to name it.
        let client = ctx.client_for(&ctx.base_url()?, Auth::SecretKey(ctx.key().await?.key), Reads::Sent)?;
        let account = client.account().get().await.map_err(|error| ctx.stop(&error))?;
        let name = account.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
        let warning = format!("the account {}{name} and everything in it will be deleted in 7 days", account.id);
        ctx.confirm_name(&warning, account.id.as_str()).await?;
        let deleted = client.account().delete(&account.id).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.one(&String::from_utf8_lossy(&deleted.raw))?;
        if let Some(at) = deleted.value.deletes_at {
            ctx.console.note(&format!("the account will be deleted at {at}; to keep it: dl account cancel-deletion"));
        }
        Ok(())
    }
}
