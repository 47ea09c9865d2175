//! `tenant signin`: a one-time link that signs a person in to an account in a browser, without sending an email.

use deeplink_core::audit::AuditAction;
use deeplink_core::id::TenantId;
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use serde::Serialize;

use super::super::{Failure, open_existing, output, public_url_of};
use super::{Named, store_for};
use crate::api::one_time_links::url;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::db::audit::NewEntry;
use crate::db::one_time_links::{self, OneTimeLink};

pub(super) const ABOUT: &str = "\
Prints a one-time link that signs someone in to an account, without sending an email

The link works only once and expires after 24 hours. Its page asks for an email address:

  - The address of a team member signs in that person.
  - A new address joins the account as a member, or as its owner if the account has no team members.
  - On a public service where people confirm their addresses by email or with an identity provider, only confirmed \
addresses of the account's team members are accepted.
  - If the account has no confirmed address, such a service accepts only the address that the account was created with. \
Because anyone may have created the account, using the link revokes its keys and removes its webhooks and sources.
  - The account that the server created when it first started accepts any address, which becomes the owner's \
address.

The link begins with the public URL that the server last ran with, unless this command's settings specify another one.

Example:
  deeplink-server tenant signin --tenant someone@example.com";

#[derive(Debug, clap::Args)]
pub(in crate::admin) struct Signin {
    #[command(flatten)]
    named: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    tenant_id: &'a TenantId,
    url: &'a str,
    expires_at: Timestamp,
}

pub(super) async fn run(signin: Signin, config: &Config, clock: &Clock) -> Result<(), Failure> {
    if !config.sessions {
        return Err(Failure::Refused("sign-in is disabled by DEEPLINK_SESSIONS".into()));
    }
    let db = open_existing(config).await?;
    let made = make(&db, signin.named, clock).await;
    let base = public_url_of(&db, config).await;
    db.close().await;
    let OneTimeLink { token, tenant, expires_at } = made?;
    let url = url(&base?, &token);
    if signin.json {
        output::print_json(&Json { tenant_id: &tenant, url: &url, expires_at })?;
    } else {
        output::print(&format!("tenant_id   {tenant}\nurl         {url}\nexpires_at  {expires_at}\n"));
    }
    output::print_error("The link works once. Anyone who opens it can sign in to the account.");
    Ok(())
}

async fn make(db: &Db, named: Named, clock: &Clock) -> Result<OneTimeLink, Failure> {
    let now = clock.now();
    let tenant = named.tenant.find(&mut db.read().await?.conn()).await?;
    let link = OneTimeLink::draw(tenant, now, &mut Random::system());
    let entry = NewEntry::by_operator(link.tenant.clone(), AuditAction::SignInLinkCreated, now);
    store_for(db, link.tenant.clone(), (link.clone(), entry), now, |tx, (link, entry)| {
        async move {
            one_time_links::insert(tx, link).await?;
            entry.store(tx).await
        }
        .boxed()
    })
    .await?;
    Ok(link)
}
