//! `link`: what the operator says of a link, whoever made it.

use std::sync::Arc;

use deeplink_core::id::TenantId;
use deeplink_core::link::{LinkStatus, is_link_id};
use deeplink_core::text::find_control;
use futures_util::FutureExt;

use super::{Failure, open_beside, output};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::link_status::{self, Owner};
use crate::db::{Db, DbError};

/// Most characters of a reason.
const MAX_REASON: usize = 500;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Marks a link as unsafe: people are warned and not led on
    Flag(Target),
    /// Switches a link off
    Disable(Target),
    /// Takes back either
    Enable(Target),
}

#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// The link's id
    #[arg(value_name = "ID")]
    link_id: String,
    /// Whose link, where several accounts have the id
    #[arg(long, value_name = "TENANT_ID")]
    tenant: Option<TenantId>,
    /// Why; it is kept
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
}

fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > MAX_REASON || find_control(text, true).is_some() {
        return Err(format!("a reason is 1 to {MAX_REASON} characters, none of them a control character"));
    }
    Ok(text.to_owned())
}

pub(super) async fn run(command: Command, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let (target, status) = match command {
        Command::Flag(target) => (target, LinkStatus::Flagged),
        Command::Disable(target) => (target, LinkStatus::Disabled),
        Command::Enable(target) => (target, LinkStatus::Active),
    };
    let db = open_beside(config).await?;
    let outcome = set(&db, target, status, clock).await;
    db.close().await;
    output::say(&outcome?);
    Ok(())
}

async fn set(db: &Db, target: Target, status: LinkStatus, clock: &Clock) -> Result<String, Failure> {
    let id = target.link_id;
    let missing = || Failure::Refused(format!("not_found: there is no link {id:?}"));
    if !is_link_id(&id) {
        return Err(missing());
    }
    let tenant = match target.tenant {
        Some(tenant) => tenant,
        None => match link_status::owner(&mut db.read().await?.conn(), &id).await? {
            Owner::One(tenant) => tenant,
            Owner::Nobody => return Err(missing()),
            Owner::Several(tenants) => {
                let tenants: Vec<_> = tenants.iter().map(TenantId::as_str).collect();
                let list = tenants.join("\n  ");
                return Err(Failure::Refused(format!(
                    "several accounts have a link {id}; say whose with --tenant:\n  {list}"
                )));
            }
        },
    };
    let now = clock.now();
    let job = Arc::new((tenant, id.clone(), status, target.reason));
    let found = db
        .write::<_, DbError, _>({
            let job = Arc::clone(&job);
            move |mut tx| {
                let job = Arc::clone(&job);
                async move {
                    let (tenant, id, status, reason) = &*job;
                    link_status::set(&mut tx, tenant, id, status, reason, now).await
                }
                .boxed()
            }
        })
        .await?;
    if !found {
        return Err(missing());
    }
    Ok(format!("{id} of {} is {}\n", job.0, job.2))
}
