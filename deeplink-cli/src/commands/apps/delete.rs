//! `dl apps delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, ids};

/// Delete apps
#[derive(Debug, Args)]
#[command(after_help = help(
    "A deleted app is removed from the association files. A phone stops opening the account's links in the app when it \
     fetches the file again, which can take a few days.",
    &[
    "dl apps delete app_0123456789abcdef01234567 --yes",
    "dl apps list -o id | dl apps delete - --yes",
]
))]
pub(crate) struct Delete {
    /// IDs of the apps, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let ids = ids::read(ctx, &self.ids, given::app_id).await?;
        let question = match ids.as_slice() {
            [id] => format!("Delete the app {id}?"),
            _ => format!("Delete {} apps?", ids.len()),
        };
        ids::delete(ctx, "apps", &self.ids, &ids, Some(&question), |client, id| client.apps().delete(id)).await
    }
}
