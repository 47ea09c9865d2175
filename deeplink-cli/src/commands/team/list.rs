//! `dl team list`.

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;
use crate::paging::{Fetched, Part};

/// List the team members, including pending invitations
#[derive(Debug, Args)]
#[command(after_help = help("", &["dl team list", "dl team list --fields id,email,status -o csv"]))]
pub(crate) struct List {
    #[command(flatten)]
    part: Part,
}

impl List {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::USERS)?;
        let team = ctx.client().await?.team();
        let fetch = async |size, cursor| Fetched::of(team.list(), size, cursor).await.map_err(|error| ctx.stop(&error));
        self.part.print(ctx, &sheet, "the team is empty; to invite someone: dl team invite ADDRESS", fetch).await
    }
}
