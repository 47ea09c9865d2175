//! The audit log: who changed what in the account.

use deeplink_core::audit::AuditLog;
use deeplink_core::routes;

use crate::connection::Connection;
use crate::page::{Listing, Pages};

/// The audit log; see [`crate::Client::audit`].
#[derive(Debug, Clone)]
pub struct Audit(pub(crate) Connection);

impl Audit {
    /// The entries of the last year, newest first: all of them when awaited, or as pages or one by one. Changes to links are
    /// not included.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// for entry in dl.audit().list().await? {
    ///     println!("{} {} by {:?}", entry.at, entry.action, entry.actor);
    /// }
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<AuditLog>> {
        Pages::listing(&self.0, &routes::LIST_AUDIT_LOG, None)
    }
}
