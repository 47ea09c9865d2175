//! `dl webhooks delete`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, ids};

/// Delete webhooks
#[derive(Debug, Args)]
#[command(after_help = help(
    "Nothing more is sent to them, not even pending deliveries, and their delivery logs are deleted.",
    &[
    "dl webhooks delete wh_0123456789abcdef01234567 --yes",
    "dl webhooks list -o id | dl webhooks delete - --yes",
]
))]
pub(crate) struct Delete {
    /// IDs of the webhooks, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Delete {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let ids = ids::read(ctx, &self.ids, given::webhook_id).await?;
        let question = match ids.as_slice() {
            [id] => format!("Delete the webhook {id} and its delivery log? Nothing more will be sent to it."),
            _ => {
                format!("Delete {} webhooks and their delivery logs? Nothing more will be sent to them.", ids.len())
            }
        };
        let delete = |client: &deeplink_client::Client, id: &str| client.webhooks().delete(id);
        ids::delete(ctx, "webhooks", &self.ids, &ids, Some(&question), delete).await
    }
}
