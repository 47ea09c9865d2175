//! `dl pk`: publishable keys, which apps and pages carry.

mod create;
mod delete;
mod list;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Outcome;

/// Manage the publishable keys of apps and pages
#[derive(Debug, Args)]
pub(crate) struct Pk {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Create(create::Create),
    Delete(delete::Delete),
}

impl Pk {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List(command) => command.run(ctx).await,
            Action::Create(command) => command.run(ctx).await,
            Action::Delete(command) => command.run(ctx).await,
        }
    }
}
