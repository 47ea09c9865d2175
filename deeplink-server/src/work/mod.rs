//! What runs behind the replies. The tasks end with the service; what they had not done waits in the database for the
//! next start.

pub(crate) mod link_expiry;
pub(crate) mod mail;
pub(crate) mod recheck;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use crate::state::Shared;

/// The tasks that run.
pub(crate) struct Work {
    mail: JoinHandle<()>,
    /// What it writes runs to its end by itself, so it may be cut anywhere.
    _sweep: AbortOnDropHandle<()>,
    /// Likewise.
    _recheck: AbortOnDropHandle<()>,
}

/// Starts every task.
pub(crate) fn start(app: &Shared) -> Work {
    Work {
        mail: tokio::spawn(mail::run(Arc::downgrade(app))),
        _sweep: AbortOnDropHandle::new(tokio::spawn(sweep::run(Arc::downgrade(app)))),
        _recheck: AbortOnDropHandle::new(tokio::spawn(recheck::run(Arc::downgrade(app)))),
    }
}

impl Work {
    /// Lets a mail that is on its way be settled, after the service was asked to stop and before the database closes.
    pub(crate) async fn finish(mut self, app: &Shared, within: Duration) {
        app.mail_waits.notify_one();
        if tokio::time::timeout(within, &mut self.mail).await.is_err() {
            // Its lease runs out, and then the next node or the next start sends it again.
            self.mail.abort();
        }
    }
}
