//! `tenant key`: creates a secret key for an account that has lost its keys.

use deeplink_core::audit::AuditAction;
use deeplink_core::id::{SecretKeyId, TenantId};
use deeplink_core::secret::{Random, SecretKey};
use futures_util::FutureExt;
use serde::Serialize;

use super::super::{Failure, open_existing, output};
use super::{Named, store_for};
use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::db::audit::NewEntry;
use crate::db::keys::{self, NewKey};

pub(super) const ABOUT: &str = "\
Creates a secret key for an account and prints it; it is not shown again

For people who have lost their keys. The new key works immediately, and the account's other keys keep working. Team members see \
the new key in their list of keys.

Example:
  deeplink-server tenant key --tenant someone@example.com";

#[derive(Debug, clap::Args)]
pub(in crate::admin) struct Key {
    #[command(flatten)]
    named: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json<'a> {
    tenant_id: &'a TenantId,
    key_id: &'a SecretKeyId,
    api_key: &'a str,
}

pub(super) async fn run(key: Key, config: &Config, clock: &Clock) -> Result<(), Failure> {
    let db = open_existing(config).await?;
    let made = make(&db, key.named, clock).await;
    db.close().await;
    let made = made?;
    let (tenant_id, key_id, api_key) = (&made.tenant, &made.id, made.key.expose());
    if key.json {
        output::print_json(&Json { tenant_id, key_id, api_key })?;
    } else {
        output::print(&format!("tenant_id  {tenant_id}\nkey_id     {key_id}\napi_key    {api_key}\n"));
    }
    output::print_error("Store the key now; it cannot be shown again.");
    Ok(())
}

/// Makes a key. The limit on the number of keys does not apply: a lost key must not block its replacement.
async fn make(db: &Db, named: Named, clock: &Clock) -> Result<NewKey, Failure> {
    let now = clock.now();
    let tenant = named.tenant.find(&mut db.read().await?.conn()).await?;
    let random = &mut Random::system();
    let (id, key) = (SecretKeyId::new(now, random), SecretKey::generate(random));
    let new = NewKey { id, tenant, affiliate: None, key, created_by: None, created_at: now };
    let entry = NewEntry::by_operator(new.tenant.clone(), AuditAction::SecretKeyCreated, now);
    let made = (new.clone(), entry.of(&new.id, Some(&new.key.shown_prefix())));
    store_for(db, new.tenant.clone(), made, now, |tx, (new, entry)| {
        async move {
            keys::insert(tx, new).await?;
            entry.store(tx).await
        }
        .boxed()
    })
    .await?;
    Ok(new)
}
