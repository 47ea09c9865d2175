//! `dl domains`: host names of the account's own.

mod add;
mod delete;
mod list;
mod verify;

use clap::{Args, Subcommand};

use crate::context::Context;
use crate::error::Outcome;

/// Put links on domains of your own
#[derive(Debug, Args)]
pub(crate) struct Domains {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Add(add::Add),
    Verify(verify::Verify),
    Delete(delete::Delete),
}

/// A record as a person copies it: the value on a line of its own, which no usual terminal breaks.
fn record(kind: &str, name: &str, value: &str) -> String {
    format!("  {kind:<5}  {name}\n         {value}\n")
}

impl Domains {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List(command) => command.run(ctx).await,
            Action::Add(command) => command.run(ctx).await,
            Action::Verify(command) => command.run(ctx).await,
            Action::Delete(command) => command.run(ctx).await,
        }
    }
}
