//! Deliveries of events to webhooks: which are due, their results, and the leases on sending them.

mod due;
mod health;
mod insert;
mod lease;
mod sweep;
mod update;

use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use due::{
    ActiveWebhook, DueDelivery, PendingWebhook, active_webhooks, due, next_due, pending_webhooks, reschedule_too_far,
};
pub(crate) use health::{Health, LOW_WATER_MARK, count_pending, record_health, set_full};
pub(crate) use insert::{NewDelivery, insert};
pub(crate) use lease::{holder_of, release_leases, take_lease};
pub(crate) use sweep::{cancel_pending, deleted_webhooks_with_deliveries, remove_of, remove_old};
pub(crate) use update::{DeliveryUpdate, MAX_UPDATES, apply_updates};

/// The state of a delivery, by its number in `deliveries.state`;
/// [`DeliveryStatus`](deeplink_core::webhook::DeliveryStatus) is the same for clients. The statements say `state = 0`
/// for pending deliveries: with a parameter, SQLite would not use the index of pending deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryState {
    /// It waits for its first or its next attempt.
    Pending = 0,
    /// The receiver answered with 2xx.
    Delivered = 1,
    /// All attempts failed.
    Failed = 2,
    /// Its webhook was disabled or deleted, or its event is no longer kept.
    Canceled = 3,
    /// Too many others were pending when its event happened.
    Dropped = 4,
}

impl DeliveryState {
    /// The number that is stored.
    pub(crate) const fn code(self) -> i64 {
        self as i64
    }
}

/// The latest time that a pending delivery or a lease can plausibly have, in unix milliseconds: attempts wait at most 25
/// seconds, leases last 10, and the clocks of nodes differ a little. A later time was stored before the clock was set back.
pub(crate) fn latest_plausible(now: Timestamp) -> i64 {
    now.as_millis() + 60_000
}

/// An attempt as it is stored in `deliveries.log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptRecord {
    /// When it began, in unix milliseconds.
    pub(crate) at: i64,
    /// How long it took.
    pub(crate) ms: i64,
    /// The answer's status, if there was an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// How the answer's body begins: at most 1,024 bytes, without control characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) answer: String,
}

#[cfg(test)]
mod tests {
    use deeplink_core::webhook::DeliveryStatus;

    use super::DeliveryState;

    #[test]
    fn clients_are_shown_the_stored_state() {
        for (state, status) in [
            (DeliveryState::Pending, DeliveryStatus::Pending),
            (DeliveryState::Delivered, DeliveryStatus::Delivered),
            (DeliveryState::Failed, DeliveryStatus::Failed),
            (DeliveryState::Canceled, DeliveryStatus::Canceled),
            (DeliveryState::Dropped, DeliveryStatus::Dropped),
        ] {
            assert_eq!(status.code().map(i64::from), Some(state.code()), "{state:?}");
        }
    }
}
