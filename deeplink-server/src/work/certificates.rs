//! Orders certificates for the names that need one, soon after a domain is verified and again before they expire.
//!
//! One node at a time does it, by a lease that it takes again before each order and in the write that stores what came
//! of it: a node that was away for so long that another has taken over stores nothing.

use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::CertificateId;
use deeplink_core::secret::Random;
use futures_util::FutureExt;
use instant_acme::Account;
use tokio::time::timeout;

use crate::certificates::issue::{self, Issued, Trouble};
use crate::certificates::schedule::{renew_at, wait_after};
use crate::config::Tls;
use crate::db::certificates::NewCertificate;
use crate::db::{DbError, acme, certificates, leases};
use crate::state::App;

/// Between two looks for names that need a certificate.
const LOOK: Duration = Duration::from_secs(5);
/// How long the lease runs; longer than an order, and than clocks of nodes differ.
const LEASE_MILLIS: i64 = 120_000;
/// What an order may take altogether.
const LONGEST_ORDER: Duration = Duration::from_secs(90);
/// Orders between two looks: authorities ration them, and names that were verified meanwhile come first.
const ORDERS: i64 = 4;
/// The longest pause after failures that are not about a name: an authority that was away for hours is back for all.
const LONGEST_PAUSE_MILLIS: i64 = 3_600_000;
/// Between two sweeps, in milliseconds.
const SWEEP_MILLIS: u64 = 3_600_000;

/// What the issuing node knows from one look to the next.
struct Issuer {
    tls: Tls,
    /// This process, among all that may hold the lease.
    holder: String,
    account: Option<Account>,
    /// Failures in a row that were not about a name, and until when nothing is tried because of them.
    failures: i64,
    paused_until: u64,
    sweep_at: u64,
}

/// Orders what is due, for as long as the service runs.
pub(super) async fn run(app: Weak<App>, tls: Tls) {
    let holder = hex::encode(Random::system().bytes::<12>());
    let mut issuer = Issuer { tls, holder, account: None, failures: 0, paused_until: 0, sweep_at: 0 };
    loop {
        let Some(app) = app.upgrade() else { return };
        tokio::select! {
            outcome = issuer.round(&app) => {
                if let Err(error) = outcome {
                    tracing::warn!(%error, "certificates cannot be looked after; it is tried again");
                }
            }
            // What an order had not finished is ordered again; what it had begun to store is stored.
            () = app.certificates.stop.notified() => {}
        }
        if !app.stopping.load(Ordering::Relaxed) {
            drop(timeout(LOOK, app.certificates.stop.notified()).await);
        }
        if app.stopping.load(Ordering::Relaxed) {
            issuer.leave(&app).await;
            return;
        }
    }
}

impl Issuer {
    /// Looks for what is due and orders some of it.
    async fn round(&mut self, app: &App) -> Result<(), DbError> {
        let now = app.clock.monotonic_millis();
        let sweeps = now >= self.sweep_at;
        if now < self.paused_until && !sweeps {
            return Ok(());
        }
        let own = app.own_secured_name();
        let due = certificates::due(&mut app.db.read().await?.conn(), own, app.clock.now(), ORDERS).await?;
        if (due.is_empty() && !sweeps) || !self.lead(app).await? {
            return Ok(());
        }
        if sweeps {
            self.sweep_at = now + SWEEP_MILLIS;
            let own = own.to_owned();
            app.db
                .write(move |mut tx| {
                    let own = own.clone();
                    async move { certificates::sweep(&mut tx, &own).await }.boxed()
                })
                .await?;
        }
        for name in due {
            if now < self.paused_until || app.stopping.load(Ordering::Relaxed) || !self.lead(app).await? {
                break;
            }
            let outcome = self.order(app, &name).await;
            self.settle(app, name, outcome).await?;
            if self.failures > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Takes the lease, or takes it for longer.
    async fn lead(&self, app: &App) -> Result<bool, DbError> {
        let now = app.clock.now();
        let holder = self.holder.clone();
        app.db
            .write(move |mut tx| {
                let holder = holder.clone();
                async move {
                    leases::take(&mut tx, leases::CERTIFICATES, &holder, now, now.plus_millis(LEASE_MILLIS)).await
                }
                .boxed()
            })
            .await
    }

    async fn order(&mut self, app: &App, name: &str) -> Result<Issued, Trouble> {
        let ordering = async {
            let account = match self.account.clone() {
                Some(account) => account,
                None => issue::account(app, &self.tls).await?,
            };
            self.account = Some(account.clone());
            issue::issue(app, &account, name).await
        };
        match timeout(LONGEST_ORDER, ordering).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Trouble::TooLate),
        }
    }

    /// Stores what was issued, or when the name is tried again.
    async fn settle(&mut self, app: &App, name: String, outcome: Result<Issued, Trouble>) -> Result<(), DbError> {
        let trouble = match outcome {
            Ok(issued) => {
                self.failures = 0;
                return self.store(app, name, &issued).await;
            }
            Err(trouble) => trouble,
        };
        app.metrics.certificates_failed.fetch_add(1, Ordering::Relaxed);
        let problem = trouble.in_words();
        if trouble.is_everybodys() {
            self.failures += 1;
            let wait = wait_after(self.failures).min(LONGEST_PAUSE_MILLIS);
            self.paused_until = app.clock.monotonic_millis() + u64::try_from(wait).unwrap_or(0);
            // The ACME server is asked anew where everything is.
            self.account = None;
            if matches!(trouble, Trouble::Account(_)) {
                issue::forget(app, &self.tls.directory).await?;
            }
            tracing::warn!(name, problem, again_in_s = wait / 1_000, "no certificate can be ordered");
            return Ok(());
        }
        self.failures = 0;
        let now = app.clock.now();
        let failures = app
            .db
            .write({
                let (name, problem) = (name.clone(), problem.clone());
                move |mut tx| {
                    let (name, problem) = (name.clone(), problem.clone());
                    async move {
                        let failures = certificates::failures(&mut tx, &name).await? + 1;
                        let again = now.plus_millis(wait_after(failures));
                        certificates::note_failure(&mut tx, &name, failures, again, &problem).await?;
                        acme::end_challenges(&mut tx, &name, now).await?;
                        Ok::<_, DbError>(failures)
                    }
                    .boxed()
                }
            })
            .await?;
        let again_in_s = wait_after(failures) / 1_000;
        tracing::warn!(name, problem, failures, again_in_s, "there is no certificate for a name yet");
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
        let holder = self.holder.clone();
        let stored = app
            .db
            .write(move |mut tx| {
                let (new, holder) = (new.clone(), holder.clone());
                async move {
                    let until = now.plus_millis(LEASE_MILLIS);
                    let leads = leases::take(&mut tx, leases::CERTIFICATES, &holder, now, until).await?;
                    if leads {
                        certificates::replace(&mut tx, &new, now).await?;
                        acme::end_challenges(&mut tx, &new.name, now).await?;
                    }
                    Ok::<_, DbError>(leads)
                }
                .boxed()
            })
            .await?;
        if stored {
            app.certificates.changed();
            app.metrics.certificates_issued.fetch_add(1, Ordering::Relaxed);
            tracing::info!(name, until = %issued.not_after, "a certificate was issued");
        } else {
            tracing::warn!(name, "a certificate came too late: another node looks after certificates now");
        }
        Ok(())
    }

    /// Lets another node go on at once.
    async fn leave(&self, app: &App) {
        let holder = self.holder.clone();
        let given: Result<(), DbError> = app
            .db
            .write(move |mut tx| {
                let holder = holder.clone();
                async move { leases::give_back(&mut tx, leases::CERTIFICATES, &holder).await }.boxed()
            })
            .await;
        if let Err(error) = given {
            tracing::warn!(%error, "another node waits until the lease on certificates has run out");
        }
    }
}
