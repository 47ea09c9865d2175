//! `link`: the operator flags, disables or enables a link of any account.

use deeplink_core::id::TenantId;
use deeplink_core::link::{LinkStatus, name_in_path};
use deeplink_core::text::find_control;
use deeplink_core::time::Timestamp;
use deeplink_core::url::link_url;
use futures_util::FutureExt;
use url::Url;

use super::{Failure, open_existing, output, public_url_of};
use crate::clock::Clock;
use crate::config::{Config, is_loopback};
use crate::db::link_status::{self, Owner, StatusSet};
use crate::db::{Conn, Db, DbError, aliases, domains, hosts, links};
use crate::http::host::is_loopback_name;
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
    /// URL of the link, such as https://go.example.com/spring, or its ID. An ID is looked up on the service's own domain first;
    /// links of other accounts can have the same ID or alias on their own domains, so use the URL if the link was reported there
    #[arg(value_name = "URL_OR_ID")]
    link: String,
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
    let outcome = set(&db, config, target, (status, others), clock).await;
    db.close().await;
    output::print(&outcome?);
    Ok(())
}

/// A link as the operator names it.
struct Named {
    /// Its ID or an alias.
    name: String,
    /// The host of its URL, if the whole URL is given.
    host: Option<String>,
}

impl Named {
    /// Reads a URL, a path, an ID or an alias. `None` if no link can have it.
    fn read(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let host = url.as_ref().and_then(Url::host_str).map(|host| host.trim_end_matches('.').to_owned());
        let name = name_in_path(url.as_ref().map_or(text, Url::path))?.into_owned();
        Some(Self { name, host })
    }

    /// The account of the link with this name. `None` if there is none.
    async fn tenant(&self, db: &mut Conn<'_>, service: &Url) -> Result<Option<TenantId>, Failure> {
        let Some(host) = &self.host else { return self.only_tenant(db).await };
        if service.host_str() == Some(host.as_str()) || (is_loopback(service) && is_loopback_name(host)) {
            return Ok(link_status::holder(db, &self.name).await?);
        }
        match hosts::find(db, host).await? {
            Some(found) => Ok(Some(found.tenant)),
            None => Err(Failure::Refused(format!("no account has verified the domain {host}"))),
        }
    }

    /// The account of the link whose host is not given.
    async fn only_tenant(&self, db: &mut Conn<'_>) -> Result<Option<TenantId>, Failure> {
        match link_status::owner(db, &self.name).await? {
            Owner::One(tenant) => Ok(Some(tenant)),
            Owner::Nobody => Ok(None),
            Owner::Several(tenants) => {
                let tenants: Vec<_> = tenants.iter().map(TenantId::as_str).collect();
                Err(Failure::Refused(format!(
                    "several accounts have a link with ID {}; use the link's URL, or choose one with --tenant:\n  {}",
                    self.name,
                    tenants.join("\n  ")
                )))
            }
        }
    }
}

/// Names a link in the output: its ID, its account and, unless its owner has deleted it, its URL.
async fn described(db: &mut Conn<'_>, service: &Url, tenant: &TenantId, id: &str) -> Result<String, DbError> {
    let url = match links::find(db, tenant, id).await? {
        Some(link) => {
            let primary = domains::primary_of(db, tenant).await?;
            format!(" ({})", link_url(service, id, link.domain(primary.as_deref())))
        }
        None => String::new(),
    };
    Ok(format!("link {id} in account {tenant}{url}"))
}

async fn set(
    db: &Db,
    config: &Config,
    target: Target,
    (status, others): (LinkStatus, bool),
    clock: &Clock,
) -> Result<String, Failure> {
    let asked = target.link;
    let missing = || Failure::Refused(format!("no link with ID {asked:?}"));
    let named = Named::read(&asked).ok_or_else(missing)?;
    let service = &public_url_of(db, config).await?;
    let (tenant, id, link) = {
        let mut reader = db.read().await?;
        let db = &mut reader.conn();
        let tenant = match target.tenant {
            Some(tenant) => {
                // The host may no longer be verified.
                let other = match named.tenant(db, service).await {
                    Ok(other) => other.filter(|_| named.host.is_some()),
                    Err(Failure::Refused(_)) => None,
                    Err(failure) => return Err(failure),
                };
                if let Some(other) = other.filter(|other| *other != tenant) {
                    return Err(Failure::Refused(format!("{asked} is a link of account {other}, not of {tenant}")));
                }
                tenant
            }
            None => named.tenant(db, service).await?.ok_or_else(missing)?,
        };
        let id = aliases::resolved(db, &tenant, &named.name).await?;
        let link = described(db, service, &tenant, &id).await?;
        (tenant, id, link)
    };
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
