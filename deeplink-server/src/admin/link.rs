//! `link`: the operator flags, disables or enables a link of any account.

use deeplink_core::id::TenantId;
use deeplink_core::link::{LinkStatus, canonical_path};
use deeplink_core::text::find_control;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;

use super::{Failure, open_existing, output};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::link_status::{self, Owner, StatusSet};
use crate::db::{Db, DbError, aliases};
use crate::shares::Share;

/// Maximum length of a reason in characters.
const MAX_REASON: usize = 500;
/// Maximum number of other links listed by ID.
const MAX_LISTED: usize = 20;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Marks a link as unsafe: visitors see a warning instead of being redirected. The account can delete the link, but cannot
    /// use its ID or its destinations again
    Flag(Takedown),
    /// Disables a link: visitors see that it is no longer available. The account can delete the link, but cannot use its ID or
    /// its destinations again
    Disable(Takedown),
    /// Reverts `flag` or `disable`. If the account has since deleted the link, its ID and its aliases become available again
    Enable(Target),
}

#[derive(Debug, clap::Args)]
pub(super) struct Target {
    /// ID of the link, or one of its aliases
    #[arg(value_name = "ID")]
    link_id: String,
    /// Account that owns the link, if several accounts have a link with this ID
    #[arg(long, value_name = "TENANT_ID")]
    tenant: Option<TenantId>,
    /// Reason for the change; the account sees it on the link's page and in its audit log
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct Takedown {
    #[command(flatten)]
    target: Target,
    /// Also take down the account's other links to the destinations of this link and of links taken down earlier
    #[arg(long)]
    same_destination: bool,
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > MAX_REASON || find_control(text, true).is_some() {
        return Err(format!("must be 1 to {MAX_REASON} characters without control characters"));
    }
    Ok(text.to_owned())
}

pub(super) async fn run(command: Command, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let (target, status, others) = match command {
        Command::Flag(Takedown { target, same_destination }) => (target, LinkStatus::Flagged, same_destination),
        Command::Disable(Takedown { target, same_destination }) => (target, LinkStatus::Disabled, same_destination),
        Command::Enable(target) => (target, LinkStatus::Active, false),
    };
    let db = open_existing(config).await?;
    let outcome = set(&db, target, status, others, clock).await;
    db.close().await;
    output::print(&outcome?);
    Ok(())
}

async fn set(db: &Db, target: Target, status: LinkStatus, others: bool, clock: &Clock) -> Result<String, Failure> {
    let asked = target.link_id;
    let missing = || Failure::Refused(format!("no link with ID {asked:?}"));
    // What people report is the address that they saw.
    let path = asked.strip_prefix('/').unwrap_or(&asked);
    let id = canonical_path(path).ok_or_else(missing)?.into_owned();
    let tenant = match target.tenant {
        Some(tenant) => tenant,
        None => match link_status::owner(&mut db.read().await?.conn(), &id).await? {
            Owner::One(tenant) => tenant,
            Owner::Nobody => return Err(missing()),
            Owner::Several(tenants) => {
                let tenants: Vec<_> = tenants.iter().map(TenantId::as_str).collect();
                let list = tenants.join("\n  ");
                return Err(Failure::Refused(format!(
                    "several accounts have a link with ID {id}; choose one with --tenant:\n  {list}"
                )));
            }
        },
    };
    let id = aliases::resolved(&mut db.read().await?.conn(), &tenant, &id).await?;
    let link = format!("link {id} in account {tenant}");
    let change = Change { tenant, status, reason: target.reason, now: clock.now() };
    match change.set(db, id.clone()).await? {
        StatusSet::Yes => {}
        StatusSet::OffByOwner => {
            return Ok(format!(
                "{link}: the operator's takedown has been reverted; the link is still disabled by its owner\n"
            ));
        }
        StatusSet::Freed => {
            return Ok(format!("the account has since deleted {link}; its ID and aliases are available again\n"));
        }
        StatusSet::NoLink => return Err(missing()),
    }
    let mut told = format!("{link} is {}\n", change.status);
    if change.status != LinkStatus::Active {
        told.push_str(&change.others(db, others).await?);
        let advice = format!(
            "the account can still link to other URLs, including those on the same site; to disable all of its links:\n  \
             deeplink-server tenant suspend --tenant {} --reason TEXT\n",
            change.tenant
        );
        told.push_str(&advice);
    }
    Ok(told)
}

/// A change of the status of an account's links.
struct Change {
    tenant: TenantId,
    status: LinkStatus,
    reason: String,
    now: Timestamp,
}

impl Change {
    async fn set(&self, db: &Db, id: String) -> Result<StatusSet, DbError> {
        let (now, made) = (self.now, (self.tenant.clone(), id, self.status.clone(), self.reason.clone()));
        let set = db.write(Share::Service, made, move |tx, (tenant, id, status, reason)| {
            link_status::set(tx, tenant, id, status, reason, now).boxed()
        });
        set.await
    }

    /// Takes the account's other links to refused destinations down too, or says that they still redirect.
    async fn others(&self, db: &Db, take_down: bool) -> Result<String, DbError> {
        let ids = link_status::active_to_refused(&mut db.read().await?.conn(), &self.tenant, self.now).await?;
        if ids.is_empty() {
            return Ok(String::new());
        }
        let count = ids.len();
        let (links, still) = if count == 1 { ("link", "still redirects") } else { ("links", "still redirect") };
        let more = count.saturating_sub(MAX_LISTED);
        let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let list = format!("{}{and_more}", ids[..count - more].join(", "));
        if !take_down {
            return Ok(format!(
                "{count} other {links} of this account to the same destination {still}: {list}\n\
                 to take down these links too, use --same-destination\n"
            ));
        }
        for id in ids {
            self.set(db, id).await?;
        }
        Ok(format!("{count} other {links} to the same destination also taken down: {list}\n"))
    }
}
