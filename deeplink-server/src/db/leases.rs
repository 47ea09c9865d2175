//! Leases: background work that one node at a time does for all nodes.
//!
//! Expiry is set by the holder's clock and checked by the other nodes' clocks, so a lease must be longer than clocks
//! differ. It avoids duplicate work; for work that must not be done twice, the write itself renews the lease.

use deeplink_core::time::Timestamp;

use super::{Conn, DbError, execute};

/// For ordering certificates.
pub(crate) const CERTIFICATES: &str = "certificates";

/// For deleting accounts.
pub(crate) const ERASURE: &str = "erasure";

/// For checking subscriptions whose period is over.
pub(crate) const SUBSCRIPTIONS: &str = "subscriptions";

/// Acquires a lease that is free or expired, or renews the holder's own. `false`: another node holds it.
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
    let rows = execute!(db, SQL; lease, holder, now.as_millis(), until.as_millis())?;
    Ok(rows == 1)
}

/// Releases a lease early, if the holder has it.
pub(crate) async fn give_back(db: &mut Conn<'_>, lease: &str, holder: &str) -> Result<(), DbError> {
    const SQL: &str = "UPDATE leases SET holder = '', expires_at = 0 WHERE name = $1 AND holder = $2";
    execute!(db, SQL; lease, holder)?;
    Ok(())
}
