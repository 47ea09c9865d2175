//! Accounts by verified email address, and what is deleted when an address is verified.
//!
//! A verified address belongs to one account. A unique index decides races; the loser reads again.

use deeplink_core::audit::AuditAction;
use deeplink_core::id::{AuditEntryId, TenantId, UserId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;

use super::audit::{self, By, NewEntry};
use super::users::{self, NewUser, Standing};
use super::{Conn, DbError, execute, notices, on, suspensions, tenants, tokens};
use crate::caller::Actor;

/// The ids for an account that may have to be created.
#[derive(Debug, Clone)]
pub(crate) struct EnterIds {
    tenant: TenantId,
    user: UserId,
    /// Of the first entry in the audit log.
    entry: AuditEntryId,
}

impl EnterIds {
    /// Generates the ids.
    pub(crate) fn draw(now: Timestamp, random: &mut Random) -> Self {
        Self {
            tenant: TenantId::new(now, random),
            user: UserId::new(now, random),
            entry: AuditEntryId::new(now, random),
        }
    }
}

/// A user with a verified address, and the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
}

/// Signs in the owner of an email address: to the account in which it is verified, else to a new
/// one. Never to an account with the unverified address, which someone else may have created. `None`:
/// the address has no account, and without `ids` none may be created.
pub(crate) async fn enter(
    db: &mut Conn<'_>,
    email: &Email,
    ids: Option<EnterIds>,
    now: Timestamp,
) -> Result<Option<Entered>, DbError> {
    if let Some(known) = users::lock_address(db, email).await? {
        return Ok(Some(known));
    }
    let Some(ids) = ids else { return Ok(None) };
    tenants::insert(db, &ids.tenant, now).await?;
    let EnterIds { tenant, user, entry } = ids;
    let owner = NewUser { id: user, tenant, email: email.clone(), standing: Standing::Verified, created_at: now };
    if users::insert_owner(db, &owner).await? {
        tokens::lapse(db, email).await?;
        audit::opened(db, entry, &owner.tenant, By::Caller(Actor::User(owner.id.clone()))).await?;
        return Ok(Some(Entered { tenant: owner.tenant, user: owner.id }));
    }
    // A concurrent sign-in of the same person came first.
    tenants::delete_empty(db, &owner.tenant).await?;
    let known = users::lock_address(db, email).await?;
    known.map(Some).ok_or_else(|| DbError::Deadlock("an address changed hands".into()))
}

/// A sign-up that its address's owner has confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfirmedSignUp {
    pub(crate) owner: Entered,
    /// Hashes of the account's keys, which are deleted.
    pub(crate) ended_keys: Vec<String>,
}

/// Confirms a sign-up with its mailed token. Anything created before the address was proved may be someone else's, so
/// everything that can act for the account is deleted; `entry` is of the audit log's entry of that. `None`: the token
/// is used or unknown, or the address is verified elsewhere.
pub(crate) async fn confirm_sign_up(
    db: &mut Conn<'_>,
    token_hash: &str,
    entry: &AuditEntryId,
    now: Timestamp,
) -> Result<Option<ConfirmedSignUp>, DbError> {
    let Some(tenant) = tokens::tenant_of(db, token_hash, tokens::Purpose::Signup, now).await? else {
        return Ok(None);
    };
    // Locked first: anything that a key creates is either there by now and deleted, or comes after this write, when the
    // key is deleted.
    tenants::lock(db, &tenant).await?;
    // The mailed link works once the account is resumed.
    if suspensions::is_suspended(db, &tenant).await? {
        return Ok(None);
    }
    let Some(owner) = tokens::consume(db, token_hash, tokens::Purpose::Signup, now).await? else { return Ok(None) };
    if !confirm(db, &owner.user).await? {
        return Ok(None);
    }
    let ended_keys = end_access(db, &owner.tenant, entry).await?;
    Ok(Some(ConfirmedSignUp { owner, ended_keys }))
}

/// Deletes what can act for an account: keys of every kind, sessions, codes, invitations, webhooks and sources. Links,
/// domains, apps and affiliates stay. Returns the hashes of the keys. The caller has locked the account's row.
pub(crate) async fn end_access(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    entry: &AuditEntryId,
) -> Result<Vec<String>, DbError> {
    const KEYS: [&str; 2] = [
        "DELETE FROM secret_keys WHERE tenant_id = $1 RETURNING key_hash",
        "DELETE FROM publishable_keys WHERE tenant_id = $1 RETURNING key_hash",
    ];
    const OTHERS: [&str; 5] = [
        "DELETE FROM sessions WHERE tenant_id = $1",
        "DELETE FROM key_requests WHERE tenant_id = $1",
        "DELETE FROM tokens WHERE tenant_id = $1",
        "DELETE FROM one_time_links WHERE tenant_id = $1",
        "DELETE FROM users WHERE tenant_id = $1 AND NOT verified",
    ];
    const COUNTED: [(&str, &str); 2] = [
        ("webhooks", "DELETE FROM webhooks WHERE tenant_id = $1"),
        ("sources", "DELETE FROM sources WHERE tenant_id = $1"),
    ];
    let mut hashes = Vec::new();
    for sql in KEYS {
        let ended: Vec<String> = on!(db, c => sqlx::query_scalar(sql).bind(tenant.as_str()).fetch_all(c).await)?;
        hashes.extend(ended);
    }
    for sql in OTHERS {
        execute!(db, sql; tenant.as_str())?;
    }
    let mut ended = vec![("keys", hashes.len() as u64)];
    for (what, sql) in COUNTED {
        ended.push((what, execute!(db, sql; tenant.as_str())?));
    }
    let ended: Vec<String> =
        ended.into_iter().filter(|of| of.1 > 0).map(|(what, count)| format!("{what}: {count}")).collect();
    if !ended.is_empty() {
        let revoked = NewEntry::new(entry.clone(), tenant.clone(), By::Service, AuditAction::AccessRevoked);
        revoked.of(tenant, Some(&ended.join(", "))).store(db).await?;
    }
    notices::keys_deleted(db, &hashes).await?;
    Ok(hashes)
}

/// Marks a user's address as verified, and deletes the tokens that others requested for it. `false`: the address is
/// verified in another account, or the user does not exist.
pub(crate) async fn confirm(db: &mut Conn<'_>, user: &UserId) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE users SET verified = TRUE
        WHERE id = $1 AND NOT EXISTS (
            SELECT 1 FROM users other WHERE other.email = users.email AND other.verified AND other.id <> users.id)
        RETURNING email";
    let confirmed: Option<String> = on!(db, c => sqlx::query_scalar(SQL).bind(user.as_str()).fetch_optional(c).await)
        .map_err(|error| match &error {
        // Another verification is committing; a retry will see it.
        sqlx::Error::Database(database) if database.is_unique_violation() => DbError::Deadlock(error.to_string()),
        _ => error.into(),
    })?;
    let Some(email) = confirmed else { return Ok(false) };
    let email: Email = email.parse().map_err(|_| DbError::corrupt("users", "email", user.as_str()))?;
    tokens::lapse(db, &email).await?;
    Ok(true)
}
