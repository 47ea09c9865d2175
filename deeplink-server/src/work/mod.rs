//! What runs behind the replies. Each task ends by itself within seconds of the service's stop; what it had not done
//! waits in the database for the next start.

pub(crate) mod mail;
mod sweep;

use std::sync::Arc;

use crate::state::Shared;

/// Starts every task.
pub(crate) fn start(app: &Shared) {
    tokio::spawn(mail::run(Arc::downgrade(app)));
    tokio::spawn(sweep::run(Arc::downgrade(app)));
}
