//! Events on their way to webhooks: what is due, what became of it, and who sends whose.

mod due;
mod health;
mod insert;
mod lease;
mod settle;
mod sweep;

use deeplink_core::time::Timestamp;
use serde::{Deserialize, Serialize};

pub(crate) use due::{Due, Stored, Waiting, bring_back, due, next_due, targets, waiting};
pub(crate) use health::{FULL_NO_MORE, Health, count_waiting, note_health, set_full};
pub(crate) use insert::{NewDelivery, insert, insert_all};
pub(crate) use lease::{give_back, holder_of, take};
pub(crate) use settle::{MOST as MOST_SETTLED, Settled, settle};
pub(crate) use sweep::{cancel, orphaned, remove_of, remove_old};

/// How far ahead of now anything can lie that waits, in unix milliseconds: attempts wait 25 seconds and leases hold for 10,
/// and the clocks of nodes differ a little. What lies further ahead was stored before the clock was set back.
pub(crate) fn farthest(now: Timestamp) -> i64 {
    now.as_millis() + 60_000
}

/// An attempt as it is stored in `deliveries.log`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tried {
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

impl Tried {
    /// A log with this attempt behind those that stand in it.
    pub(crate) fn behind(&self, log: &str) -> String {
        let this = serde_json::to_string(self).unwrap_or_else(|_| "{}".into());
        match log.trim_end().strip_suffix(']') {
            Some(before) if before.len() > 1 => format!("{before},{this}]"),
            _ => format!("[{this}]"),
        }
    }
}
