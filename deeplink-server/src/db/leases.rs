//! Work that one node does for all: whoever holds the lease, for as long as it runs.
//!
//! Terms are read off the holder's clock and judged by the other nodes', so a lease must be longer than clocks differ. It
//! saves double work; what must not happen twice is guarded by taking the lease again in the write that does it.

use deeplink_core::time::Timestamp;

use super::{Conn, DbError, on};

/// Orders certificates.
pub(crate) const CERTIFICATES: &str = "certificates";

/// Takes a lease that is free, over, or the holder's own, until then. `false`: somebody else has it.
pub(crate) async fn take(
    db: &mut Conn<'_>,
    lease: &str,
    holder: &str,
    now: Timestamp,
    until: Timestamp,
) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE leases SET holder = $2, expires_at = $4
        WHERE name = $1 AND (holder = $2 OR expires_at <= $3)";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(lease).bind(holder).bind(now.as_millis()).bind(until.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Gives a lease back before its time, if it is the holder's.
pub(crate) async fn give_back(db: &mut Conn<'_>, lease: &str, holder: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE leases SET holder = '', expires_at = 0 WHERE name = $1 AND holder = $2";
    on!(db, c => sqlx::query(SQL).bind(lease).bind(holder).execute(c).await.map(|_| ()))?;
    Ok(())
}
