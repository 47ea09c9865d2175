//! Users. A verified email address belongs to one account; any number of unverified sign-ups can have it.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::time::Timestamp;
use deeplink_core::user::{Email, UserDetail, UserStatus};
use sqlx::FromRow;

use super::pages::{self, Span, newest_first};
use super::people::Entered;
use super::{Conn, DbError, execute, on, sessions};

/// A user to store.
#[derive(Debug, Clone)]
pub(crate) struct NewUser {
    pub(crate) id: UserId,
    pub(crate) tenant: TenantId,
    pub(crate) email: Email,
    /// Whether the email address is verified.
    pub(crate) standing: Standing,
    pub(crate) created_at: Timestamp,
}

/// Whether a user's email address is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Verified by a confirmed mail or by the operator.
    Verified,
    /// Not verified yet.
    Unverified,
}

/// The address of the owner of an account that a first start creates, until a person enters theirs. It cannot exist:
/// `invalid` is a reserved domain (RFC 2606).
pub(crate) const PLACEHOLDER: &str = "owner@deeplink.invalid";

/// Stores an account's owner. `false`: the address already belongs to an account, and nothing is stored.
pub(crate) async fn insert_owner(db: &mut Conn<'_>, user: &NewUser) -> Result<bool, DbError> {
    // The unique index decides between two verified users; for an unverified one a read is enough.
    const SQL: &str = "
        INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at)
        SELECT $1, $2, $3, $4, $5, $6
        WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = $3 AND verified)
        ON CONFLICT DO NOTHING";
    let rows = execute!(db, SQL;
        user.id.as_str(), user.tenant.as_str(), user.email.as_str(), user.standing == Standing::Verified, true,
        user.created_at.as_millis())?;
    Ok(rows == 1)
}

/// Whether a user is in an account's team.
pub(crate) async fn exists(db: &mut Conn<'_>, tenant: &TenantId, id: &UserId) -> Result<bool, DbError> {
    const SQL: &str = "SELECT EXISTS (SELECT 1 FROM users WHERE tenant_id = $1 AND id = $2)";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(id.as_str()).fetch_one(c).await)?)
}

/// The user with an address in an account's team, and whether it is verified.
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

/// The email addresses of an account's owners or, without owners, of all verified users. An owner's address that
/// is not verified is included if `unverified`, because there may be no other.
pub(crate) async fn owners_of(db: &mut Conn<'_>, tenant: &TenantId, unverified: bool) -> Result<Vec<String>, DbError> {
    const SQL: &str = "
        SELECT email FROM users WHERE tenant_id = $1 AND (verified OR $2) AND (is_owner OR
            (verified AND NOT EXISTS (SELECT 1 FROM users owner WHERE owner.tenant_id = $1 AND owner.is_owner AND (owner.verified OR $2))))
        ORDER BY id";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(unverified).fetch_all(c).await)?)
}

#[derive(FromRow)]
struct LockedUser {
    id: String,
    tenant_id: String,
    verified: bool,
}

/// Locks all users with an email address until the write ends, so that none is verified or deleted meanwhile. Returns
/// the user for whom it is verified. Dependent rows, such as tokens, are changed only after this, so that no two
/// writes deadlock.
pub(crate) async fn lock_address(db: &mut Conn<'_>, email: &Email) -> Result<Option<Entered>, DbError> {
    const SQL: &str = "
        UPDATE users SET verified = verified WHERE email = $1 RETURNING id, tenant_id, verified";
    let rows: Vec<LockedUser> = on!(db, c => sqlx::query_as(SQL).bind(email.as_str()).fetch_all(c).await)?;
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

/// An account's users, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId, span: &Span) -> Result<Vec<UserDetail>, DbError> {
    const SQL: &str = newest_first!("SELECT id, email, verified, is_owner, created_at FROM users WHERE tenant_id = $3");
    let rows: Vec<Row> = pages::read(db, SQL, UserId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(UserDetail::try_from).collect()
}

async fn one(
    db: &mut Conn<'_>,
    sql: &'static str,
    tenant: &TenantId,
    key: &str,
) -> Result<Option<UserDetail>, DbError> {
    let row: Option<Row> = on!(db, c => sqlx::query_as(sql).bind(tenant.as_str()).bind(key).fetch_optional(c).await)?;
    row.map(UserDetail::try_from).transpose()
}

/// A user of an account by email address.
pub(crate) async fn by_email(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    email: &Email,
) -> Result<Option<UserDetail>, DbError> {
    const SQL: &str = "
        SELECT id, email, verified, is_owner, created_at FROM users WHERE tenant_id = $1 AND email = $2";
    one(db, SQL, tenant, email.as_str()).await
}

/// A user of an account by id.
pub(crate) async fn find(db: &mut Conn<'_>, tenant: &TenantId, id: &UserId) -> Result<Option<UserDetail>, DbError> {
    const SQL: &str = "
        SELECT id, email, verified, is_owner, created_at FROM users WHERE tenant_id = $1 AND id = $2";
    one(db, SQL, tenant, id.as_str()).await
}

/// A user of an account by id, locked until the write ends.
pub(crate) async fn lock(db: &mut Conn<'_>, tenant: &TenantId, id: &UserId) -> Result<Option<UserDetail>, DbError> {
    const SQL: &str = "
        UPDATE users SET verified = verified WHERE tenant_id = $1 AND id = $2
        RETURNING id, email, verified, is_owner, created_at";
    one(db, SQL, tenant, id.as_str()).await
}

/// The number of an account's users, and of those with a verified address.
pub(crate) async fn count(db: &mut Conn<'_>, tenant: &TenantId) -> Result<(i64, i64), DbError> {
    const SQL: &str = "
        SELECT count(*), count(CASE WHEN verified THEN 1 END) FROM users WHERE tenant_id = $1";
    Ok(on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).fetch_one(c).await)?)
}

/// Stores an invited user. The caller has locked the account, so no one else stores the same user.
pub(crate) async fn insert_invited(db: &mut Conn<'_>, user: &NewUser) -> Result<(), DbError> {
    const SQL: &str = "
        INSERT INTO users (id, tenant_id, email, verified, is_owner, created_at) VALUES ($1, $2, $3, $4, $5, $6)";
    execute!(db, SQL;
        user.id.as_str(), user.tenant.as_str(), user.email.as_str(), user.standing == Standing::Verified, false,
        user.created_at.as_millis())?;
    Ok(())
}

/// Gives a user another email address, which is not verified yet. The caller has locked the account, and no other user of
/// it has the address.
pub(crate) async fn set_address(db: &mut Conn<'_>, id: &UserId, email: &Email) -> Result<(), DbError> {
    const SQL: &str = "UPDATE users SET email = $2, verified = FALSE WHERE id = $1";
    execute!(db, SQL; id.as_str(), email.as_str())?;
    Ok(())
}

/// The account in which an email address is verified; else the oldest 20 that were opened with it. An invitation alone
/// does not count.
pub(crate) async fn accounts_of(db: &mut Conn<'_>, email: &Email) -> Result<Vec<TenantId>, DbError> {
    const SQL: &str = "
        SELECT tenant_id FROM users WHERE email = $1 AND (verified OR (is_owner AND NOT EXISTS
            (SELECT 1 FROM users other WHERE other.email = $1 AND other.verified)))
        ORDER BY tenant_id LIMIT 20";
    let ids: Vec<String> = on!(db, c => sqlx::query_scalar(SQL).bind(email.as_str()).fetch_all(c).await)?;
    ids.iter().map(|id| id.parse().map_err(|_| DbError::corrupt("users", "tenant_id", id))).collect()
}

/// What accounts have proved about an email address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proved {
    /// The address itself.
    pub(crate) address: bool,
    /// An address in its domain.
    pub(crate) domain: bool,
}

/// Whether an account has proved an email address, or another one in its domain.
pub(crate) async fn proved(db: &mut Conn<'_>, email: &Email) -> Result<Proved, DbError> {
    // The second condition uses the expression of the index `users_verified_domain`.
    const SQL: &str = "
        SELECT EXISTS (SELECT 1 FROM users WHERE email = $1 AND verified),
            EXISTS (SELECT 1 FROM users
                WHERE substr(email, length(rtrim(email, replace(email, '@', ''))) + 1) = $2 AND verified)";
    let (address, domain) =
        on!(db, c => sqlx::query_as(SQL).bind(email.as_str()).bind(email.domain()).fetch_one(c).await)?;
    Ok(Proved { address, domain })
}

/// The user named as the sender of an invitation: the one who makes it, else the owner, else the oldest member;
/// only users with a verified address.
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

/// Deletes a user with their sessions and tokens; keys that they created are kept.
pub(crate) async fn delete(db: &mut Conn<'_>, id: &UserId) -> Result<(), DbError> {
    const SQLS: [&str; 4] = [
        "DELETE FROM key_requests WHERE user_id = $1",
        "DELETE FROM tokens WHERE user_id = $1",
        "UPDATE secret_keys SET created_by = NULL WHERE created_by = $1",
        "DELETE FROM users WHERE id = $1",
    ];
    sessions::delete_of(db, id).await?;
    for sql in SQLS {
        execute!(db, sql; id.as_str())?;
    }
    Ok(())
}
