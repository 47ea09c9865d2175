//! People. A verified address belongs to one account; any number of unverified sign-ups may name it.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::time::Timestamp;
use deeplink_core::user::{Email, UserDetail, UserStatus};
use sqlx::FromRow;

use super::people::Entered;
use super::{Conn, DbError, on, sessions};

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

/// Where an account's owners are reached; where they have left, everybody whose address is proved. An owner's address that
/// nobody has confirmed counts too: there may be no other.
pub(crate) async fn owners_of(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<String>, DbError> {
    const SQL: &str = "
        SELECT email FROM users WHERE tenant_id = $1 AND (is_owner OR
            (verified AND NOT EXISTS (SELECT 1 FROM users owner WHERE owner.tenant_id = $1 AND owner.is_owner)))
        ORDER BY id";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).fetch_all(c).await)?)
}

#[derive(FromRow)]
struct Held {
    id: String,
    tenant_id: String,
    verified: bool,
}

/// Holds everybody whom an address names until the write ends: nobody proves it or removes them meanwhile. The result is
/// the person it is verified for. What hangs on people, such as their tokens, is only touched after this, so that no two
/// writes wait for each other in turn.
pub(crate) async fn hold_address(db: &mut Conn<'_>, email: &Email) -> Result<Option<Entered>, DbError> {
    const SQL: &str = "
        UPDATE users SET verified = verified WHERE email = $1 RETURNING id, tenant_id, verified";
    let rows: Vec<Held> = on!(db, c => sqlx::query_as(SQL).bind(email.as_str()).fetch_all(c).await)?;
    let Some(row) = rows.into_iter().find(|row| row.verified) else { return Ok(None) };
    let corrupt = |column| DbError::corrupt("users", column, &row.id);
    let tenant = row.tenant_id.parse().map_err(|_| corrupt("tenant_id"))?;
    Ok(Some(Entered { tenant, user: row.id.parse().map_err(|_| corrupt("id"))? }))
}

#[derive(FromRow)]
struct Row {
    id: String,
    email: String,
    verified: bool,
    is_owner: bool,
    created_at: i64,
}

impl TryFrom<Row> for UserDetail {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        Ok(Self {
            id: row.id.parse().map_err(|_| DbError::corrupt("users", "id", &row.id))?,
            email: row.email,
            verified: row.verified,
            status: if row.verified { UserStatus::Active } else { UserStatus::Pending },
            is_owner: row.is_owner,
            created_at: Timestamp::from_millis(row.created_at),
        })
    }
}

/// Everybody of an account, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId) -> Result<Vec<UserDetail>, DbError> {
    const SQL: &str = "
        SELECT id, email, verified, is_owner, created_at FROM users WHERE tenant_id = $1 ORDER BY id DESC";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_all(c).await)?;
    rows.into_iter().map(UserDetail::try_from).collect()
}

/// Somebody of an account by address.
pub(crate) async fn by_email(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    email: &Email,
) -> Result<Option<UserDetail>, DbError> {
    const SQL: &str = "
        SELECT id, email, verified, is_owner, created_at FROM users WHERE tenant_id = $1 AND email = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(email.as_str()).fetch_optional(c).await)?;
    row.map(UserDetail::try_from).transpose()
}

/// Somebody of an account by id.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, id: &UserId) -> Result<Option<UserDetail>, DbError> {
    const SQL: &str = "
        SELECT id, email, verified, is_owner, created_at FROM users WHERE tenant_id = $1 AND id = $2";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(UserDetail::try_from).transpose()
}

/// Somebody of an account by id, held until the write ends.
pub(crate) async fn hold_of(db: &mut Conn<'_>, tenant: &TenantId, id: &UserId) -> Result<Option<UserDetail>, DbError> {
    const SQL: &str = "
        UPDATE users SET verified = verified WHERE tenant_id = $1 AND id = $2
        RETURNING id, email, verified, is_owner, created_at";
    let row: Option<Row> =
        on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_optional(c).await)?;
    row.map(UserDetail::try_from).transpose()
}

/// How many people an account has, and how many of them have proved their address.
pub(crate) async fn count(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(i64, i64), DbError> {
    const SQL: &str = "
        SELECT count(*), count(CASE WHEN verified THEN 1 END) FROM users WHERE tenant_id = $1";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// Stores somebody who is invited. The account is held, so nobody else stores them.
pub(crate) async fn insert_invited(db: &mut Conn<'_>, user: &NewUser) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at) VALUES ($1, $2, $3, $4, $5, $6)";
    on!(db, c => sqlx::query(SQL)
        .bind(user.id.as_str()).bind(user.tenant.as_str()).bind(user.email.as_str())
        .bind(user.standing == Standing::Verified).bind(false).bind(user.created_at.as_millis())
        .execute(c).await.map(|_| ()))?;
    Ok(())
}

/// Who speaks for an account in its invitations: whoever makes one, else the owner, else who has been there longest; and
/// only somebody whose address is proved.
pub(crate) async fn spokesperson(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    inviting: Option<&UserId>,
) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT email FROM users WHERE tenant_id = $1 AND verified
        ORDER BY CASE WHEN id = $2 THEN 0 ELSE 1 END, is_owner DESC, id LIMIT 1";
    let inviting = inviting.map_or("", UserId::as_str);
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(inviting).fetch_optional(c).await)?)
}

/// Removes somebody with everything that lets them in; keys that they made stay the account's.
pub(crate) async fn delete(db: &mut Conn<'_>, id: &UserId) -> Result<(), DbError> {
    const SQLS: [&str; 4] = [
        "DELETE FROM key_requests WHERE user_id = $1",
        "DELETE FROM tokens WHERE user_id = $1",
        "UPDATE secret_keys SET created_by = NULL WHERE created_by = $1",
        "DELETE FROM users WHERE id = $1",
    ];
    sessions::delete_of(db, id).await?;
    for sql in SQLS {
        on!(db, c => sqlx::query(sql).bind(id.as_str()).execute(c).await.map(|_| ()))?;
    }
    Ok(())
}
