//! `dl ping`: whether the service answers.

use std::time::Instant;

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output;

/// Check whether the service is reachable
#[derive(Debug, Args)]
#[command(after_help = help(
    "No key is needed or sent.",
    &["dl ping", "dl ping --ready --timeout 5s"]
))]
pub(crate) struct Ping {
    /// Also check the database
    #[arg(long)]
    ready: bool,
}

impl Ping {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::HEALTH)?;
        ctx.pings.set(true);
        let client = ctx.public_client()?;
        let start = Instant::now();
        let call = if self.ready { client.public().ready() } else { client.public().health() };
        let reply = call.full().await.map_err(|error| ctx.stop(&error))?;
        let took = start.elapsed().as_millis();
        sheet.created(&String::from_utf8_lossy(&reply.raw))?;
        ctx.console.say(&format!("{} responded in {took} ms", ctx.base_url()?));
        Ok(())
    }
}
