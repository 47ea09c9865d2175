//! What just happened on this node, for whoever tells of it: the sender of deliveries, and readers of the event stream.
//!
//! It only wakes. What there is to tell stands in the database, and whoever misses a word finds it there.

use deeplink_core::id::TenantId;
use tokio::sync::broadcast;

/// Words that a slow listener may be behind; it then looks at everything.
const BEHIND: usize = 1_024;

/// Something that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Events of a tenant other than clicks, with or without deliveries.
    Events(TenantId),
    /// Deliveries of a tenant, with their events.
    Deliveries(TenantId),
    /// Another node has committed deliveries of a tenant, which the sender of this name is to send.
    Waiting(TenantId, String),
}

/// Spreads the word on this node.
#[derive(Debug)]
pub(crate) struct Happenings(broadcast::Sender<Happened>);

impl Happenings {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(BEHIND))
    }

    /// Says so, after the commit. Nobody may be listening.
    pub(crate) fn say(&self, what: Happened) {
        let _ = self.0.send(what);
    }

    /// Hears everything that is said from now on.
    pub(crate) fn hear(&self) -> broadcast::Receiver<Happened> {
        self.0.subscribe()
    }
}
