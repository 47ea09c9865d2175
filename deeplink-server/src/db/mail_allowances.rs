//! How many mails of a kind an address gets: whoever names it, nobody's mailbox is flooded.

use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;

use super::{Conn, DbError, on};

/// Mails of one kind that an address gets in an hour.
const PER_HOUR: i64 = 5;
const HOUR_MILLIS: i64 = 3_600_000;

/// A kind of mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A link to sign in with.
    Signin,
    /// An invitation.
    Invite,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Signin => "signin",
            Self::Invite => "invite",
        }
    }
}

/// Counts a mail; `false` when the address has had all it gets in the hour that began with the first of them, and this
/// one must not be sent.
pub(crate) async fn take(
    db: &mut Conn<'_>,
    purpose: Purpose,
    address: &Email,
    now: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "
        INSERT INTO mail_allowances (purpose, address, since, sent) VALUES ($1, $2, $3, 1)
        ON CONFLICT (purpose, address) DO UPDATE SET
            since = CASE WHEN mail_allowances.since <= $4 THEN $3 ELSE mail_allowances.since END,
            sent = CASE WHEN mail_allowances.since <= $4 THEN 1 ELSE mail_allowances.sent + 1 END
        WHERE mail_allowances.since <= $4 OR mail_allowances.sent < $5";
    let counted = on!(db, c => sqlx::query(SQL)
        .bind(purpose.as_str()).bind(address.as_str()).bind(now.as_millis())
        .bind(now.plus_millis(-HOUR_MILLIS).as_millis()).bind(PER_HOUR)
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(counted == 1)
}

/// Counts that one sweep removes.
const SWEEP: i64 = 500;

/// Removes some counts whose hour is over; `true` when more may be left.
pub(crate) async fn sweep(db: &mut Conn<'_>, now: Timestamp) -> Result<bool, DbError> {
    const SQL: &str = "
        DELETE FROM mail_allowances WHERE (purpose, address) IN (
            SELECT purpose, address FROM mail_allowances WHERE since <= $1 LIMIT $2)";
    let removed = on!(db, c => sqlx::query(SQL).bind(now.plus_millis(-HOUR_MILLIS).as_millis()).bind(SWEEP)
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(i64::try_from(removed).unwrap_or(0) == SWEEP)
}
