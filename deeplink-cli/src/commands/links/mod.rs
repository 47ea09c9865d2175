//! `dl links`: one file for each thing that can be done with links.

mod bulk;
mod content;
mod create;
mod delete;
mod export;
mod get;
mod import;
mod list;
mod qr;
mod resolve;
mod stats;
mod timeseries;
mod update;

use clap::{Args, Subcommand};

pub(crate) use import::open;

use crate::context::Context;
use crate::error::Outcome;

/// Make, list, change, draw, count and import links
#[derive(Debug, Args)]
pub(crate) struct Links {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Box<create::Create>),
    List(list::List),
    Get(get::Get),
    Update(Box<update::Update>),
    Delete(delete::Delete),
    Bulk(bulk::Bulk),
    Resolve(resolve::Resolve),
    Qr(Box<qr::Qr>),
    Stats(stats::Stats),
    Timeseries(timeseries::Series),
    Import(Box<import::Import>),
    Export(export::Export),
}

impl Links {
    pub(crate) fn minds_signals(&self) -> bool {
        matches!(self.action, Action::Import(_) | Action::Bulk(_) | Action::Qr(_))
    }

    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::Create(command) => command.run(ctx).await,
            Action::List(command) => command.run(ctx).await,
            Action::Get(command) => command.run(ctx).await,
            Action::Update(command) => command.run(ctx).await,
            Action::Delete(command) => command.run(ctx).await,
            Action::Bulk(command) => command.run(ctx).await,
            Action::Resolve(command) => command.run(ctx).await,
            Action::Qr(command) => command.run(ctx).await,
            Action::Stats(command) => command.run(ctx).await,
            Action::Timeseries(command) => command.run(ctx).await,
            Action::Import(command) => command.run(ctx).await,
            Action::Export(command) => command.run(ctx).await,
        }
    }
}
