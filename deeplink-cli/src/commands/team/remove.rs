//! `dl team remove`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{escape, given, ids};

/// Remove people from the team
#[derive(Debug, Args)]
#[command(after_help = help(
    "Their sessions and invitations end at once. Secret keys that they made keep working: dl keys delete deletes them.",
    &[
    "dl team remove usr_0123456789abcdef01234567 --yes",
    "dl team remove usr_0123456789abcdef01234567 --dry-run",
]
))]
pub(crate) struct Remove {
    /// Ids of the people, or - for ids on stdin
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
                let user = found.ok_or_else(|| ids::unknown("no person", id, "team list"))?;
                format!("Remove {} ({id}) from the team?", escape::one_line(&user.email))
            }
            [id] => format!("Remove {id} from the team?"),
            _ => format!("Remove {} people from the team?", ids.len()),
        };
        ids::delete(ctx, "team", &self.ids, &ids, Some(&question), |client, id| client.team().remove(id)).await
    }
}
