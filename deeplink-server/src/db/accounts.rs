//! Creating an account: the tenant, its owner and its first key are stored together or not at all.

use deeplink_core::id::{AuditEntryId, SecretKeyId, TenantId, UserId};
use deeplink_core::secret::{Random, SecretKey};
use deeplink_core::time::Timestamp;
use deeplink_core::user::{Email, SignedUp};

use super::audit::By;
use super::users::{NewUser, Standing};
use super::{Conn, DbError, audit, keys, tenants, tokens, users};
use crate::caller::Actor;

/// An account to open.
#[derive(Debug, Clone)]
pub(crate) struct NewAccount {
    pub(crate) owner: NewUser,
    pub(crate) key: keys::NewKey,
    /// Of the first entry in the audit log.
    entry: AuditEntryId,
}

impl NewAccount {
    /// Draws the ids and the first key.
    pub(crate) fn draw(email: Email, standing: Standing, now: Timestamp, random: &mut Random) -> Self {
        let (tenant, user) = (TenantId::new(now, random), UserId::new(now, random));
        let key = keys::NewKey {
            id: SecretKeyId::new(now, random),
            tenant: tenant.clone(),
            affiliate: None,
            key: SecretKey::generate(random),
            created_by: Some(user.clone()),
            created_at: now,
        };
        let entry = AuditEntryId::new(now, random);
        Self { owner: NewUser { id: user, tenant, email, standing, created_at: now }, key, entry }
    }

    /// The response to the owner, with the key.
    pub(crate) fn opened(&self) -> SignedUp {
        let (owner, key) = (&self.owner, &self.key);
        SignedUp::new(owner.tenant.clone(), owner.id.clone(), key.id.clone(), key.key.clone(), owner.created_at)
    }
}

/// Stores an account. `false`: the address already belongs to an account, and the caller must roll back.
pub(crate) async fn open(db: &mut Conn<'_>, account: &NewAccount) -> Result<bool, DbError> {
    let owner = &account.owner;
    tenants::insert(db, &owner.tenant, owner.created_at).await?;
    if !users::insert_owner(db, owner).await? {
        return Ok(false);
    }
    if owner.standing == Standing::Verified {
        tokens::lapse(db, &owner.email).await?;
    }
    keys::insert(db, &account.key).await?;
    // Only the operator opens an account with an address that nobody has proved and that counts as verified.
    let by = match owner.standing {
        Standing::Verified => By::Operator,
        Standing::Unverified => By::Caller(Actor::User(owner.id.clone())),
    };
    audit::opened(db, account.entry.clone(), &owner.tenant, by).await?;
    Ok(true)
}
