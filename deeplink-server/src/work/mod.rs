//! What runs behind the replies. The tasks end with the service; what they had not done waits in the database for the
//! next start.

mod certificates;
mod credit;
mod deliver;
pub(crate) mod link_expiry;
pub(crate) mod mail;
pub(crate) mod recheck;
mod sweep;
mod tell;
mod threats;
mod uses;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::state::Shared;
use crate::stream::tail;

/// The tasks that run.
pub(crate) struct Work {
    mail: JoinHandle<()>,
    deliver: AbortOnDropHandle<()>,
    /// Only with TLS of our own.
    certificates: Option<JoinHandle<()>>,
    /// What it writes runs to its end by itself, so it may be cut anywhere.
    _sweep: AbortOnDropHandle<()>,
    /// Likewise.
    _recheck: AbortOnDropHandle<()>,
    /// Likewise.
    _uses: AbortOnDropHandle<()>,
    /// Likewise.
    _credit: AbortOnDropHandle<()>,
    /// Likewise.
    _tell: AbortOnDropHandle<()>,
    /// Likewise.
    _tail: AbortOnDropHandle<()>,
    /// Likewise; only with a threat list.
    _threats: Option<AbortOnDropHandle<()>>,
}

/// Starts every task.
pub(crate) fn start(app: &Shared) -> Work {
    let threats = app.config.threat_list.clone().map(|file| tokio::spawn(threats::run(Arc::downgrade(app), file)));
    Work {
        mail: tokio::spawn(mail::run(Arc::downgrade(app))),
        deliver: AbortOnDropHandle::new(tokio::spawn(deliver::run(Arc::downgrade(app)))),
        certificates: app.config.tls.clone().map(|tls| tokio::spawn(certificates::run(Arc::downgrade(app), tls))),
        _sweep: AbortOnDropHandle::new(tokio::spawn(sweep::run(Arc::downgrade(app)))),
        _recheck: AbortOnDropHandle::new(tokio::spawn(recheck::run(Arc::downgrade(app)))),
        _uses: AbortOnDropHandle::new(tokio::spawn(uses::run(Arc::downgrade(app)))),
        _credit: AbortOnDropHandle::new(tokio::spawn(credit::run(Arc::downgrade(app)))),
        _tell: AbortOnDropHandle::new(tokio::spawn(tell::run(Arc::downgrade(app)))),
        _tail: AbortOnDropHandle::new(tokio::spawn(tail::run(Arc::downgrade(app)))),
        _threats: threats.map(AbortOnDropHandle::new),
    }
}

impl Work {
    /// Lets what is on its way be settled and leases be given back, after the service was asked to stop and before the
    /// database closes: attempts to deliver for some seconds, or until somebody is in a hurry, and all else `within` a
    /// moment.
    pub(crate) async fn finish(mut self, app: &Shared, within: Duration, hurry: impl Future<Output = ()>) {
        let delivered = async {
            // They end by themselves in time; after that, what became of them is stored.
            drop(tokio::time::timeout(deliver::LAST_ATTEMPTS + within, &mut self.deliver).await);
        };
        tokio::select! {
            () = delivered => {}
            () = async { hurry.await; tokio::time::sleep(within).await } => {}
        }
        self.deliver.abort();
        app.mail_waits.notify_one();
        app.certificates.stop.notify_one();
        let both = async {
            // A task that panicked has ended as well.
            let _ = (&mut self.mail).await;
            if let Some(certificates) = &mut self.certificates {
                let _ = certificates.await;
            }
        };
        if tokio::time::timeout(within, both).await.is_err() {
            // Leases run out, and then the next node or the next start goes on.
            self.mail.abort();
            if let Some(certificates) = &self.certificates {
                certificates.abort();
            }
        }
    }
}
