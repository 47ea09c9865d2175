//! Says on this node what was committed, to the sender of deliveries and to readers of the event stream.
//!
//! It only wakes. What is to be sent is in the database, where a task that misses a notification finds it.

use deeplink_core::id::TenantId;
use tokio::sync::broadcast;

/// Notifications that a slow subscriber may be behind; it then looks at everything.
const BEHIND: usize = 1_024;

/// Something that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notification {
    /// Events of a tenant other than clicks, with or without deliveries.
    Events(TenantId),
    /// Deliveries of a tenant, with their events.
    Deliveries(TenantId),
    /// Another node has committed deliveries of a tenant, which the sender of this name is to send.
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
