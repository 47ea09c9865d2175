//! Deliveries: events on their way to a webhook, and the log of what was posted.

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::event::EventKind;
use crate::id::{DeliveryId, EventId, WebhookId};
use crate::time::Timestamp;
use crate::words::{paged, reply, words};

/// Delays before the first four retries of a delivery, in seconds.
pub const RETRY_DELAYS_SECS: [i64; 4] = [0, 1, 5, 25];
/// The same for further ones, if the webhook has them, and for all after these.
const LATER_RETRY_DELAYS_SECS: [i64; 4] = [120, 600, 1_800, 3_600];
const LAST_RETRY_DELAY_SECS: i64 = 3 * 3_600;
/// How long failed deliveries are retried by default, in seconds: four retries, after 0, 1, 5 and 25 seconds.
pub const DEFAULT_RETRY_SECS: i64 = 31;
/// The longest time that failed deliveries can be retried, in seconds: three days.
pub const MAX_RETRY_SECS: i64 = 259_200;
/// How long one attempt may take, in milliseconds.
pub const ATTEMPT_TIMEOUT_MILLIS: u64 = 10_000;
/// Maximum bytes stored of an endpoint's response.
pub const MAX_RESPONSE_BYTES: usize = 1_024;
/// Maximum pending deliveries of one webhook; further ones are stored as dropped.
pub const MAX_PENDING: i64 = 100_000;
/// How long deliveries are retained, in days.
pub const DELIVERY_RETENTION_DAYS: i64 = 30;

/// When the next attempt of a delivery is due, in Unix milliseconds, after this many attempts, of which the first began at
/// `first_at` and the last failed at `failed_at`. `None` if its time for retries, in seconds, is over.
pub fn next_attempt(attempts: i64, first_at: i64, failed_at: i64, retry_for: i64) -> Option<i64> {
    let nth = usize::try_from(attempts - 1).ok()?;
    let all = RETRY_DELAYS_SECS.iter().chain(&LATER_RETRY_DELAYS_SECS);
    let due_at = failed_at + all.copied().nth(nth).unwrap_or(LAST_RETRY_DELAY_SECS) * 1_000;
    // The first four depend on the delays alone, however long the attempts take.
    let after_first = match RETRY_DELAYS_SECS.get(..=nth) {
        Some(quick) => quick.iter().sum::<i64>() * 1_000,
        None => due_at - first_at,
    };
    (after_first <= retry_for * 1_000).then_some(due_at)
}

words! {
    /// State of a delivery.
    DeliveryStatus {
        /// Waiting for its first or next attempt.
        Pending = "pending",
        /// The endpoint accepted it.
        Delivered = "delivered",
        /// All attempts failed.
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
    /// The attempts so far, oldest first: up to 12, the first and the latest 11.
    pub attempts: Vec<Attempt>,
    /// Time of the next attempt; null if none is scheduled.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl DeliveryDetail {
    /// A new delivery, due immediately; neither a test nor a replay.
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

/// Maximum deliveries that one request replays.
pub const MAX_REPLAYED: u32 = 1_000;

/// The request body to replay failed deliveries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"since": "2026-12-01T00:00:00Z"}))))]
#[non_exhaustive]
pub struct ReplayDeliveries {
    /// Replays deliveries created at this time or later; deliveries are kept for up to 30 days.
    pub since: Timestamp,
    /// Status of the deliveries: only `failed`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DeliveryStatus>,
}

impl ReplayDeliveries {
    /// All deliveries that failed since this time.
    pub fn failed_since(since: Timestamp) -> Self {
        Self { since, status: None }
    }

    /// Checks the rules of the fields.
    pub fn check(&self) -> Result<(), Invalid> {
        match &self.status {
            None | Some(DeliveryStatus::Failed) => Ok(()),
            Some(_) => Err(Invalid::field(ErrorCode::BadRequest, "status", "status can only be failed")),
        }
    }
}

reply! {
    /// Number of deliveries that are sent again.
    ReplayedDeliveries {
        /// Number of new deliveries. An event that failed several times is sent once.
        count: u32,
        /// Whether any deliveries were left out because there are more than 1,000, or too many are pending.
        has_more: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_failed_is_sent_again() {
        let asked = ReplayDeliveries::failed_since(Timestamp::from_millis(0));
        assert_eq!(asked.check(), Ok(()));
        assert_eq!(ReplayDeliveries { status: Some(DeliveryStatus::Failed), ..asked.clone() }.check(), Ok(()));
        let wrong = ReplayDeliveries { status: Some(DeliveryStatus::Delivered), ..asked }.check().expect_err("no");
        assert_eq!((wrong.code, wrong.field.as_deref()), (ErrorCode::BadRequest, Some("status")));
    }

    /// The delays between attempts, in seconds, if each takes `took` milliseconds.
    fn delays(retry_for: i64, took: i64) -> Vec<i64> {
        let (mut attempts, mut began, mut delays) = (1, 0, Vec::new());
        while let Some(due_at) = next_attempt(attempts, 0, began + took, retry_for) {
            delays.push((due_at - began - took) / 1_000);
            (attempts, began) = (attempts + 1, due_at);
        }
        delays
    }

    #[test]
    fn retries_end_with_their_time() {
        assert_eq!(delays(0, 10), [0]);
        assert_eq!(delays(DEFAULT_RETRY_SECS, 10), [0, 1, 5, 25]);
        assert_eq!(delays(DEFAULT_RETRY_SECS, 10_000), [0, 1, 5, 25], "however long each attempt takes");
        assert_eq!(delays(30, 10), [0, 1, 5]);
        assert_eq!(delays(150, 10), [0, 1, 5, 25]);
        assert_eq!(delays(152, 10), [0, 1, 5, 25, 120]);
        assert_eq!(delays(3_600, 10_000), [0, 1, 5, 25, 120, 600, 1_800]);
        let all = delays(MAX_RETRY_SECS, 10_000);
        assert_eq!(all[4..9], [120, 600, 1_800, 3_600, 10_800]);
        assert_eq!(all.len(), 8 + 23);
        let last: i64 = all.iter().map(|delay| delay + 10).sum();
        assert!((MAX_RETRY_SECS - 3 * 3_600 - 10..=MAX_RETRY_SECS).contains(&last), "{last}");
    }
}
