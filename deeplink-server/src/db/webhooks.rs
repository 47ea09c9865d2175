//! Addresses that events are posted to.

use deeplink_core::event::EventKind;
use deeplink_core::id::{AffiliateId, TenantId, WebhookId};
use sqlx::FromRow;

use super::{Conn, DbError, on};

/// The bit of a kind in `webhooks.kinds`; 0 for a kind this build does not know.
pub(crate) fn bit(kind: &EventKind) -> i64 {
    kind.code().map_or(0, |code| 1 << code)
}

/// A webhook that wants a kind of event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) id: WebhookId,
    /// Whose conversions alone are sent; other kinds are not narrowed.
    pub(crate) affiliate: Option<AffiliateId>,
    /// So many deliveries wait that this one is dropped.
    pub(crate) is_full: bool,
}

#[derive(FromRow)]
struct Row {
    id: String,
    affiliate_id: Option<String>,
    is_full: bool,
}

/// A tenant's active webhooks that want a kind of event.
pub(crate) async fn subscribers(
    db: &mut Conn<'_>,
    tenant: &TenantId,
    kind: &EventKind,
) -> Result<Vec<Subscriber>, DbError> {
    const SQL: &str = "
        SELECT id, affiliate_id, is_full FROM webhooks
        WHERE tenant_id = $1 AND active = TRUE AND kinds & $2 <> 0 ORDER BY id";
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(SQL).bind(tenant.as_str()).bind(bit(kind)).fetch_all(c).await)?;
    let read = |row: Row| {
        let corrupt = |column, value: &str| DbError::corrupt("webhooks", column, value);
        Ok(Subscriber {
            id: row.id.parse().map_err(|_| corrupt("id", &row.id))?,
            affiliate: row.affiliate_id.map(|id| id.parse().map_err(|_| corrupt("affiliate_id", &id))).transpose()?,
            is_full: row.is_full,
        })
    };
    rows.into_iter().map(read).collect()
}
