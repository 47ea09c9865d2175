//! `dl keys list`.

use clap::Args;
use deeplink_client::Auth;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::net::Reads;
use crate::output;

/// List the secret keys; the one in use is marked
#[derive(Debug, Args)]
#[command(after_help = help(
    "Only key prefixes are shown. To list credentials of affiliates, use dl affiliates creds list.",
    &["dl keys list", "dl keys list --fields id,key_prefix,last_used_at -o csv"]
))]
pub(crate) struct List {}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::SECRET_KEYS)?;
        let found = ctx.key().await?;
        let own = found.key.shown_prefix();
        let client = ctx.client_for(&ctx.base_url()?, Auth::SecretKey(found.key), Reads::Held)?;
        let keys = client.keys().list().first_page().full().await.map_err(|error| ctx.stop(&error))?;
        let mark = |key: &output::Record<'_>| {
            let in_use = key.cell("key_prefix").is_some_and(|prefix| prefix == own);
            format!(",\"in_use\":{in_use}")
        };
        sheet.whole_marked(&keys.raw, mark)
    }
}
