//! `dl billing status`.

use clap::Args;

use super::{NOT_ENFORCED, dated, draw};
use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::output::{self, Format};

/// Show the plan, its limits and current usage
#[derive(Debug, Args)]
#[command(after_help = help(
    "The effective plan is the one whose limits apply: the subscribed plan or, if higher, the plan granted by the \
     service operator. Months are calendar months in UTC.",
    &["dl billing status", "dl billing status -o json --fields effective_tier,links,max_links"]
))]
pub(crate) struct Status {}

impl Status {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::PLAN)?;
        let found = ctx.client().await?.billing().status().full().await.map_err(|error| ctx.stop(&error))?;
        let (raw, status) = (String::from_utf8_lossy(&found.raw), found.value);
        if ctx.out.format != Format::Table {
            return sheet.one(&raw);
        }
        if ctx.out.terminal && sheet.fields.is_none() {
            ctx.out.raw(draw::status(ctx.pen(), &status).as_bytes())?;
            return ctx.out.flush();
        }
        sheet.one(&dated(&raw, status.current_period_end))?;
        if !status.quotas_enforced {
            ctx.console.say(NOT_ENFORCED);
        }
        Ok(())
    }
}
