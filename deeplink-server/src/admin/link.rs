//! `link`: the operator flags, disables or enables a link of any account.

use deeplink_core::id::TenantId;
use deeplink_core::link::{LinkStatus, is_link_id};
use deeplink_core::text::find_control;
use futures_util::FutureExt;

use super::{Failure, open_existing, output};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::db::link_status::{self, Owner, StatusSet};
use crate::shares::Share;

/// Maximum length of a reason in characters.
const MAX_REASON: usize = 500;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Marks a link as unsafe: visitors get a warning instead of a redirect. Its account can delete it, but use neither its ID
    /// nor its destinations again
    Flag(Target),
    /// Disables a link: visitors are told that it is no longer available. Its account can delete it, but use neither its ID nor
    /// its destinations again
    Disable(Target),
    /// Reverts `flag` or `disable`. The ID of a link that its account has since deleted is free again
    Enable(Target),
}

#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// ID of the link
    #[arg(value_name = "ID")]
    link_id: String,
    /// Account that owns the link, if several accounts have a link with this ID
    #[arg(long, value_name = "TENANT_ID")]
    tenant: Option<TenantId>,
    /// Reason for the change; it is recorded
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > MAX_REASON || find_control(text, true).is_some() {
        return Err(format!("must be 1 to {MAX_REASON} characters without control characters"));
    }
    Ok(text.to_owned())
}

pub(super) async fn run(command: Command, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let (target, status) = match command {
        Command::Flag(target) => (target, LinkStatus::Flagged),
        Command::Disable(target) => (target, LinkStatus::Disabled),
        Command::Enable(target) => (target, LinkStatus::Active),
    };
    let db = open_existing(config).await?;
    let outcome = set(&db, target, status, clock).await;
    db.close().await;
    output::print(&outcome?);
    Ok(())
}

async fn set(db: &Db, target: Target, status: LinkStatus, clock: &Clock) -> Result<String, Failure> {
    let id = target.link_id;
    let missing = || Failure::Refused(format!("not_found: no link with id {id:?}"));
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
                    "several accounts have a link with id {id}; choose one with --tenant:\n  {list}"
                )));
            }
        },
    };
    let now = clock.now();
    let link = format!("{id} of {tenant}");
    let shown = format!("{link} is {status}\n");
    let set = db.write(
        Share::Service,
        (tenant, id.clone(), status, target.reason),
        move |tx, (tenant, id, status, reason)| link_status::set(tx, tenant, id, status, reason, now).boxed(),
    );
    match set.await? {
        StatusSet::Yes => Ok(shown),
        StatusSet::Freed => Ok(format!("{link} has since been deleted by its account; its id is free again\n")),
        StatusSet::NoLink => Err(missing()),
    }
}
