//! People. A verified address belongs to one account; any number of unverified sign-ups may name it.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;

use super::{Conn, DbError, on};

/// Somebody to store.
#[derive(Debug, Clone)]
pub(crate) struct NewUser {
    pub(crate) id: UserId,
    pub(crate) tenant: TenantId,
    pub(crate) email: Email,
    /// Whether somebody vouches that the address is theirs.
    pub(crate) standing: Standing,
    pub(crate) created_at: Timestamp,
}

/// How sure it is that an address is its user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The operator or a confirmed mail says so.
    Verified,
    /// Nobody says so yet.
    Unverified,
}

/// Stores an account's owner. `false`: the address belongs to an account already, and nothing is stored.
pub(crate) async fn insert_owner(db: &mut Conn<'_>, user: &NewUser) -> Result<bool, DbError> {
    // The index settles a race between two verified ones; an unverified one only looks.
    const SQL: &str = "
        INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at)
        SELECT $1, $2, $3, $4, $5, $6
        WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = $3 AND verified)
        ON CONFLICT DO NOTHING";
    let rows = on!(db, c => sqlx::query(SQL)
        .bind(user.id.as_str()).bind(user.tenant.as_str()).bind(user.email.as_str())
        .bind(user.standing == Standing::Verified).bind(true).bind(user.created_at.as_millis())
        .execute(c).await.map(|done| done.rows_affected()))?;
    Ok(rows == 1)
}

/// Whether somebody is in an account's team.
pub(crate) async fn exists(db: &mut Conn<'_>, tenant: &TenantId, id: &UserId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM users WHERE tenant_id = $1 AND id = $2)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_one(c).await)?)
}

/// Who in an account's team has an address, and whether it is theirs for sure.
pub(crate) async fn in_team(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    email: &Email,
) -> Result<Option<(UserId, Standing)>, DbError> {
    const SQL: &str = "SELECT id, verified FROM users WHERE tenant_id = $1 AND email = $2";
    let found: Option<(String, bool)> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(email.as_str()).fetch_optional(c).await)?;
    let person = |(id, verified): (String, bool)| {
        let standing = if verified { Standing::Verified } else { Standing::Unverified };
        Ok((id.parse().map_err(|_| DbError::corrupt("users", "id", &id))?, standing))
    };
    found.map(person).transpose()
}

/// Where an account's owners are reached. An address that nobody has confirmed counts too: there may be no other.
pub(crate) async fn owners_of(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<String>, DbError> {
    const SQL: &str = "SELECT email FROM users WHERE tenant_id = $1 AND is_owner ORDER BY id";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_all(c).await)?)
}
