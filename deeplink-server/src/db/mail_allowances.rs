//! Limits of mails per kind to an address, and of invitations per team, so that no mailbox is flooded.

use deeplink_core::time::Timestamp;

use super::{Conn, DbError, on};

const HOUR_MILLIS: i64 = 3_600_000;

/// A kind of mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A link to sign in with.
    Signin,
    /// A link that confirms a sign-up.
    Signup,
    /// An invitation.
    Invite,
    /// Invitations of a team, to any address.
    Team,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Signin => "signin",
            Self::Signup => "signup",
            Self::Invite => "invite",
            Self::Team => "team",
        }
    }

    /// The limit per hour.
    const fn per_hour(self) -> i64 {
        match self {
            Self::Signin | Self::Signup | Self::Invite => 5,
            Self::Team => 50,
        }
    }
}

/// Whether a mail may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    Now,
    /// Not before this time.
    From(Timestamp),
}

/// Counts a mail to an address, or of a team by its tenant's id, in the hour that began with the first mail.
pub(crate) async fn take(
    db: &mut Conn<'_>,
    purpose: Purpose,
    address: &str,
    now: Timestamp,
) -> Result<Allowed, DbError> {
    const SQL: &str = "
        INSERT INTO mail_allowances (purpose, address, since, sent) VALUES ($1, $2, $3, 1)
        ON CONFLICT (purpose, address) DO UPDATE SET
            since = CASE WHEN mail_allowances.since <= $4 THEN $3 ELSE mail_allowances.since END,
            sent = CASE WHEN mail_allowances.since <= $4 THEN 1 ELSE mail_allowances.sent + 1 END
        RETURNING sent, since";
    // Refused mails are counted too, so that a refusal takes as long as a success.
    let (sent, since): (i64, i64) = on!(db, c => sqlx::query_as(SQL)
        .bind(purpose.as_str()).bind(address).bind(now.as_millis())
        .bind(now.plus_millis(-HOUR_MILLIS).as_millis())
        .fetch_one(c).await)?;
    if sent <= purpose.per_hour() {
        return Ok(Allowed::Now);
    }
    Ok(Allowed::From(Timestamp::from_millis(since + HOUR_MILLIS)))
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM mail_allowances WHERE since <= $1 - 3600000 AND (purpose, address) IN
        (SELECT purpose, address FROM mail_allowances WHERE since <= $1 - 3600000 LIMIT $2)";
