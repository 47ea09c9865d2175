//! `dl webhooks`: addresses that events are posted to, and the tools of those who write receivers.

mod create;
mod delete;
mod deliveries;
mod diagnose;
mod kinds;
mod list;
mod listen;
mod replay;
mod request;
mod rotate;
mod sample;
mod secrets;
mod sign;
mod test;
mod trigger;
mod update;
mod verify;

use clap::{Args, Subcommand};
use deeplink_client::{Error, Kind};

use crate::context::Context;
use crate::error::{Outcome, Stop};

/// Manage the addresses that events are posted to, and try receivers out
#[derive(Debug, Args)]
pub(crate) struct Webhooks {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Create(create::Create),
    Update(update::Update),
    Delete(delete::Delete),
    RotateSecret(rotate::RotateSecret),
    Deliveries(deliveries::Deliveries),
    Replay(replay::Replay),
    Test(test::Test),
    Verify(verify::Verify),
    Sign(sign::Sign),
    Sample(sample::Sample),
    Trigger(Box<trigger::Trigger>),
    Listen(Box<listen::Listen>),
}

/// Why nothing is sent to a webhook, with what to do: `shows` is the command that shows what there is.
fn unsent(ctx: &Context, error: &Error, id: &str, shows: &str) -> Stop {
    let stop = ctx.stop(error);
    match (error.kind(), error.field()) {
        (Kind::NotFound, _) if shows == "list" => stop.hinting("dl webhooks list shows what this account has"),
        (Kind::NotFound, _) => stop.hinting(&format!("dl webhooks {shows} {id} shows what was sent")),
        (Kind::BadRequest, Some("active")) => {
            stop.hinting(&format!("dl webhooks update {id} --active true switches it on"))
        }
        _ => stop,
    }
}

impl Webhooks {
    /// Whether the command looks after signals itself.
    pub(crate) fn minds_signals(&self) -> bool {
        matches!(self.action, Action::Listen(_))
    }

    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List(command) => command.run(ctx).await,
            Action::Create(command) => command.run(ctx).await,
            Action::Update(command) => command.run(ctx).await,
            Action::Delete(command) => command.run(ctx).await,
            Action::RotateSecret(command) => command.run(ctx).await,
            Action::Deliveries(command) => command.run(ctx).await,
            Action::Replay(command) => command.run(ctx).await,
            Action::Test(command) => command.run(ctx).await,
            Action::Verify(command) => command.run(ctx).await,
            Action::Sign(command) => command.run(ctx).await,
            Action::Sample(command) => command.run(ctx),
            Action::Trigger(command) => command.run(ctx).await,
            Action::Listen(command) => command.run(ctx).await,
        }
    }
}
