//! Lifts the expiry of links to the end, when a first primary domain was verified. What a process leaves undone the next
//! look of any node goes on with.

use std::sync::Arc;

use deeplink_core::id::TenantId;
use futures_util::FutureExt;

use crate::db::{DbError, link_expiry};
use crate::state::App;

/// Lifts what is left of an account's links, in writes so short that others hardly wait.
pub(crate) async fn lift(app: &App, tenant: &TenantId) -> Result<(), DbError> {
    let tenant = Arc::new(tenant.clone());
    loop {
        let more = app.db.write({
            let tenant = Arc::clone(&tenant);
            move |mut tx| {
                let tenant = Arc::clone(&tenant);
                async move { link_expiry::lift(&mut tx, &tenant).await }.boxed()
            }
        });
        let more = more.await?;
        app.forget_tenant(&tenant);
        if !more {
            return Ok(());
        }
    }
}

/// Goes on with what was left undone.
pub(super) async fn resume(app: &App) -> Result<(), DbError> {
    let unfinished = link_expiry::unfinished(&mut app.db.read().await?.conn()).await?;
    for tenant in unfinished {
        lift(app, &tenant).await?;
    }
    Ok(())
}
