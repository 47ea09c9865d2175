//! The audit log. What an entry names is copied into it, so that it can be read when that is gone.

use deeplink_core::audit::{AUDIT_DAYS, AuditAction, AuditActor, AuditEntry};
use deeplink_core::id::{AuditEntryId, TenantId};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;
use url::Url;

use super::pages::{self, Span, newest_first};
use super::{Conn, DbError, execute};
use crate::caller::Actor;

/// An entry to store with what it is about.
#[derive(Debug, Clone)]
pub(crate) struct NewEntry {
    /// Says when, too.
    id: AuditEntryId,
    tenant: TenantId,
    by: By,
    action: AuditAction,
    target: Option<String>,
    detail: Option<String>,
}

/// Who did it.
#[derive(Debug, Clone)]
pub(crate) enum By {
    Caller(Actor),
    /// A wallet by its address, before its account exists.
    Wallet(String),
    Operator,
    /// The service itself, as time passed.
    Service,
}

impl By {
    /// What is stored of it: its type, its ID if a row may have more of it, or else its name.
    pub(super) fn columns(&self) -> (AuditActor, Option<&str>, Option<&str>) {
        match self {
            Self::Caller(Actor::User(id)) => (AuditActor::User, Some(id.as_str()), None),
            Self::Caller(Actor::Key(id)) => (AuditActor::SecretKey, Some(id.as_str()), None),
            // Nothing that apps and pages report is recorded.
            Self::Caller(Actor::Page(id)) => (AuditActor::PublishableKey, None, Some(id.as_str())),
            Self::Caller(Actor::Wallet(charge)) => (AuditActor::Wallet, None, Some(charge.address.as_str())),
            Self::Wallet(address) => (AuditActor::Wallet, None, Some(address.as_str())),
            Self::Operator => (AuditActor::Operator, None, None),
            Self::Service => (AuditActor::Service, None, None),
        }
    }
}

impl NewEntry {
    pub(crate) fn new(id: AuditEntryId, tenant: TenantId, by: By, action: AuditAction) -> Self {
        Self { id, tenant, by, action, target: None, detail: None }
    }

    /// What the operator does now.
    pub(crate) fn by_operator(tenant: TenantId, action: AuditAction, now: Timestamp) -> Self {
        Self::new(AuditEntryId::new(now, &mut Random::system()), tenant, By::Operator, action)
    }

    /// The entry with what it was done to, and a name, a URL or a reason.
    pub(crate) fn of(&self, target: &(impl ToString + ?Sized), detail: Option<&str>) -> Self {
        Self { target: Some(target.to_string()), detail: detail.map(str::to_owned), ..self.clone() }
    }

    /// The same with the origin of a URL. Its path is often a secret of the receiver.
    pub(crate) fn of_url(&self, target: &impl ToString, url: &str) -> Self {
        let origin = Url::parse(url).map(|url| url.origin().ascii_serialization());
        self.of(&target.to_string(), Some(&origin.unwrap_or_default()))
    }

    /// Stores the entry, with the prefix of the key or the address of the person.
    pub(crate) async fn store(&self, db: &mut Conn<'_>) -> Result<(), DbError> {
        const SQL: &str = "
            INSERT INTO audit_log (id, tenant_id, at, action, actor_type, actor, target, detail)
            VALUES ($1, $2, $3, $4, $5, COALESCE(
                (SELECT key_prefix FROM secret_keys WHERE id = $6), (SELECT email FROM users WHERE id = $6), $7), $8, $9)";
        let (kind, id, name) = self.by.columns();
        execute!(db, SQL;
            self.id.as_str(), self.tenant.as_str(), self.id.millis(), self.action.as_str(), kind.as_str(), id, name,
            self.target.as_deref(), self.detail.as_deref())?;
        Ok(())
    }
}

/// Records that an account was opened.
pub(crate) async fn opened(db: &mut Conn<'_>, id: AuditEntryId, tenant: &TenantId, by: By) -> Result<(), DbError> {
    NewEntry::new(id, tenant.clone(), by, AuditAction::AccountCreated).of(tenant, None).store(db).await
}

#[derive(FromRow)]
struct Row {
    id: String,
    at: i64,
    action: String,
    actor_type: String,
    actor: Option<String>,
    target: Option<String>,
    detail: Option<String>,
}

impl TryFrom<Row> for AuditEntry {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let id = row.id.parse().map_err(|_| DbError::corrupt("audit_log", "id", &row.id))?;
        let (at, action) = (Timestamp::from_millis(row.at), AuditAction::from(row.action.as_str()));
        let actor_type = AuditActor::from(row.actor_type.as_str());
        Ok(Self::new(id, at, action, actor_type, row.actor, row.target, row.detail))
    }
}

/// An account's entries, newest first.
pub(crate) async fn list(db: &mut Conn<'_>, tenant: &TenantId, span: &Span) -> Result<Vec<AuditEntry>, DbError> {
    const SQL: &str =
        newest_first!("SELECT id, at, action, actor_type, actor, target, detail FROM audit_log WHERE tenant_id = $3");
    let rows: Vec<Row> = pages::read(db, SQL, AuditEntryId::PREFIX, &[tenant.as_str()], span).await?;
    rows.into_iter().map(AuditEntry::try_from).collect()
}

/// Deletes entries of more than a year ago.
pub(crate) const EXPIRED: &str = "
    DELETE FROM audit_log WHERE at <= $1 - 31536000000
        AND id IN (SELECT id FROM audit_log WHERE at <= $1 - 31536000000 LIMIT $2)";
const _: () = assert!(AUDIT_DAYS * 86_400_000 == 31_536_000_000, "what EXPIRED says");
