//! Who belongs where: the account that a proved address belongs to, and what lapses when an address is proved.
//!
//! A verified address belongs to one account. The unique index settles who gets it; whoever loses that race looks again.

use deeplink_core::id::{TenantId, UserId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;

use super::users::{self, NewUser, Standing};
use super::{Conn, DbError, on, tenants, tokens};

/// The ids of an account that may have to be opened.
#[derive(Debug, Clone)]
pub(crate) struct EnterIds {
    tenant: TenantId,
    user: UserId,
}

impl EnterIds {
    /// Draws them.
    pub(crate) fn draw(now: Timestamp, random: &mut Random) -> Self {
        Self { tenant: TenantId::new(now, random), user: UserId::new(now, random) }
    }
}

/// Somebody whose address is proved, and their account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entered {
    pub(crate) tenant: TenantId,
    pub(crate) user: UserId,
}

/// Lets somebody in who has just proved that an address is theirs: into the account it is verified in, else into a new
/// one. Never into an account that only says the address is its owner's: whoever opened it may be somebody else. `None`:
/// the address has no account, and `ids` are not there because none may be opened.
pub(crate) async fn enter(
    db: &mut Conn<'_>,
    email: &Email,
    ids: Option<EnterIds>,
    now: Timestamp,
) -> Result<Option<Entered>, DbError> {
    if let Some(known) = users::hold_address(db, email).await? {
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
    // The same person was faster elsewhere.
    tenants::delete_empty(db, &owner.tenant).await?;
    let known = users::hold_address(db, email).await?;
    known.map(Some).ok_or_else(|| DbError::Deadlock("an address changed hands".into()))
}

/// Notes that somebody has proved their address, and lets lapse what others began with it. `false`: the address is
/// verified in another account, or the person is gone.
pub(crate) async fn confirm(db: &mut Conn<'_>, user: &UserId) -> Result<bool, DbError> {
    const SQL: &str = "
        UPDATE users SET verified = TRUE
        WHERE id = $1 AND NOT EXISTS (
            SELECT 1 FROM users other WHERE other.email = users.email AND other.verified AND other.id <> users.id)
        RETURNING email";
    let confirmed: Option<String> = on!(db, c => sqlx::query_scalar(SQL).bind(user.as_str()).fetch_optional(c).await)
        .map_err(|error| match &error {
        // Somebody else's proof commits at this moment; who looks again sees it.
        sqlx::Error::Database(database) if database.is_unique_violation() => DbError::Deadlock(error.to_string()),
        _ => error.into(),
    })?;
    let Some(email) = confirmed else { return Ok(false) };
    let email: Email = email.parse().map_err(|_| DbError::corrupt("users", "email", user.as_str()))?;
    tokens::lapse(db, &email).await?;
    Ok(true)
}
