//! `dl apps`: what opens the account's links.

mod add;
mod delete;
mod list;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Outcome;

/// Register the apps that open the account's links
#[derive(Debug, Args)]
pub(crate) struct Apps {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Add(add::Add),
    Delete(delete::Delete),
}

impl Apps {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List(command) => command.run(ctx).await,
            Action::Add(command) => command.run(ctx).await,
            Action::Delete(command) => command.run(ctx).await,
        }
    }
}
