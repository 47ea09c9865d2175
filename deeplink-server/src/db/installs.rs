//! Apps on devices: the links that opened them, and whose they are.
//!
//! Whoever changes an install holds its row first, and then its user's where it has one: see [`super::conversions`].

use deeplink_core::event::AttributeData;
use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::events::{self, Telling};
use super::{Conn, DbError, conversions, credits, on};

/// A link opened an install.
#[derive(Debug, Clone)]
pub(crate) struct NewTouch<'a> {
    pub(crate) tenant: &'a TenantId,
    /// The position of the install, if this is its first touch.
    pub(crate) position: i64,
    pub(crate) install_id: &'a str,
    /// `links.position`, and the link's id.
    pub(crate) link: i64,
    pub(crate) link_id: &'a str,
    pub(crate) app_version: &'a str,
    pub(crate) device_model: Option<&'a str>,
    /// The whole context as JSON.
    pub(crate) context: Option<&'a str>,
    pub(crate) at: Timestamp,
}

#[derive(FromRow)]
struct Touched {
    position: i64,
    touches: i64,
    first_link: i64,
    app_user: Option<i64>,
}

/// Stores a touch. What its user is credited with follows; `true`: a part of that later.
pub(crate) async fn touch(db: &mut Conn<'_>, telling: &Telling, new: &NewTouch<'_>) -> Result<bool, DbError> {
    const INSTALL: &str = "
        INSERT INTO installs
            (position, tenant_id, install_id, touches, first_link, last_link, device_model, context, created_at)
        VALUES ($1, $2, $3, 1, $4, $4, $5, $6, $7)
        ON CONFLICT (tenant_id, install_id) DO UPDATE SET
            touches = installs.touches + 1,
            first_link = COALESCE(installs.first_link, excluded.first_link),
            last_link = excluded.last_link,
            device_model = COALESCE(excluded.device_model, installs.device_model),
            context = COALESCE(excluded.context, installs.context)
        RETURNING position, touches, first_link, app_user";
    const TOUCH: &str = "
        INSERT INTO touches (install, at, number, link, first_link, opened_before, app_version)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let install: Touched = on!(db, c => sqlx::query_as(INSTALL)
        .bind(new.position).bind(new.tenant.as_str()).bind(new.install_id).bind(new.link)
        .bind(new.device_model).bind(new.context).bind(new.at.as_millis())
        .fetch_one(c).await)
    .map_err(DbError::drawn)?;
    let before = open_link(db, &install, new).await?;
    on!(db, c => sqlx::query(TOUCH)
        .bind(install.position).bind(new.at.as_millis()).bind(install.touches).bind(new.link)
        .bind(install.first_link).bind(before).bind(new.app_version)
        .execute(c).await.map(|_| ()))?;
    let told = AttributeData {
        tenant_id: new.tenant.clone(),
        link_id: new.link_id.to_owned(),
        install_id: new.install_id.to_owned(),
        app_version: new.app_version.to_owned(),
        timestamp: new.at,
        user_id: None,
    };
    events::tell_attribute(db, telling, told, install.app_user).await?;
    let Some(user) = install.app_user else { return Ok(false) };
    conversions::hold(db, user).await?;
    credits::credit_since(db, telling, user, new.at.as_millis()).await
}

/// Links of an install that may be credited.
const LINKS: i64 = 100;

/// Notes that a link opened an install. Gives the time before at which it had opened the install again.
async fn open_link(db: &mut Conn<'_>, install: &Touched, new: &NewTouch<'_>) -> Result<Option<i64>, DbError> {
    const LAST: &str = "SELECT last_opened_at FROM install_links WHERE install = $1 AND link = $2";
    const NOTE: &str = "
        INSERT INTO install_links (install, link, first_at, last_opened_at)
        VALUES ($1, $2, $3, CASE WHEN $4 THEN $3 END)
        ON CONFLICT (install, link) DO UPDATE SET
            first_at = CASE WHEN excluded.first_at < install_links.first_at
                THEN excluded.first_at ELSE install_links.first_at END,
            last_opened_at = CASE WHEN install_links.last_opened_at > excluded.last_opened_at
                THEN install_links.last_opened_at ELSE excluded.last_opened_at END,
            credited = TRUE";
    const CREDIT_LATEST: &str = "
        UPDATE install_links SET credited = FALSE WHERE install = $1 AND link = (
            SELECT link FROM install_links WHERE install = $1 AND credited = TRUE
            ORDER BY CASE WHEN last_opened_at > first_at THEN last_opened_at ELSE first_at END DESC, link
            LIMIT 1 OFFSET $2)";
    let at = new.at.as_millis();
    let again = install.touches > 1;
    let last: Option<Option<i64>> = if again {
        on!(db, c => sqlx::query_scalar(LAST).bind(install.position).bind(new.link).fetch_optional(c).await)?
    } else {
        None
    };
    on!(db, c => sqlx::query(NOTE).bind(install.position).bind(new.link).bind(at).bind(again)
        .execute(c).await.map(|_| ()))?;
    if install.touches > LINKS {
        on!(db, c => sqlx::query(CREDIT_LATEST).bind(install.position).bind(LINKS).execute(c).await.map(|_| ()))?;
    }
    match last.flatten() {
        // The clock has stepped back since.
        Some(last) if last > at => between(db, install.position, new.link, at).await,
        last => Ok(last),
    }
}

/// Puts an opening between those of its link that are stored: the next one by the clock comes after it now. Gives the one
/// before it.
async fn between(db: &mut Conn<'_>, install: i64, link: i64, at: i64) -> Result<Option<i64>, DbError> {
    const BEFORE: &str = "SELECT MAX(at) FROM touches WHERE install = $1 AND link = $2 AND number > 1 AND at <= $3";
    const NEXT: &str = "
        SELECT at, number FROM touches WHERE install = $1 AND link = $2 AND number > 1 AND at > $3
        ORDER BY at, number LIMIT 1";
    const FOLLOW: &str = "UPDATE touches SET opened_before = $4 WHERE install = $1 AND at = $2 AND number = $3";
    let before: Option<i64> =
        on!(db, c => sqlx::query_scalar(BEFORE).bind(install).bind(link).bind(at).fetch_one(c).await)?;
    let next: Option<(i64, i64)> =
        on!(db, c => sqlx::query_as(NEXT).bind(install).bind(link).bind(at).fetch_optional(c).await)?;
    if let Some((next, number)) = next {
        on!(db, c => sqlx::query(FOLLOW).bind(install).bind(next).bind(number).bind(at)
            .execute(c).await.map(|_| ()))?;
    }
    Ok(before)
}

/// Whom an install is bound to. That never changes.
pub(crate) async fn user_of(db: &mut Conn<'_>, tenant: &TenantId, install_id: &str) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT u.user_id FROM installs i JOIN app_users u ON u.position = i.app_user
        WHERE i.tenant_id = $1 AND i.install_id = $2";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(install_id).fetch_optional(c).await)?)
}

/// An install that is to be bound to a user.
#[derive(Debug, Clone)]
pub(crate) struct NewBinding<'a> {
    pub(crate) tenant: &'a TenantId,
    /// The positions of the install and the user, if they are new.
    pub(crate) positions: [i64; 2],
    pub(crate) install_id: &'a str,
    pub(crate) user_id: &'a str,
    pub(crate) at: Timestamp,
}

/// What binding an install was: `installs.bound_as`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
enum BoundAs {
    Identified = 0,
    Reinstalled = 1,
    NewDevice = 2,
}

#[derive(FromRow)]
struct Held {
    position: i64,
    touches: i64,
    first_link: Option<i64>,
    last_link: Option<i64>,
    device_model: Option<String>,
}

/// Whose an install is after a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// That user's, who is credited with what it was touched by.
    Theirs {
        /// Whether a part of that is left for later.
        is_left: bool,
    },
    /// Somebody else's, who was faster.
    Another,
}

/// Binds an install to a user.
pub(crate) async fn bind(db: &mut Conn<'_>, telling: &Telling, new: &NewBinding<'_>) -> Result<Bound, DbError> {
    const HOLD: &str = "
        INSERT INTO installs (position, tenant_id, install_id, touches, created_at) VALUES ($1, $2, $3, 0, $4)
        ON CONFLICT (tenant_id, install_id) DO UPDATE SET touches = installs.touches
        RETURNING position, touches, first_link, last_link, device_model";
    const BIND: &str = "UPDATE installs SET app_user = $2, bound_at = $3, bound_as = $4 WHERE position = $1";
    const CREDIT: &str = "
        INSERT INTO install_credits (link, at, bound_as, is_first, is_last, install)
        SELECT link, $2, $3, link = $4, link = $5, install FROM (
            SELECT install, link, first_at, last_opened_at FROM install_links WHERE install = $1 AND credited = TRUE
            UNION
            SELECT install, link, first_at, last_opened_at FROM install_links WHERE install = $1 AND link IN ($4, $5)
        ) AS chain
        ORDER BY CASE WHEN link IN ($4, $5) THEN 0 ELSE 1 END,
            CASE WHEN last_opened_at > first_at THEN last_opened_at ELSE first_at END DESC, link
        LIMIT $6";
    const SINCE: &str = "SELECT MIN(at) FROM touches WHERE install = $1";
    let at = new.at.as_millis();
    let install: Held = on!(db, c => sqlx::query_as(HOLD)
        .bind(new.positions[0]).bind(new.tenant.as_str()).bind(new.install_id).bind(at)
        .fetch_one(c).await)
    .map_err(DbError::drawn)?;
    if let Some(user) = user_of(db, new.tenant, new.install_id).await? {
        return Ok(if user == new.user_id { Bound::Theirs { is_left: false } } else { Bound::Another });
    }
    let user = conversions::hold_user(db, new.tenant, new.user_id, new.positions[1], new.at).await?;
    let bound_as = compare(db, user, install.device_model.as_deref()).await?;
    on!(db, c => sqlx::query(BIND).bind(install.position).bind(user).bind(at).bind(bound_as as i64)
        .execute(c).await.map(|_| ()))?;
    if install.touches > 0 {
        on!(db, c => sqlx::query(CREDIT)
            .bind(install.position).bind(at).bind(bound_as as i64).bind(install.first_link).bind(install.last_link)
            .bind(LINKS).execute(c).await.map(|_| ()))?;
    }
    let names = (new.install_id, new.user_id);
    events::tell_identify(db, telling, new.tenant, names, install.first_link).await?;
    let since: Option<i64> = match bound_as {
        // Whatever the user did waits to become an event.
        BoundAs::Identified => Some(i64::MIN),
        _ => on!(db, c => sqlx::query_scalar(SINCE).bind(install.position).fetch_one(c).await)?,
    };
    let is_left = match since {
        Some(since) => credits::credit_since(db, telling, user, since).await?,
        None => false,
    };
    Ok(Bound::Theirs { is_left })
}

/// What binding an install of this model is to a user, by the installs that are bound to them. A new device is never
/// guessed.
async fn compare(db: &mut Conn<'_>, user: i64, model: Option<&str>) -> Result<BoundAs, DbError> {
    const SQL: &str = "
        SELECT EXISTS (SELECT 1 FROM installs WHERE app_user = $1),
            EXISTS (SELECT 1 FROM installs WHERE app_user = $1 AND device_model >= ''),
            EXISTS (SELECT 1 FROM installs WHERE app_user = $1 AND device_model = $2)";
    let (any, any_known, same): (bool, bool, bool) =
        on!(db, c => sqlx::query_as(SQL).bind(user).bind(model).fetch_one(c).await)?;
    Ok(match (any, model) {
        (false, _) => BoundAs::Identified,
        (true, Some(_)) if any_known && !same => BoundAs::NewDevice,
        (true, _) => BoundAs::Reinstalled,
    })
}
