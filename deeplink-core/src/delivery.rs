//! Deliveries: events on their way to a webhook, and the log of what was posted.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};

use crate::event::EventKind;
use crate::id::{DeliveryId, EventId, WebhookId};
use crate::time::Timestamp;
use crate::words::words;

/// Waits before each try of a delivery, in milliseconds: the first at once, then four more after 0, 1, 5 and 25 seconds.
pub const WAITS_MILLIS: [i64; 5] = [0, 0, 1_000, 5_000, 25_000];
/// How long one attempt may take, in milliseconds.
pub const ATTEMPT_MILLIS: u64 = 10_000;
/// Most bytes that are kept of a receiver's answer.
pub const MAX_ANSWER: usize = 1_024;
/// Deliveries of one webhook that may wait; newer ones are noted and dropped.
pub const MAX_PENDING: i64 = 100_000;
/// How long deliveries are shown, in days.
pub const DELIVERIES_KEPT_DAYS: i64 = 30;

words! {
    /// What became of a delivery.
    DeliveryStatus {
        /// It waits for its first or its next attempt.
        Pending = "pending",
        /// The receiver took it.
        Delivered = "delivered",
        /// All five attempts failed.
        Failed = "failed",
        /// Its webhook was switched off or deleted first.
        Canceled = "canceled",
        /// 100,000 others waited already.
        Dropped = "dropped",
    }
}

impl DeliveryStatus {
    /// The status as a number, for storage; `None` for a word this build does not know.
    pub const fn code(&self) -> Option<u8> {
        match self {
            Self::Pending => Some(0),
            Self::Delivered => Some(1),
            Self::Failed => Some(2),
            Self::Canceled => Some(3),
            Self::Dropped => Some(4),
            Self::Unknown(_) => None,
        }
    }

    /// The status that is stored as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).cloned()
    }
}

/// One attempt of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Attempt {
    /// When it began.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: i64,
    /// The status of the answer; null when there was none.
    pub status: Option<u16>,
    /// Why it failed; null when the receiver took it.
    pub error: Option<String>,
}

impl Attempt {
    /// An attempt with all its fields.
    pub fn new(at: Timestamp, duration_ms: i64, status: Option<u16>, error: Option<String>) -> Self {
        Self { at, duration_ms, status, error }
    }
}

/// A delivery as it is shown: an event on its way to a webhook. What the receiver answered is shown to people on the account
/// page alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DeliveryDetail {
    /// The delivery's id.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook_id: WebhookId,
    /// The event: the value of `webhook-id`, the same in every attempt and every replay.
    pub event_id: EventId,
    /// The event's kind.
    pub event: EventKind,
    /// Whether the event was made up to try the webhook: it tells of nothing that happened.
    pub test: bool,
    /// The delivery that this one sends once more; null when it is no replay.
    pub replay_of: Option<DeliveryId>,
    /// What became of it.
    pub status: DeliveryStatus,
    /// The body that is sent, to the byte.
    pub request_body: String,
    /// The attempts so far, oldest first.
    pub attempts: Vec<Attempt>,
    /// When the next attempt is due; null when there is none.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub next_attempt_at: Option<Timestamp>,
    /// When it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
}

impl DeliveryDetail {
    /// A delivery of something that happened, which begins now.
    pub fn new(
        id: DeliveryId,
        webhook_id: WebhookId,
        event_id: EventId,
        event: EventKind,
        request_body: String,
        created_at: Timestamp,
    ) -> Self {
        Self {
            id,
            webhook_id,
            event_id,
            event,
            test: false,
            replay_of: None,
            status: DeliveryStatus::Pending,
            request_body,
            attempts: Vec::new(),
            next_attempt_at: Some(created_at),
            created_at,
        }
    }
}

/// Deliveries of a webhook, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DeliveryList {
    /// The deliveries.
    pub deliveries: Vec<DeliveryDetail>,
    /// Where the next page begins; null on the last.
    pub next_cursor: Option<String>,
}

impl DeliveryList {
    /// A page of these.
    pub fn new(deliveries: Vec<DeliveryDetail>, next_cursor: Option<String>) -> Self {
        Self { deliveries, next_cursor }
    }
}
