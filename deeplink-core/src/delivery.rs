//! Deliveries: events on their way to a webhook, and the log of what was posted.

use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::id::{DeliveryId, EventId, WebhookId};
use crate::time::Timestamp;
use crate::words::{paged, reply, words};

/// Delay before each attempt of a delivery, in milliseconds: the first at once, then four retries after 0, 1, 5 and 25 seconds.
pub const RETRY_DELAYS_MILLIS: [i64; 5] = [0, 0, 1_000, 5_000, 25_000];
/// How long one attempt may take, in milliseconds.
pub const ATTEMPT_TIMEOUT_MILLIS: u64 = 10_000;
/// Maximum bytes stored of an endpoint's response.
pub const MAX_RESPONSE_BYTES: usize = 1_024;
/// Maximum pending deliveries of one webhook; further ones are stored as dropped.
pub const MAX_PENDING: i64 = 100_000;
/// How long deliveries are retained, in days.
pub const DELIVERY_RETENTION_DAYS: i64 = 30;

words! {
    /// State of a delivery.
    DeliveryStatus {
        /// Waiting for its first or next attempt.
        Pending = "pending",
        /// The endpoint accepted it.
        Delivered = "delivered",
        /// All five attempts failed.
        Failed = "failed",
        /// The webhook was disabled, paused or deleted before it was delivered.
        Canceled = "canceled",
        /// 100,000 others were already pending.
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

reply! {
    /// One attempt of a delivery.
    Attempt {
        /// When the attempt started.
        at: Timestamp,
        /// Duration in milliseconds.
        duration_ms: i64,
        /// HTTP status of the response; null if there was no response.
        status: Option<u16>,
        /// Why the attempt failed; null if the endpoint accepted the event.
        error: Option<String>,
    }
}

/// A delivery of an event to a webhook. The body of the endpoint's response is shown only on the account pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DeliveryDetail {
    /// The delivery's ID.
    pub id: DeliveryId,
    /// The webhook.
    pub webhook_id: WebhookId,
    /// The event's ID: the value of `webhook-id`, the same in every attempt and every replay.
    pub event_id: EventId,
    /// The event's kind.
    pub event: EventKind,
    /// Whether this is a test event.
    pub test: bool,
    /// The delivery that this one replays; null if it is not a replay.
    pub replay_of: Option<DeliveryId>,
    /// The state of the delivery.
    pub status: DeliveryStatus,
    /// The exact request body.
    pub request_body: String,
    /// The attempts so far, oldest first.
    pub attempts: Vec<Attempt>,
    /// Time of the next attempt; null if none is scheduled.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl DeliveryDetail {
    /// A new delivery, due at once; neither a test nor a replay.
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

paged! {
    /// Deliveries of a webhook, newest first.
    DeliveryList {
        /// The deliveries.
        deliveries: DeliveryDetail,
    }
}
