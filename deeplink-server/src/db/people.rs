//! Accounts by verified mail address, and what is deleted when an address is verified.
//!
//! A verified address belongs to one account. A unique index decides races; the loser reads again.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;

use super::users::{self, NewUser, Standing};
use super::{Conn, DbError, on, tenants, tokens};

/// The ids for an account that may have to be created.
#[derive(Debug, Clone)]
pub(crate) struct EnterIds {
    tenant: TenantId,
    user: UserId,
}

impl EnterIds {
    /// Generates the ids.
    pub(crate) fn draw(now: Timestamp, random: &mut Random) -> Self {
        Self { tenant: TenantId::new(now, random), user: UserId::new(now, random) }
    }
}

/// A user with a verified address, and the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
}

/// Signs in the owner of a mail address: to the account in which it is verified, else to a new
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
    let EnterIds { tenant, user } = ids;
    let owner = NewUser { id: user, tenant, email: email.clone(), standing: Standing::Verified, created_at: now };
    if users::insert_owner(db, &owner).await? {
        tokens::lapse(db, email).await?;
        return Ok(Some(Entered { tenant: owner.tenant, user: owner.id }));
    }
    // A concurrent sign-in of the same person came first.
    tenants::delete_empty(db, &owner.tenant).await?;
    let known = users::lock_address(db, email).await?;
    known.map(Some).ok_or_else(|| DbError::Deadlock("an address changed hands".into()))
}

/// Marks a user's address as verified, and ends what others started with it. `false`: the address is
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
