//! Re-checks verified domains in DNS every day, and deletes claims that are not proved within a week.
//!
//! A re-check is claimed in the database before DNS is asked, so several nodes share the work and none does it twice.
//! Only a definite answer of DNS counts against a domain; a name server that fails or hangs changes nothing.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::audit::AuditAction;
use deeplink_core::id::AuditEntryId;
use deeplink_core::time::Timestamp;
use futures_util::{FutureExt, StreamExt, stream};

use super::link_expiry;
use super::mail::{self, Mail};
use crate::db::audit::{By, NewEntry};
use crate::db::domain_proofs::{self, Due};
use crate::db::{Conn, DbError, domains};
use crate::shares::Share;
use crate::state::{App, Shared};

/// Days until an unproved claim is deleted.
pub(crate) const CLAIM_DAYS: i64 = 7;

/// Interval between scans for what is due.
const SCAN_INTERVAL: Duration = Duration::from_secs(15);
/// How long a claimed re-check is reserved for a node: longer than one round takes.
const LEASE_MILLIS: i64 = 60_000;
/// Maximum concurrent DNS lookups.
const MAX_CONCURRENT: usize = 8;
/// Delay after a lookup without a definite answer.
const RETRY_MILLIS: i64 = 3_600_000;
const DAY_MILLIS: i64 = 24 * 3_600_000;
/// Random spread of the daily checks, so that they do not come all at once.
const SPREAD_MILLIS: u64 = 3_600_000;

pub(super) async fn run(app: Weak<App>) {
    let mut has_local = true;
    loop {
        let Some(app) = app.upgrade() else { return };
        if app.stopping.load(Ordering::Relaxed) {
            return;
        }
        let now = app.clock.now();
        if let Err(error) = scan(&app, &mut has_local).await {
            tracing::warn!(%error, "domain re-checks failed; will retry");
        }
        let clock = app.clock.clone();
        drop(app);
        clock.pause(SCAN_INTERVAL, now).await;
    }
}

async fn scan(app: &Shared, has_local: &mut bool) -> Result<(), DbError> {
    while *has_local && !app.is_loopback {
        *has_local = end_local(app).await?;
    }
    link_expiry::resume(app).await?;
    end_claims(app).await?;
    while round(app).await? {}
    Ok(())
}

/// Makes names under `.localhost` unverified again: the public URL was a loopback address before, and no longer is. `true` if
/// there may be more.
async fn end_local(app: &Shared) -> Result<bool, DbError> {
    let now = app.clock.now();
    let ended = app.write(
        Share::Service,
        (),
        move |tx, ()| domain_proofs::end_local(tx, now).boxed(),
        |app, (), ended: &Vec<Due>| {
            for Due { name, tenant, .. } in ended {
                app.forget_host(name, tenant);
                tracing::warn!(domain = %name, %tenant, "domain is unverified again: it is under .localhost, and the public URL is not a loopback address");
            }
        },
    );
    Ok(!ended.await?.is_empty())
}

/// Deletes the claims that were not proved in time.
async fn end_claims(app: &App) -> Result<(), DbError> {
    let since = app.clock.now().plus_days(-CLAIM_DAYS);
    loop {
        let tenants = domains::with_lapsed_claims(&mut app.db.read().await?.conn(), since).await?;
        if tenants.is_empty() {
            return Ok(());
        }
        for tenant in tenants {
            app.db.write(Share::Service, tenant, move |tx, tenant| domains::lapse(tx, tenant, since).boxed()).await?;
        }
    }
}

/// Makes some re-checks that are due; `true` when there may be more.
async fn round(app: &Shared) -> Result<bool, DbError> {
    let now = app.clock.now();
    if !domain_proofs::any_due(&mut app.db.read().await?.conn(), now).await? {
        return Ok(false);
    }
    let until = now.plus_millis(LEASE_MILLIS);
    let claimed =
        app.db.write(Share::Service, (), move |tx, ()| domain_proofs::claim_due(tx, now, until).boxed()).await?;
    let checks = claimed.into_iter().map(|due| check(app, due, until));
    let proofs: Vec<_> = stream::iter(checks).buffer_unordered(MAX_CONCURRENT).collect().await;
    let proofs = proofs.into_iter().collect::<Result<Vec<_>, _>>()?;
    // While no name server answers, one round for each scan is enough.
    Ok(proofs.iter().any(|proof| *proof != DnsProof::Unknown))
}

/// What DNS says about a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DnsProof {
    Found,
    Missing,
    /// The name server failed.
    Unknown,
}

async fn check(app: &Shared, due: Due, until: Timestamp) -> Result<DnsProof, DbError> {
    let proof = if app.needs_no_proof(&due.name) { DnsProof::Found } else { look_up(app, &due).await };
    settle(app, due, until, proof).await?;
    Ok(proof)
}

async fn look_up(app: &App, due: &Due) -> DnsProof {
    match app.dns.txt(&due.name.txt_record()).await {
        Ok(found) if found.values.contains(&due.token) => DnsProof::Found,
        Ok(_) => DnsProof::Missing,
        Err(error) => {
            tracing::info!(domain = %due.name, %error, "DNS lookup failed; domain left unchanged");
            DnsProof::Unknown
        }
    }
}

/// Stores the result. Runs to completion, because caches must forget a domain that was lost.
async fn settle(app: &Shared, due: Due, until: Timestamp, proof: DnsProof) -> Result<(), DbError> {
    let (now, check_at) = (app.clock.now(), next_check(app));
    let settled = app.write(
        Share::Service,
        (Shared::clone(app), due),
        move |tx, (app, due)| {
            async move {
                match proof {
                    DnsProof::Found => domain_proofs::seen(tx, &due.id, &due.token, check_at).await?,
                    DnsProof::Unknown => domain_proofs::put_off(tx, due, now.plus_millis(RETRY_MILLIS)).await?,
                    DnsProof::Missing => {
                        if domain_proofs::missed(tx, due, until, now, check_at).await? {
                            let id = app.random(|random| AuditEntryId::new(now, random));
                            let action = AuditAction::DomainUnverified;
                            let entry = NewEntry::new(id, due.tenant.clone(), By::Service, action);
                            entry.of(&due.name, None).store(tx).await?;
                            notify_owners(app, tx, due, now).await?;
                            return Ok(true);
                        }
                    }
                }
                Ok::<_, DbError>(false)
            }
            .boxed()
        },
        |app, (_, due), lost| {
            if *lost {
                app.forget_host(&due.name, &due.tenant);
                app.mail_waits.notify_one();
                let (domain, tenant) = (&due.name, &due.tenant);
                tracing::warn!(%domain, %tenant, "domain is unverified again: its TXT record was missing for three days");
            }
        },
    );
    settled.await.map(drop)
}

/// When a verified domain is checked next: after a day, or up to an hour earlier.
pub(crate) fn next_check(app: &App) -> Timestamp {
    let earlier = i64::try_from(app.random(|random| random.below(SPREAD_MILLIS))).unwrap_or(0);
    app.clock.now().plus_millis(DAY_MILLIS - earlier)
}

async fn notify_owners(app: &App, tx: &mut Conn<'_>, due: &Due, now: Timestamp) -> Result<(), DbError> {
    let until = now.plus_days(CLAIM_DAYS);
    let lost = |owner| Mail::domain_lost(owner, &due.name, &due.token, until);
    if !mail::to_owners(app, tx, &due.tenant, true, lost).await? {
        tracing::warn!(domain = %due.name, "domain is unverified again, but email is not configured; its owner was not notified");
    }
    Ok(())
}
