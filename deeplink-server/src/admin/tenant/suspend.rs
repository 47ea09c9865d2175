//! `tenant suspend` and `tenant resume`: suspend an account, and restore it to the way it was.

use deeplink_core::id::TenantId;
use futures_util::FutureExt;
use serde::Serialize;

use super::super::link::reason;
use super::super::{Failure, open_existing, output};
use super::list::state;
use super::{Named, missing};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::db::suspensions::{self, Changed};
use crate::shares::Share;

pub(super) const ABOUT_SUSPEND: &str = "\
Suspends an account: its links are disabled, and nothing in it can be changed

Visitors to its links see a notice that the link is disabled. Requests that would change something get 403 account_suspended, and no \
events are sent to its webhooks. Reads keep working, and team members can sign in and out. Nothing is deleted: \
`tenant resume` restores everything, and sends the events that webhooks have missed.

Example:
  deeplink-server tenant suspend --tenant someone@example.com --reason \"phishing\"";

pub(super) const ABOUT_RESUME: &str = "\
Ends the suspension of an account, and restores everything to the way it was

Example:
  deeplink-server tenant resume --tenant someone@example.com --reason \"false alarm\"";

#[derive(Debug, clap::Args)]
pub(in crate::admin) struct Target {
    #[command(flatten)]
    named: Named,
    /// Reason for the change; `tenant show` shows the reason for a suspension, and the account sees it in its audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    tenant_id: &'a TenantId,
    state: &'static str,
    /// Whether its state changed.
    changed: bool,
}

pub(super) async fn run(target: Target, suspends: bool, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let json = target.json;
    let db = open_existing(config).await?;
    let set = set(&db, target, suspends, clock).await;
    db.close().await;
    let (tenant, changed) = set?;
    let state = state(suspends);
    if json {
        return output::print_json(&Json { tenant_id: &tenant, state, changed });
    }
    output::print(&format!("{tenant} is {state}{}\n", if changed { "" } else { " already" }));
    Ok(())
}

async fn set(db: &Db, target: Target, suspends: bool, clock: &Clock) -> Result<(TenantId, bool), Failure> {
    let now = clock.now();
    let tenant = target.named.tenant.find(&mut db.read().await?.conn()).await?;
    let set = db.write(Share::Service, (tenant.clone(), target.reason), move |tx, (tenant, reason)| {
        if suspends {
            suspensions::suspend(tx, tenant, reason.as_deref(), now).boxed()
        } else {
            suspensions::resume(tx, tenant, reason.as_deref(), now).boxed()
        }
    });
    match set.await? {
        Changed::Yes => Ok((tenant, true)),
        Changed::Already => Ok((tenant, false)),
        Changed::NoAccount => Err(missing(&tenant)),
    }
}
