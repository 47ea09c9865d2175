//! Completes the removal of links' expiry after a first primary domain was verified. Work that a process leaves
//! unfinished is continued by the next scan of any node.

use deeplink_core::id::TenantId;
use futures_util::FutureExt;

use crate::db::DbError;
use crate::db::link_expiry::{self, BATCH};
use crate::shares::Turn;
use crate::state::App;

/// Removes the expiry of an account's remaining links, in short writes, so that others hardly wait.
pub(crate) async fn lift(app: &App, tenant: &TenantId) -> Result<(), DbError> {
    loop {
        let more = app
            .db
            .write(Turn::from(tenant).of_rows(BATCH.into()), tenant.clone(), |tx, tenant| {
                link_expiry::lift(tx, tenant).boxed()
            })
            .await?;
        app.forget_tenant(tenant);
        if !more {
            return Ok(());
        }
    }
}

/// Continues unfinished work.
pub(super) async fn resume(app: &App) -> Result<(), DbError> {
    let unfinished = link_expiry::unfinished(&mut app.db.read().await?.conn()).await?;
    for tenant in unfinished {
        lift(app, &tenant).await?;
    }
    Ok(())
}
