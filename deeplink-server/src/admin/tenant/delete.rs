//! `tenant delete`: deletes an account with everything in it, at once.

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use serde::Serialize;

use super::super::{Failure, open_existing, output};
use super::{Account, Named, missing};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::account::Scheduled;
use crate::db::tenants::{self, Usage};
use crate::db::{Db, account_list, erasure};
use crate::work::erasure::erase;

/// Interval of checks whether the account's requests have finished.
const POLL: Duration = Duration::from_millis(500);

pub(super) const ABOUT: &str = "\
Deletes an account and everything in it immediately

The command suspends the account, waits half a minute for requests in progress to finish, and then deletes everything in the \
account: its links stop working, and its clicks, reports, domains, keys, team members and webhooks are deleted. This cannot be \
undone. To stop an account without deleting it, use `tenant suspend`. On a terminal, the command asks for confirmation. If it is \
interrupted, the running server completes the deletion, or you can run the command again. Payments and responses to repeated \
requests are kept for the usual periods, but no longer linked to the account.

Example:
  deeplink-server tenant delete --tenant someone@example.com";

#[derive(Debug, clap::Args)]
pub(in crate::admin) struct Delete {
    #[command(flatten)]
    named: Named,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print JSON; needs --yes
    #[arg(long, requires = "yes")]
    json: bool,
}

/// What is deleted.
#[derive(Serialize)]
struct Contents {
    tenant_id: TenantId,
    email: Option<String>,
    links: i64,
    domains: i64,
    keys: i64,
    webhooks: i64,
    people: i64,
    /// How many rows of the database were deleted; unknown before.
    rows: Option<u64>,
}

pub(super) async fn run(delete: Delete, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let db = open_existing(config).await?;
    let deleted = delete_in(&db, &delete, clock).await;
    db.close().await;
    let Some(contents) = deleted? else { return Ok(()) };
    if delete.json {
        return output::print_json(&contents);
    }
    output::print(&format!("Deleted {} ({} rows)\n", contents.tenant_id, contents.rows.unwrap_or(0)));
    Ok(())
}

/// `None`: the answer was no.
async fn delete_in(db: &Db, delete: &Delete, clock: &Clock) -> Result<Option<Contents>, Failure> {
    // Also one whose deletion was begun.
    let tenant = match &delete.named.tenant {
        Account::Id(tenant) => tenant.clone(),
        named @ Account::Of(_) => named.clone().find(&mut db.read().await?.conn()).await?,
    };
    let mut contents = contents_of(db, &tenant, clock.now()).await?;
    if !delete.yes && !std::io::stdin().is_terminal() {
        output::print_error(described(&contents).trim_end());
        return Err(Failure::Refused("this deletes the account and everything in it; confirm with --yes".to_owned()));
    }
    if !delete.json {
        output::print(&described(&contents));
    }
    if !delete.yes && !is_confirmed(&tenant)? {
        output::print_error("Nothing was deleted.");
        return Ok(None);
    }
    let now = clock.now();
    let ordered = db.write(&tenant, tenant.clone(), move |tx, tenant| erasure::order(tx, tenant, now).boxed());
    match ordered.await? {
        Scheduled::Yes | Scheduled::Already => {}
        Scheduled::NoAccount => return Err(missing(&tenant)),
        Scheduled::Subscribed => {
            return Err(Failure::Refused(format!(
                "{tenant} has a subscription that will renew; cancel it in Stripe, or clear it with `tenant unsubscribe`"
            )));
        }
    }
    if !erasure::is_settled(&mut db.read().await?.conn(), &tenant, clock.now()).await? {
        output::print_error("Waiting half a minute for requests in progress to finish.");
        while !erasure::is_settled(&mut db.read().await?.conn(), &tenant, clock.now()).await? {
            tokio::time::sleep(POLL).await;
        }
    }
    contents.rows = erase(db, &tenant, None).await?;
    let now = clock.now();
    db.write(&tenant, tenant.clone(), move |tx, tenant| erasure::finish(tx, tenant, now).boxed()).await?;
    Ok(Some(contents))
}

async fn contents_of(db: &Db, tenant: &TenantId, now: Timestamp) -> Result<Contents, Failure> {
    let mut reader = db.read().await?;
    let found = account_list::find(&mut reader.conn(), tenant, now).await?.ok_or_else(|| missing(tenant))?;
    let Usage { links, domains, keys, webhooks, people, .. } = tenants::usage(&mut reader.conn(), tenant, now).await?;
    Ok(Contents { tenant_id: tenant.clone(), email: found.email, links, domains, keys, webhooks, people, rows: None })
}

/// What would be deleted, as lines of a name and a value.
fn described(contents: &Contents) -> String {
    let Contents { tenant_id, email, links, domains, keys, webhooks, people, .. } = contents;
    let email = email.as_deref().unwrap_or("none");
    format!(
        "tenant_id     {tenant_id}\nemail         {email}\nlinks         {links}\ndomains       {domains}\n\
         keys          {keys}\nwebhooks      {webhooks}\nteam members  {people}\n"
    )
}

/// Asks on the terminal for the account's ID.
fn is_confirmed(tenant: &TenantId) -> Result<bool, Failure> {
    let unreadable = |error: std::io::Error| Failure::Refused(format!("the answer could not be read: {error}"));
    let mut stderr = std::io::stderr();
    write!(stderr, "Everything in it will be deleted. To confirm, type the account's ID: ").map_err(unreadable)?;
    stderr.flush().map_err(unreadable)?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(unreadable)?;
    Ok(answer.trim() == tenant.as_str())
}
