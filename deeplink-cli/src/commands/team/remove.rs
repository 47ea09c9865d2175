//! `dl team remove`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{escape, given, ids};

/// Remove team members
#[derive(Debug, Args)]
#[command(after_help = help(
    "Their sessions and invitations are revoked immediately. Secret keys they created keep working; to delete a key, use dl \
     keys delete.",
    &[
    "dl team remove usr_0123456789abcdef01234567 --yes",
    "dl team remove usr_0123456789abcdef01234567 --dry-run",
]
))]
pub(crate) struct Remove {
    /// IDs of the team members, or - to read IDs from stdin
    #[arg(value_name = "ID|-", required = true)]
    ids: Vec<String>,
}

impl Remove {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let ids = ids::read(ctx, &self.ids, given::user_id).await?;
        let question = match ids.as_slice() {
            [id] if ctx.will_ask() => {
                let users = ctx.client().await?.team().list().await.map_err(|error| ctx.stop(&error))?;
                let found = users.into_iter().find(|user| user.id.as_str() == id);
                let user = found.ok_or_else(|| ids::unknown("no team member", id, "team list"))?;
                format!("Remove {} ({id}) from the team?", escape::one_line(&user.email))
            }
            [id] => format!("Remove {id} from the team?"),
            _ => format!("Remove {} members from the team?", ids.len()),
        };
        ids::delete(ctx, "team", &self.ids, &ids, Some(&question), |client, id| client.team().remove(id)).await
    }
}
