//! `dl apps delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, ids};

/// Remove apps
#[derive(Debug, Args)]
#[command(after_help = help(
    "A removed app leaves the association files: phones soon open the account's links in the browser.",
    &[
    "dl apps delete app_0123456789abcdef01234567 --yes",
    "dl apps list -o id | dl apps delete - --yes",
]
))]
pub(crate) struct Delete {
    /// Ids of the apps, or - for ids on stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let ids = ids::read(ctx, &self.ids, given::app_id).await?;
        let question = match ids.as_slice() {
            [id] => format!("Remove the app {id}?"),
            _ => format!("Remove {} apps?", ids.len()),
        };
        ids::delete(ctx, "apps", &self.ids, &ids, Some(&question), |client, id| client.apps().delete(id)).await
    }
}
