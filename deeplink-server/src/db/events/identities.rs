//! Events of installs: a link opened one, or one was bound to a user.

use deeplink_core::event::{AttributeData, EventData, EventKind, IdentifyData};
use deeplink_core::id::{EventId, TenantId};
use deeplink_core::metadata::Metadata;
use sqlx::FromRow;

use super::super::{Conn, DbError, on};
use super::{NewEvent, Publisher, publish};

/// Publishes that a link opened an install, which is bound to this `app_users.position`.
pub(in super::super) async fn publish_attribute(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    mut data: AttributeData,
    user: Option<i64>,
) -> Result<(), DbError> {
    const USER: &str = "SELECT user_id FROM app_users WHERE position = $1";
    if let Some(user) = user {
        data.user_id = Some(on!(db, c => sqlx::query_scalar(USER).bind(user).fetch_one(c).await)?);
    }
    let tenant = data.tenant_id.clone();
    let id = publisher.draw(EventId::new);
    let event = NewEvent::new(id, &EventData::Attribute(data), None);
    publish(db, publisher, &tenant, &EventKind::Attribute, event.as_slice()).await
}

/// The link that opened an install first.
#[derive(FromRow)]
struct FirstTouch {
    link_id: Option<String>,
    metadata: Option<String>,
}

/// Publishes that an install was bound to a user, and which link (`links.position`) opened it first.
pub(in super::super) async fn publish_identify(
    db: &mut Conn<'_>,
    publisher: &Publisher,
    tenant: &TenantId,
    (install_id, user_id): (&str, &str),
    first_link: Option<i64>,
) -> Result<(), DbError> {
    const LINK: &str = "
        SELECT link_id, metadata FROM links WHERE position = $1
        UNION ALL SELECT link_id, NULL FROM deleted_links WHERE position = $1";
    let first: Option<FirstTouch> = match first_link {
        Some(link) => on!(db, c => sqlx::query_as(LINK).bind(link).fetch_optional(c).await)?,
        None => None,
    };
    let (link_id, metadata) = first.map_or((None, None), |first| (first.link_id, first.metadata));
    let data = EventData::Identify(IdentifyData {
        tenant_id: tenant.clone(),
        user_id: user_id.to_owned(),
        install_id: install_id.to_owned(),
        first_touch_link_id: link_id,
        first_touch_link_metadata: metadata.map(Metadata::from_stored),
        timestamp: publisher.now,
    });
    let id = publisher.draw(EventId::new);
    publish(db, publisher, tenant, &EventKind::Identify, NewEvent::new(id, &data, None).as_slice()).await
}
