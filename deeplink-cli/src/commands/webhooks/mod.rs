//! `dl webhooks`: URLs that events are posted to, and tools for writing endpoints.

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

use deeplink_client::{Error, Kind};

use crate::context::Context;
use crate::error::Stop;

commands! {
    /// Manage webhooks and test endpoints
    #[command(after_help = crate::help::help("", &[
        "dl webhooks create --url https://hooks.example.com/deeplink --all-events",
        "dl webhooks test wh_0123456789abcdef01234567",
        "dl webhooks deliveries wh_0123456789abcdef01234567 --status failed",
    ]))]
    Webhooks {
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
}

/// Why nothing is sent to a webhook, and what to do: `shows` is the command that lists the alternatives.
fn unsent(ctx: &Context, error: &Error, id: &str, shows: &str) -> Stop {
    let stop = ctx.stop(error);
    match (error.kind(), error.field()) {
        (Kind::NotFound, _) if shows == "list" => stop.hinting("dl webhooks list shows the account's webhooks"),
        (Kind::NotFound, _) => stop.hinting(&format!("dl webhooks {shows} {id} shows what was sent")),
        (Kind::BadRequest, Some("active")) => {
            stop.hinting(&format!("to enable it: dl webhooks update {id} --active true"))
        }
        _ => stop,
    }
}

impl Webhooks {
    /// Whether the command handles signals itself.
    pub(crate) fn handles_signals(&self) -> bool {
        matches!(self.action, Action::Listen(_))
    }
}

/// The whole seconds of a length of time; less than one is none.
fn whole_secs(length: std::time::Duration) -> i64 {
    i64::try_from(length.as_secs()).unwrap_or(i64::MAX)
}
