//! Rows whose time is over. Each table has its statement; it says twice which rows it means, because on PostgreSQL a row
//! that is renewed while the statement waits for it is looked at again by the outer condition alone.

use deeplink_core::time::Timestamp;

use super::{
    Conn, DbError, conversions, events, key_requests, mail_allowances, oauth_states, on, replies, sessions, sign_ins,
    tokens,
};

/// Rows that one sweep removes, so that no write waits long behind it.
const ROWS: i64 = 500;

/// The statement of every table whose rows end by themselves.
pub(crate) const STATEMENTS: [&str; 9] = [
    replies::EXPIRED,
    tokens::EXPIRED,
    sessions::EXPIRED,
    key_requests::EXPIRED,
    sign_ins::EXPIRED,
    mail_allowances::EXPIRED,
    oauth_states::EXPIRED,
    conversions::EXPIRED_KEYS,
    events::EXPIRED,
];

/// Removes some rows whose time is over; `true` when more may be left.
pub(crate) async fn sweep(db: &mut Conn<'_>, statement: &'static str, now: Timestamp) -> Result<bool, DbError> {
    let removed = on!(db, c => sqlx::query(statement).bind(now.as_millis()).bind(ROWS)
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(i64::try_from(removed).unwrap_or(0) == ROWS)
}
