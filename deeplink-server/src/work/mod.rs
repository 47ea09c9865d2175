//! Background tasks. They end with the service; unfinished work waits in the database for the next start.

mod certificates;
mod countries;
mod credit;
mod deliver;
pub(crate) mod erasure;
pub(crate) mod link_expiry;
pub(crate) mod mail;
pub(crate) mod notices;
mod payments;
mod publish_clicks;
pub(crate) mod recheck;
mod reseal;
pub(crate) mod subscriptions;
mod sweep;
mod tail;
mod threats;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::certificates::Certificates;
use crate::country::CountrySource;
use crate::state::Shared;

/// The running tasks.
pub(crate) struct Work {
    mail: JoinHandle<()>,
    deliver: AbortOnDropHandle<()>,
    /// Only with TLS of our own.
    certificates: Option<(JoinHandle<()>, Arc<Certificates>)>,
    /// Its writes complete by themselves, so it can be aborted anywhere.
    _sweep: AbortOnDropHandle<()>,
    /// The same.
    _erasure: AbortOnDropHandle<()>,
    /// The same.
    _recheck: AbortOnDropHandle<()>,
    /// The same.
    _uses: AbortOnDropHandle<()>,
    /// The same.
    _credit: AbortOnDropHandle<()>,
    /// The same.
    _publish_clicks: AbortOnDropHandle<()>,
    /// The same.
    _tail: AbortOnDropHandle<()>,
    /// The same; only with more than one master key.
    _reseal: Option<AbortOnDropHandle<()>>,
    /// The same; only where requests can be paid for.
    _payments: Option<AbortOnDropHandle<()>>,
    /// The same; only with a threat list.
    _threats: Option<AbortOnDropHandle<()>>,
    /// The same; only with a country database.
    _countries: Option<AbortOnDropHandle<()>>,
    /// The same; only with Stripe.
    _subscriptions: Option<AbortOnDropHandle<()>>,
}

/// Starts every task.
pub(crate) fn start(app: &Shared, certificates: Option<&Arc<Certificates>>) -> Work {
    let threats = app.config.threat_list.clone().map(|file| tokio::spawn(threats::run(Arc::downgrade(app), file)));
    let countries = match &app.config.country {
        Some(CountrySource::File(file)) => Some(tokio::spawn(countries::run(Arc::downgrade(app), file.clone()))),
        _ => None,
    };
    let subscriptions = app.config.stripe.is_some().then(|| tokio::spawn(subscriptions::run(Arc::downgrade(app))));
    Work {
        mail: tokio::spawn(mail::run(Arc::downgrade(app))),
        deliver: AbortOnDropHandle::new(tokio::spawn(deliver::run(Arc::downgrade(app)))),
        certificates: app.config.tls.clone().zip(certificates).map(|(tls, served)| {
            (tokio::spawn(certificates::run(Arc::downgrade(app), tls, Arc::clone(served))), Arc::clone(served))
        }),
        _sweep: AbortOnDropHandle::new(tokio::spawn(sweep::run(Arc::downgrade(app)))),
        _erasure: AbortOnDropHandle::new(tokio::spawn(erasure::run(Arc::downgrade(app)))),
        _recheck: AbortOnDropHandle::new(tokio::spawn(recheck::run(Arc::downgrade(app)))),
        _uses: AbortOnDropHandle::new(tokio::spawn(uses::run(Arc::downgrade(app)))),
        _credit: AbortOnDropHandle::new(tokio::spawn(credit::run(Arc::downgrade(app)))),
        _publish_clicks: AbortOnDropHandle::new(tokio::spawn(publish_clicks::run(Arc::downgrade(app)))),
        _tail: AbortOnDropHandle::new(tokio::spawn(tail::run(Arc::downgrade(app)))),
        _reseal: app
            .vault
            .has_older_keys()
            .then(|| AbortOnDropHandle::new(tokio::spawn(reseal::run(Arc::downgrade(app))))),
        _payments: app
            .facilitator
            .is_some()
            .then(|| AbortOnDropHandle::new(tokio::spawn(payments::run(Arc::downgrade(app))))),
        _threats: threats.map(AbortOnDropHandle::new),
        _countries: countries.map(AbortOnDropHandle::new),
        _subscriptions: subscriptions.map(AbortOnDropHandle::new),
    }
}

impl Work {
    #[cfg(test)]
    pub(crate) fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref().map(|(_, served)| &**served)
    }

    /// Waits for work in progress to finish and for leases to be released, after the service was asked to stop and
    /// before the database closes: some seconds for delivery attempts, or until `hurry` completes, and `within` for
    /// everything else.
    pub(crate) async fn finish(mut self, app: &Shared, within: Duration, hurry: impl Future<Output = ()>) {
        let delivered = async {
            // Attempts end in time by themselves; the extra time is for storing their results.
            drop(tokio::time::timeout(deliver::SHUTDOWN_TIMEOUT + within, &mut self.deliver).await);
        };
        tokio::select! {
            () = delivered => {}
            () = async { hurry.await; tokio::time::sleep(within).await } => {}
        }
        self.deliver.abort();
        app.mail_waits.notify_one();
        if let Some((_, served)) = &self.certificates {
            served.stop.notify_one();
        }
        let both = async {
            // A task that panicked has ended as well.
            let _ = (&mut self.mail).await;
            if let Some((certificates, _)) = &mut self.certificates {
                let _ = certificates.await;
            }
        };
        if tokio::time::timeout(within, both).await.is_err() {
            // Leases expire, and then another node or the next start continues.
            self.mail.abort();
            if let Some((certificates, _)) = &self.certificates {
                certificates.abort();
            }
        }
    }
}
