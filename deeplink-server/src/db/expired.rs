//! Deletion of expired rows. Each table has its statement, which repeats its condition, because on PostgreSQL a row that
//! is renewed while the statement waits for its lock is checked again by the outer condition only.

use deeplink_core::time::Timestamp;

use super::{
    Conn, DbError, audit, billing, conversions, events, execute, key_requests, link_history, mail_allowances,
    oauth_states, one_time_links, payments, replies, sessions, sign_ins, tokens,
};

/// Rows deleted by one sweep, so that other writes do not wait long.
const ROWS_PER_SWEEP: i64 = 500;

/// The statements of all tables with rows that expire.
pub(crate) const STATEMENTS: [&str; 14] = [
    replies::EXPIRED,
    tokens::EXPIRED,
    sessions::EXPIRED,
    key_requests::EXPIRED,
    sign_ins::EXPIRED,
    one_time_links::EXPIRED,
    mail_allowances::EXPIRED,
    oauth_states::EXPIRED,
    conversions::EXPIRED_KEYS,
    events::EXPIRED,
    billing::EXPIRED_EVENTS,
    payments::EXPIRED,
    audit::EXPIRED,
    link_history::EXPIRED,
];

/// Deletes some expired rows; `true` if more may be left.
pub(crate) async fn sweep(db: &mut Conn<'_>, statement: &'static str, now: Timestamp) -> Result<bool, DbError> {
    let removed = execute!(db, statement; now.as_millis(), ROWS_PER_SWEEP)?;
    Ok(i64::try_from(removed).unwrap_or(0) == ROWS_PER_SWEEP)
}
