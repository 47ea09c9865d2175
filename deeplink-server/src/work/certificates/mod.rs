//! Orders certificates for the names that need one, soon after a domain is verified and again before they expire.
//!
//! One node at a time does it, under a lease that it renews before each order and in the write that stores the result:
//! a node that was away until another took over stores nothing.
//!
//! A failed order delays only its own name: failures of one tenant's names must not keep certificates from another's.
//! The node itself waits when the authority or the account is unavailable, or when names of several tenants in a row
//! failed for a reason that may concern every name.

mod issue;
mod order_error;
mod schedule;
#[cfg(test)]
mod tests;
mod transport;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use deeplink_core::id::CertificateId;
use deeplink_core::secret::Random;
use futures_util::FutureExt;
use instant_acme::{Account, Error};
use tokio::time::timeout;

use self::issue::Issued;
use self::order_error::{OrderError, Scope};
use self::schedule::{renew_at, wait_after};
use self::transport::RetryAfter;
use crate::certificates::Certificates;
use crate::config::Tls;
use crate::db::certificates::{Due, NewCertificate};
use crate::db::{DbError, acme, certificates, leases};
use crate::shares::Share;
use crate::state::App;

/// Time between two scans for names that need a certificate.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// The duration of the lease; longer than an order with its account, and than the clocks of nodes differ.
const LEASE_MILLIS: i64 = 120_000;
/// Timeout for opening the account.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(25);
/// Timeout for a whole order.
const ORDER_TIMEOUT: Duration = Duration::from_secs(90);
/// Orders between two scans: authorities limit them, and names that became urgent meanwhile come first.
const MAX_ORDERS: i64 = 4;
/// How many of them one tenant may have: names that do not lead here take the longest.
const MAX_ORDERS_PER_TENANT: i64 = 2;
/// The longest pause after failures that concern every name, unless the authority asks for a longer one: after an
/// outage of hours, it is back for all.
const MAX_PAUSE_MILLIS: i64 = 3_600_000;
/// Tenants whose names fail in a row before the authority is in doubt.
const MAX_FAILING_TENANTS: usize = 3;
/// The longest pause when it is unclear whether a failure concerns every name: tenants could collude to cause it.
const MAX_SHARED_PAUSE_MILLIS: i64 = 300_000;
/// The longest wait that an authority can impose on a name: as long as the period of its limits, so that no mistake
/// delays a name for good.
const MAX_RETRY_AFTER_SECONDS: u64 = 7 * 86_400;
/// The same for every name.
const MAX_GLOBAL_RETRY_AFTER_SECONDS: u64 = 86_400;
/// Between two sweeps, in milliseconds.
const SWEEP_MILLIS: u64 = 3_600_000;

/// What the issuing node keeps from one scan to the next.
struct Issuer {
    tls: Tls,
    served: Arc<Certificates>,
    /// Identifies this process among those that may hold the lease.
    holder: String,
    account: Option<Account>,
    asked: RetryAfter,
    /// The number of pauses in a row, and the end of the last.
    pauses: i64,
    paused_until: u64,
    /// Tenants whose names have failed in a row for a reason that may concern every name.
    failing_tenants: BTreeSet<String>,
    sweep_at: u64,
}

/// Orders due certificates for as long as the service runs.
pub(super) async fn run(app: Weak<App>, tls: Tls, served: Arc<Certificates>) {
    let mut issuer = Issuer::new(tls, Arc::clone(&served));
    loop {
        let Some(app) = app.upgrade() else { return };
        let began = app.clock.now();
        tokio::select! {
            outcome = issuer.round(&app) => {
                if let Err(error) = outcome {
                    tracing::warn!(%error, "certificates could not be managed; will retry");
                }
            }
            // An unfinished order is made again; a write that has begun completes.
            () = served.stop.notified() => {}
        }
        if !app.stopping.load(Ordering::Relaxed) {
            tokio::select! {
                () = app.clock.pause(SCAN_INTERVAL, began) => {}
                () = served.stop.notified() => {}
            }
        }
        if app.stopping.load(Ordering::Relaxed) {
            issuer.release_lease(&app).await;
            return;
        }
    }
}

impl Issuer {
    fn new(tls: Tls, served: Arc<Certificates>) -> Self {
        Self {
            tls,
            served,
            holder: hex::encode(Random::system().bytes::<12>()),
            account: None,
            asked: RetryAfter::default(),
            pauses: 0,
            paused_until: 0,
            failing_tenants: BTreeSet::new(),
            sweep_at: 0,
        }
    }

    /// Scans for due names and orders some of them.
    async fn round(&mut self, app: &App) -> Result<(), DbError> {
        let now = app.clock.monotonic_millis();
        let sweeps = now >= self.sweep_at;
        if self.is_paused(app) && !sweeps {
            return Ok(());
        }
        let own = app.own_secured_name();
        let due = certificates::due(
            &mut app.db.read().await?.conn(),
            own,
            app.clock.now(),
            MAX_ORDERS,
            MAX_ORDERS_PER_TENANT,
        )
        .await?;
        if (due.is_empty() && !sweeps) || !self.acquire_lease(app).await? {
            return Ok(());
        }
        if sweeps {
            self.sweep_at = now + SWEEP_MILLIS;
            app.db.write(Share::Service, own.to_owned(), |tx, own| certificates::sweep(tx, own).boxed()).await?;
        }
        for due in due {
            if self.is_paused(app) || app.stopping.load(Ordering::Relaxed) || !self.acquire_lease(app).await? {
                break;
            }
            let outcome = self.order(app, &due.name).await;
            if let Err(error) = self.finish(app, due, outcome).await {
                // If the result cannot be stored, the name would be ordered again at once, and orders are limited.
                self.pause(app, MAX_PAUSE_MILLIS, 0);
                return Err(error);
            }
        }
        Ok(())
    }

    fn is_paused(&self, app: &App) -> bool {
        app.clock.monotonic_millis() < self.paused_until
    }

    /// Pauses all orders: longer each time, and at least for `asked`. Returns the milliseconds.
    fn pause(&mut self, app: &App, longest: i64, asked: i64) -> i64 {
        self.pauses += 1;
        self.failing_tenants.clear();
        let wait = wait_after(self.pauses).min(longest).max(asked);
        self.paused_until = app.clock.monotonic_millis() + u64::try_from(wait).unwrap_or(0);
        wait
    }

    /// The wait that the authority requested in its last answer, in milliseconds.
    fn asked_millis(&self, longest_seconds: u64) -> i64 {
        i64::try_from(self.asked.seconds().min(longest_seconds) * 1_000).unwrap_or(0)
    }

    /// Acquires or renews the lease.
    async fn acquire_lease(&self, app: &App) -> Result<bool, DbError> {
        let now = app.clock.now();
        let until = now.plus_millis(LEASE_MILLIS);
        app.db
            .write(Share::Service, self.holder.clone(), move |tx, holder| {
                leases::take(tx, leases::CERTIFICATES, holder, now, until).boxed()
            })
            .await
    }

    async fn order(&mut self, app: &App, name: &str) -> Result<Issued, OrderError> {
        self.asked.set(0);
        let account = match self.account.clone() {
            Some(account) => account,
            None => match timeout(ACCOUNT_TIMEOUT, issue::account(app, &self.tls, &self.asked)).await {
                Ok(account) => account?,
                Err(_) => return Err(OrderError::of_account(Error::Timeout(None))),
            },
        };
        self.account = Some(account.clone());
        match timeout(ORDER_TIMEOUT, issue::issue(app, &account, name)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(OrderError::TooLate),
        }
    }

    /// Stores what was issued, or the wait of the name or the node.
    async fn finish(&mut self, app: &App, due: Due, outcome: Result<Issued, OrderError>) -> Result<(), DbError> {
        let error = match outcome {
            Ok(issued) => {
                self.authority_works();
                return self.store(app, due.name, &issued).await;
            }
            Err(error) => error,
        };
        app.metrics.certificates_failed.fetch_add(1, Ordering::Relaxed);
        let problem = error.in_one_line();
        match error.scope() {
            Scope::Name => self.authority_works(),
            Scope::NameOrAll => {
                // The next order reads the directory first, so that an unavailable authority is held against one name
                // only.
                self.account = None;
                self.failing_tenants.insert(due.tenant);
                if self.failing_tenants.len() >= MAX_FAILING_TENANTS {
                    let wait = self.pause(app, MAX_SHARED_PAUSE_MILLIS, 0);
                    tracing::warn!(
                        problem,
                        retry_in_s = wait / 1_000,
                        "ACME orders failing for several tenants; pausing"
                    );
                }
            }
            Scope::AllNames => {
                // The ACME server's directory is read again.
                self.account = None;
                let wait = self.pause(app, MAX_PAUSE_MILLIS, self.asked_millis(MAX_GLOBAL_RETRY_AFTER_SECONDS));
                tracing::warn!(
                    name = due.name,
                    problem,
                    retry_in_s = wait / 1_000,
                    "ACME server or account unavailable; pausing"
                );
                if matches!(error, OrderError::Account(_)) {
                    issue::forget(app, &self.tls.directory).await?;
                }
                return Ok(());
            }
        }
        self.note_failure(app, &due.name, &problem).await
    }

    fn authority_works(&mut self) {
        self.pauses = 0;
        self.failing_tenants.clear();
    }

    /// Delays a name: longer each time, and at least as long as the authority asked.
    async fn note_failure(&self, app: &App, name: &str, problem: &str) -> Result<(), DbError> {
        let now = app.clock.now();
        let asked = self.asked_millis(MAX_RETRY_AFTER_SECONDS);
        let (failures, wait) = app
            .db
            .write(Share::Service, (name.to_owned(), problem.to_owned()), move |tx, (name, problem)| {
                async move {
                    let failures = certificates::failures(tx, name).await? + 1;
                    let wait = wait_after(failures).max(asked);
                    certificates::note_failure(tx, name, failures, now.plus_millis(wait), problem).await?;
                    acme::end_challenges(tx, name, now).await?;
                    Ok::<_, DbError>((failures, wait))
                }
                .boxed()
            })
            .await?;
        let retry_in_s = wait / 1_000;
        tracing::warn!(name, problem, failures, retry_in_s, "certificate order failed; will retry");
        Ok(())
    }

    async fn store(&self, app: &App, name: String, issued: &Issued) -> Result<(), DbError> {
        let now = app.clock.now();
        let id = app.random(|random| CertificateId::new(now, random));
        let new = NewCertificate {
            sealed_key: app.vault.seal("certificates", id.as_str(), issued.key.as_bytes()),
            id: id.as_str().to_owned(),
            chain: issued.chain.clone(),
            not_before: issued.not_before,
            not_after: issued.not_after,
            renew_at: renew_at(issued.not_before, issued.not_after),
            name: name.clone(),
        };
        let stored = app
            .db
            .write(Share::Service, (new, self.holder.clone()), move |tx, (new, holder)| {
                async move {
                    let until = now.plus_millis(LEASE_MILLIS);
                    let has_lease = leases::take(tx, leases::CERTIFICATES, holder, now, until).await?;
                    if has_lease {
                        certificates::replace(tx, new, now).await?;
                        acme::end_challenges(tx, &new.name, now).await?;
                    }
                    Ok::<_, DbError>(has_lease)
                }
                .boxed()
            })
            .await?;
        if stored {
            self.served.changed(&name).await;
            app.metrics.certificates_issued.fetch_add(1, Ordering::Relaxed);
            tracing::info!(name, until = %issued.not_after, "certificate issued");
        } else {
            tracing::warn!(name, "issued certificate dropped: another node took the lease");
        }
        Ok(())
    }

    /// Lets another node take over at once.
    async fn release_lease(&self, app: &App) {
        let give_back = app.db.write(Share::Service, self.holder.clone(), |tx, holder| {
            leases::give_back(tx, leases::CERTIFICATES, holder).boxed()
        });
        if let Err(error) = give_back.await {
            tracing::warn!(%error, "certificate lease could not be released; it will expire");
        }
    }
}
