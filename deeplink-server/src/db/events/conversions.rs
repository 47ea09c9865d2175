//! Events of conversions, each published once, when its user is known.

use deeplink_core::event::{ConversionData, EventData, EventKind};
use deeplink_core::id::TenantId;
use deeplink_core::metadata::Metadata;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::super::credits::Range;
use super::super::{Conn, DbError, execute, on};
use super::{NewEvent, Publisher, publish};

/// Conversions with the content of their events. Deleted links still have their ids and affiliates, but nothing else.
macro_rules! conversions {
    ($which:literal) => {
        concat!(
            "
            SELECT c.id, c.tenant_id, c.source_id, u.user_id, c.conversion_type, c.metadata, c.amount_cents, c.currency, c.at,
                COALESCE(f.link_id, gone_f.link_id) AS first_link_id, COALESCE(l.link_id, gone_l.link_id) AS last_link_id,
                COALESCE(l.affiliate_id, gone_l.affiliate_id) AS affiliate_id,
                CASE WHEN c.metadata IS NULL THEN l.metadata END AS link_metadata
            FROM conversions c JOIN app_users u ON u.position = c.app_user
                LEFT JOIN links f ON f.position = c.first_link
                LEFT JOIN deleted_links gone_f ON gone_f.position = c.first_link
                LEFT JOIN links l ON l.position = c.last_link
                LEFT JOIN deleted_links gone_l ON gone_l.position = c.last_link
            WHERE ",
            $which
        )
    };
}

#[derive(FromRow)]
struct Row {
    id: String,
    tenant_id: String,
    source_id: Option<String>,
    user_id: String,
    conversion_type: String,
    metadata: Option<String>,
    amount_cents: Option<i64>,
    currency: Option<String>,
    at: i64,
    first_link_id: Option<String>,
    last_link_id: Option<String>,
    affiliate_id: Option<String>,
    link_metadata: Option<String>,
}

impl Row {
    fn event(self) -> Result<NewEvent, DbError> {
        let corrupt = |column, value: &str| DbError::corrupt("conversions", column, value);
        let event_id = self.id.parse().map_err(|_| corrupt("id", &self.id))?;
        let source = self.source_id.map(|id| id.parse().map_err(|_| corrupt("source_id", &id))).transpose()?;
        let affiliate = self.affiliate_id.map(|id| id.parse().map_err(|_| corrupt("affiliate_id", &id))).transpose()?;
        let data = EventData::Conversion(Box::new(ConversionData {
            event_id,
            tenant_id: self.tenant_id.parse().map_err(|_| corrupt("tenant_id", &self.tenant_id))?,
            source_id: source,
            first_touch_link_id: self.first_link_id,
            last_touch_link_id: self.last_link_id,
            conversion_type: self.conversion_type,
            user_id: self.user_id,
            metadata: self.metadata.or(self.link_metadata).map(Metadata::from_stored),
            timestamp: Timestamp::from_millis(self.at),
            link_id: None,
            currency: self.amount_cents.and(self.currency),
            amount_cents: self.amount_cents,
        }));
        let EventData::Conversion(conversion) = &data else { return Err(corrupt("id", &self.id)) };
        NewEvent::new(conversion.event_id.clone(), &data, affiliate).ok_or_else(|| corrupt("id", &self.id))
    }
}

/// Publishes a conversion that was just stored.
pub(in super::super) async fn publish_conversion(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    tenant: &TenantId,
    position: i64,
) -> Result<(), DbError> {
    const ONE: &str = conversions!("c.position = $1");
    let row: Row = on!(db, c => sqlx::query_as(ONE).bind(position).fetch_one(c).await)?;
    publish(db, publisher, tenant, &EventKind::Conversion, &[row.event()?]).await
}

/// Publishes a user's conversions of a range that are not published yet. The caller has locked the user's row and stored
/// which links are credited.
pub(in super::super) async fn publish_conversions(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    range: Range,
) -> Result<(), DbError> {
    const UNPUBLISHED: &str = conversions!(
        "c.app_user = $1 AND (c.at, c.position) > ($2, $3) AND (c.at, c.position) <= ($4, $5) AND c.emitted_at IS NULL
            ORDER BY c.at, c.position"
    );
    const PUBLISH: &str = "
        UPDATE conversions SET emitted_at = $6
        WHERE app_user = $1 AND (at, position) > ($2, $3) AND (at, position) <= ($4, $5) AND emitted_at IS NULL";
    let Range { user, after, upto } = range;
    let rows: Vec<Row> = on!(db, c => sqlx::query_as(UNPUBLISHED)
        .bind(user).bind(after.at).bind(after.position).bind(upto.at).bind(upto.position)
        .fetch_all(c).await)?;
    let Some(first) = rows.first() else { return Ok(()) };
    let tenant: TenantId =
        first.tenant_id.parse().map_err(|_| DbError::corrupt("conversions", "tenant_id", &first.tenant_id))?;
    let events = rows.into_iter().map(Row::event).collect::<Result<Vec<_>, _>>()?;
    publish(db, publisher, &tenant, &EventKind::Conversion, &events).await?;
    execute!(db, PUBLISH; user, after.at, after.position, upto.at, upto.position, publisher.now.as_millis())?;
    Ok(())
}
