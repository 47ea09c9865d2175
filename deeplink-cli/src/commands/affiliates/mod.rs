//! `dl affiliates`: partners, and their credentials.

mod create;
mod creds;
mod delete;
mod get;
mod list;
mod update;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Outcome;

/// Manage partners and the credentials that reach only their links
#[derive(Debug, Args)]
pub(crate) struct Affiliates {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Create(create::Create),
    Get(get::Get),
    Update(update::Update),
    Delete(delete::Delete),
    Creds(creds::Creds),
}

impl Affiliates {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List(command) => command.run(ctx).await,
            Action::Create(command) => command.run(ctx).await,
            Action::Get(command) => command.run(ctx).await,
            Action::Update(command) => command.run(ctx).await,
            Action::Delete(command) => command.run(ctx).await,
            Action::Creds(command) => command.run(ctx).await,
        }
    }
}
