//! Orders certificates for the names that need one, soon after a domain is verified and again before they expire.
//!
//! One node at a time does it, by a lease that it takes again before each order and in the write that stores what came
//! of it: a node that was away for so long that another has taken over stores nothing.
//!
//! An order that fails makes its name wait, and nobody else: what one tenant's names meet must not keep certificates from
//! another's. The node itself waits when the authority or the account cannot be had, or when names of several tenants in
//! a row met what may be everybody's.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use deeplink_core::id::CertificateId;
use deeplink_core::secret::Random;
use futures_util::FutureExt;
use instant_acme::{Account, Error};
use tokio::time::timeout;

use crate::certificates::Asked;
use crate::certificates::issue::{self, Issued};
use crate::certificates::schedule::{renew_at, wait_after};
use crate::certificates::trouble::{Concern, Trouble};
use crate::config::Tls;
use crate::db::certificates::{Due, NewCertificate};
use crate::db::{DbError, acme, certificates, leases};
use crate::state::App;

/// Between two looks for names that need a certificate.
const LOOK: Duration = Duration::from_secs(5);
/// How long the lease runs; longer than an order with its account, and than clocks of nodes differ.
const LEASE_MILLIS: i64 = 120_000;
/// What it may take to have the account.
const LONGEST_OPENING: Duration = Duration::from_secs(25);
/// What an order may take altogether.
const LONGEST_ORDER: Duration = Duration::from_secs(90);
/// Orders between two looks: authorities ration them, and what has become urgent meanwhile comes first.
const ORDERS: i64 = 4;
/// How many of them one tenant may have: names that lead nowhere take the longest.
const SHARE: i64 = 2;
/// The longest pause after failures that are everybody's, unless the authority asks for a longer one: when it was away for
/// hours, it is back for all.
const LONGEST_PAUSE_MILLIS: i64 = 3_600_000;
/// Tenants whose names fail in a row before the authority is in doubt.
const DOUBTS: usize = 3;
/// The longest pause because of doubt alone: tenants may agree to raise it.
const LONGEST_DOUBT_MILLIS: i64 = 300_000;
/// The longest wait that an authority is granted for a name: as long as its limits count, and no slip keeps a name away
/// for good.
const LONGEST_ASKED_SECONDS: u64 = 7 * 86_400;
/// The same, for everything.
const LONGEST_ASKED_OF_ALL_SECONDS: u64 = 86_400;
/// Between two sweeps, in milliseconds.
const SWEEP_MILLIS: u64 = 3_600_000;

/// What the issuing node knows from one look to the next.
struct Issuer {
    tls: Tls,
    /// This process, among all that may hold the lease.
    holder: String,
    account: Option<Account>,
    asked: Asked,
    /// Pauses in a row, and until when nothing is tried because of the last.
    pauses: i64,
    paused_until: u64,
    /// Whose names have failed in a row, for what may be everybody's.
    doubts: BTreeSet<String>,
    sweep_at: u64,
}

/// Orders what is due, for as long as the service runs.
pub(super) async fn run(app: Weak<App>, tls: Tls) {
    let mut issuer = Issuer::new(tls);
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
    fn new(tls: Tls) -> Self {
        Self {
            tls,
            holder: hex::encode(Random::system().bytes::<12>()),
            account: None,
            asked: Asked::default(),
            pauses: 0,
            paused_until: 0,
            doubts: BTreeSet::new(),
            sweep_at: 0,
        }
    }

    /// Looks for what is due and orders some of it.
    async fn round(&mut self, app: &App) -> Result<(), DbError> {
        let now = app.clock.monotonic_millis();
        let sweeps = now >= self.sweep_at;
        if self.is_paused(app) && !sweeps {
            return Ok(());
        }
        let own = app.own_secured_name();
        let due = certificates::due(&mut app.db.read().await?.conn(), own, app.clock.now(), ORDERS, SHARE).await?;
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
        for due in due {
            if self.is_paused(app) || app.stopping.load(Ordering::Relaxed) || !self.lead(app).await? {
                break;
            }
            let outcome = self.order(app, &due.name).await;
            if let Err(error) = self.settle(app, due, outcome).await {
                // What cannot be noted would be ordered again at once, and orders are rationed.
                self.pause(app, LONGEST_PAUSE_MILLIS, 0);
                return Err(error);
            }
        }
        Ok(())
    }

    fn is_paused(&self, app: &App) -> bool {
        app.clock.monotonic_millis() < self.paused_until
    }

    /// Tries nothing for a while: longer each time, and at least as long as it was asked. Gives the milliseconds.
    fn pause(&mut self, app: &App, longest: i64, asked: i64) -> i64 {
        self.pauses += 1;
        self.doubts.clear();
        let wait = wait_after(self.pauses).min(longest).max(asked);
        self.paused_until = app.clock.monotonic_millis() + u64::try_from(wait).unwrap_or(0);
        wait
    }

    /// What the authority asked to wait in its last answer, in milliseconds.
    fn asked_millis(&self, longest_seconds: u64) -> i64 {
        i64::try_from(self.asked.seconds().min(longest_seconds) * 1_000).unwrap_or(0)
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
        self.asked.note(0);
        let account = match self.account.clone() {
            Some(account) => account,
            None => match timeout(LONGEST_OPENING, issue::account(app, &self.tls, &self.asked)).await {
                Ok(account) => account?,
                Err(_) => return Err(Trouble::of_account(Error::Timeout(None))),
            },
        };
        self.account = Some(account.clone());
        match timeout(LONGEST_ORDER, issue::issue(app, &account, name)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Trouble::TooLate),
        }
    }

    /// Stores what was issued, or who waits for how long.
    async fn settle(&mut self, app: &App, due: Due, outcome: Result<Issued, Trouble>) -> Result<(), DbError> {
        let trouble = match outcome {
            Ok(issued) => {
                self.authority_works();
                return self.store(app, due.name, &issued).await;
            }
            Err(trouble) => trouble,
        };
        app.metrics.certificates_failed.fetch_add(1, Ordering::Relaxed);
        let problem = trouble.in_words();
        match trouble.concern() {
            Concern::Name => self.authority_works(),
            Concern::NameAtLeast => {
                // The next order asks for the directory first, so that an authority that is away blames one name only.
                self.account = None;
                self.doubts.insert(due.tenant);
                if self.doubts.len() >= DOUBTS {
                    let wait = self.pause(app, LONGEST_DOUBT_MILLIS, 0);
                    tracing::warn!(problem, again_in_s = wait / 1_000, "no certificate can be ordered, it seems");
                }
            }
            Concern::Everybody => {
                // The ACME server is asked anew where everything is.
                self.account = None;
                let wait = self.pause(app, LONGEST_PAUSE_MILLIS, self.asked_millis(LONGEST_ASKED_OF_ALL_SECONDS));
                tracing::warn!(name = due.name, problem, again_in_s = wait / 1_000, "no certificate can be ordered");
                if matches!(trouble, Trouble::Account(_)) {
                    issue::forget(app, &self.tls.directory).await?;
                }
                return Ok(());
            }
        }
        self.note_failure(app, &due.name, &problem).await
    }

    fn authority_works(&mut self) {
        self.pauses = 0;
        self.doubts.clear();
    }

    /// Lets a name wait: longer each time, and at least as long as the authority asked.
    async fn note_failure(&self, app: &App, name: &str, problem: &str) -> Result<(), DbError> {
        let now = app.clock.now();
        let asked = self.asked_millis(LONGEST_ASKED_SECONDS);
        let (failures, wait) = app
            .db
            .write({
                let (name, problem) = (name.to_owned(), problem.to_owned());
                move |mut tx| {
                    let (name, problem) = (name.clone(), problem.clone());
                    async move {
                        let failures = certificates::failures(&mut tx, &name).await? + 1;
                        let wait = wait_after(failures).max(asked);
                        certificates::note_failure(&mut tx, &name, failures, now.plus_millis(wait), &problem).await?;
                        acme::end_challenges(&mut tx, &name, now).await?;
                        Ok::<_, DbError>((failures, wait))
                    }
                    .boxed()
                }
            })
            .await?;
        let again_in_s = wait / 1_000;
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
            app.certificates.changed(app, &name).await;
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
