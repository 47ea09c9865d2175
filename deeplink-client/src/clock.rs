//! The only reader of the wall clock: for dates in `Retry-After` without a `Date`, for time windows that end "now", for
//! the age of journal entries, and for the doctor's checks of clocks and certificates. All waiting is done on the
//! runtime's own clock.

use deeplink_core::time::Timestamp;

#[expect(clippy::disallowed_methods, reason = "this is where the client reads the wall clock")]
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
