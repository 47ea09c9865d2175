//! `dl team`: the people of the account.

mod accept;
mod invite;
mod list;
mod remove;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Outcome;

/// Manage the people of the account
#[derive(Debug, Args)]
pub(crate) struct Team {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Invite(invite::Invite),
    Remove(remove::Remove),
    Accept(accept::Accept),
}

impl Team {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List(command) => command.run(ctx).await,
            Action::Invite(command) => command.run(ctx).await,
            Action::Remove(command) => command.run(ctx).await,
            Action::Accept(command) => command.run(ctx).await,
        }
    }
}
