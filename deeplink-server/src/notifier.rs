//! Notifies the sender of deliveries and readers of the event stream, on this node, of what was committed.
//!
//! A notification only wakes. The data is in the database, where a task that misses a notification finds it.

use deeplink_core::id::TenantId;
use tokio::sync::broadcast;

/// Notifications that a slow subscriber may lag behind; beyond that it checks everything.
const BEHIND: usize = 1_024;

/// Something that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notification {
    /// Events of a tenant other than clicks, with or without deliveries.
    Events(TenantId),
    /// Deliveries of a tenant, with their events; or its webhooks changed, or it was suspended or resumed.
    Deliveries(TenantId),
    /// Another node has committed deliveries of a tenant, for the sender of this name.
    RemoteDeliveries(TenantId, String),
}

/// Sends notifications to every subscriber on this node.
#[derive(Debug)]
pub(crate) struct Notifier(broadcast::Sender<Notification>);

impl Notifier {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND))
    }

    /// Notifies, after the commit. There may be no subscriber.
    pub(crate) fn notify(&self, what: Notification) {
        let _ = self.0.send(what);
    }

    /// Receives every notification from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Notification> {
        self.0.subscribe()
    }
}
