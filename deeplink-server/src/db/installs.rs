//! App installs: the links that opened them, and the users they are bound to.
//!
//! A write that changes an install locks its row first, then its user's row if it has one: see [`super::conversions`].

use deeplink_core::event::AttributeData;
use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use sqlx::FromRow;

use super::events::{self, Publisher};
use super::funnel::Changes;
use super::{Conn, DbError, conversions, credits, execute, on};

/// A touch to store: a link opened an install.
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
    /// The account's number in tables of counts.
    account: Option<i64>,
}

/// Stores a touch and updates the credits of its user; `true`: some are left for later.
pub(crate) async fn touch(db: &mut Conn<'_>, publisher: &Publisher, new: &NewTouch<'_>) -> Result<bool, DbError> {
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
        RETURNING position, touches, first_link, app_user, (SELECT account FROM tenants WHERE id = $2) AS account";
    const TOUCH: &str = "
        INSERT INTO touches (install, at, number, link, first_link, opened_before, app_version, account, account_before)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let install: Touched = on!(db, c => sqlx::query_as(INSTALL)
        .bind(new.position).bind(new.tenant.as_str()).bind(new.install_id).bind(new.link)
        .bind(new.device_model).bind(new.context).bind(new.at.as_millis())
        .fetch_one(c).await)
    .map_err(DbError::drawn)?;
    let before = open_link(db, &install, new).await?;
    let at = new.at.as_millis();
    let by_any = if install.touches > 1 { between(db, install.position, None, at).await? } else { Between::default() };
    execute!(db, TOUCH;
        install.position, at, install.touches, new.link, install.first_link, before, new.app_version,
        install.account, by_any.before)?;
    let data = AttributeData {
        tenant_id: new.tenant.clone(),
        link_id: new.link_id.to_owned(),
        install_id: new.install_id.to_owned(),
        app_version: new.app_version.to_owned(),
        timestamp: new.at,
        user_id: None,
    };
    events::publish_attribute(db, publisher, data, install.app_user).await?;
    let is_left = match install.app_user {
        Some(user) => {
            conversions::lock(db, user).await?;
            credits::credit_since(db, publisher, user, at).await?
        }
        None => false,
    };
    if let Some(account) = install.account {
        let mut changes = Changes::default();
        changes.touch(account, at, install.touches, by_any.before);
        if let Some(after) = by_any.after {
            changes.opened_before(account, after, [by_any.before, Some(at)]);
        }
        changes.store(db).await?;
    }
    Ok(is_left)
}

/// Maximum links of an install that can be credited.
const MAX_CREDITED_LINKS: i64 = 100;

/// Records that a link opened an install. Returns the previous time it did, if any.
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
    execute!(db, NOTE; install.position, new.link, at, again)?;
    if install.touches > MAX_CREDITED_LINKS {
        execute!(db, CREDIT_LATEST; install.position, MAX_CREDITED_LINKS)?;
    }
    match last.flatten() {
        // The clock was set back meanwhile.
        Some(last) if last > at => Ok(between(db, install.position, Some(new.link), at).await?.before),
        last => Ok(last),
    }
}

/// When an install was opened before and after another opening of it, in unix milliseconds.
#[derive(Default)]
struct Between {
    before: Option<i64>,
    after: Option<i64>,
}

/// Inserts an opening in time order between the stored ones, of one link or of all of them, and links the next one to it.
async fn between(db: &mut Conn<'_>, install: i64, link: Option<i64>, at: i64) -> Result<Between, DbError> {
    // The primary key is searched from the end: what is looked for is mostly there.
    const BEFORE: &str = "
        SELECT at FROM touches WHERE install = $1 AND at <= $2 AND number > 1 AND ($3 IS NULL OR link = $3)
        ORDER BY at DESC, number DESC LIMIT 1";
    const NEXT: &str = "
        SELECT at, number FROM touches WHERE install = $1 AND at > $2 AND number > 1 AND ($3 IS NULL OR link = $3)
        ORDER BY at, number LIMIT 1";
    const FOLLOW: &str = "UPDATE touches SET opened_before = $4 WHERE install = $1 AND at = $2 AND number = $3";
    const FOLLOW_ANY: &str = "UPDATE touches SET account_before = $4 WHERE install = $1 AND at = $2 AND number = $3";
    let before: Option<i64> =
        on!(db, c => sqlx::query_scalar(BEFORE).bind(install).bind(at).bind(link).fetch_optional(c).await)?;
    // After it there is something only if the clock was set back meanwhile.
    let next: Option<(i64, i64)> =
        on!(db, c => sqlx::query_as(NEXT).bind(install).bind(at).bind(link).fetch_optional(c).await)?;
    if let Some((next, number)) = next {
        execute!(db, if link.is_some() { FOLLOW } else { FOLLOW_ANY }; install, next, number, at)?;
    }
    Ok(Between { before, after: next.map(|(at, _)| at) })
}

/// The user an install is bound to. That never changes.
pub(crate) async fn user_of(db: &mut Conn<'_>, tenant: &TenantId, install_id: &str) -> Result<Option<String>, DbError> {
    const SQL: &str = "
        SELECT u.user_id FROM installs i JOIN app_users u ON u.position = i.app_user
        WHERE i.tenant_id = $1 AND i.install_id = $2";
    Ok(on!(db, c => sqlx::query_scalar(SQL).bind(tenant.as_str()).bind(install_id).fetch_optional(c).await)?)
}

/// A binding of an install to a user, to store.
#[derive(Debug, Clone)]
pub(crate) struct NewBinding<'a> {
    pub(crate) tenant: &'a TenantId,
    /// The positions for the install and the user, if they are new.
    pub(crate) positions: [i64; 2],
    pub(crate) install_id: &'a str,
    pub(crate) user_id: &'a str,
    pub(crate) at: Timestamp,
}

/// The kind of a binding: `installs.bound_as`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
enum BoundAs {
    Identified = 0,
    Reinstalled = 1,
    NewDevice = 2,
}

#[derive(FromRow)]
struct LockedInstall {
    position: i64,
    touches: i64,
    first_link: Option<i64>,
    last_link: Option<i64>,
    device_model: Option<String>,
    /// The account's number in tables of counts.
    account: Option<i64>,
}

/// The outcome of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The install is bound to the user, and its touches are credited.
    Theirs {
        /// Whether some credits are left for later.
        is_left: bool,
    },
    /// It was bound to another user already.
    Another,
}

/// Binds an install to a user.
pub(crate) async fn bind(db: &mut Conn<'_>, publisher: &Publisher, new: &NewBinding<'_>) -> Result<Bound, DbError> {
    const LOCK: &str = "
        INSERT INTO installs (position, tenant_id, install_id, touches, created_at) VALUES ($1, $2, $3, 0, $4)
        ON CONFLICT (tenant_id, install_id) DO UPDATE SET touches = installs.touches
        RETURNING position, touches, first_link, last_link, device_model,
            (SELECT account FROM tenants WHERE id = $2) AS account";
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
    const CREDIT_ACCOUNT: &str = "
        INSERT INTO install_credits (link, at, bound_as, is_first, is_last, install) VALUES ($1, $3, $4, TRUE, TRUE, $2)";
    const SINCE: &str = "SELECT MIN(at) FROM touches WHERE install = $1";
    let at = new.at.as_millis();
    let install: LockedInstall = on!(db, c => sqlx::query_as(LOCK)
        .bind(new.positions[0]).bind(new.tenant.as_str()).bind(new.install_id).bind(at)
        .fetch_one(c).await)
    .map_err(DbError::drawn)?;
    if let Some(user) = user_of(db, new.tenant, new.install_id).await? {
        return Ok(if user == new.user_id { Bound::Theirs { is_left: false } } else { Bound::Another });
    }
    let user = conversions::lock_user(db, new.tenant, new.user_id, new.positions[1], new.at).await?;
    let bound_as = compare(db, user, install.device_model.as_deref()).await?;
    execute!(db, BIND; install.position, user, at, bound_as as i64)?;
    if install.touches > 0 {
        execute!(db, CREDIT;
            install.position, at, bound_as as i64, install.first_link, install.last_link, MAX_CREDITED_LINKS)?;
        if let Some(account) = install.account {
            execute!(db, CREDIT_ACCOUNT; account, install.position, at, bound_as as i64)?;
        }
    }
    let names = (new.install_id, new.user_id);
    events::publish_identify(db, publisher, new.tenant, names, install.first_link).await?;
    let since: Option<i64> = match bound_as {
        // All conversions of the user are waiting to become events.
        BoundAs::Identified => Some(i64::MIN),
        _ => on!(db, c => sqlx::query_scalar(SINCE).bind(install.position).fetch_one(c).await)?,
    };
    let is_left = match since {
        Some(since) => credits::credit_since(db, publisher, user, since).await?,
        None => false,
    };
    if install.touches > 0
        && let Some(account) = install.account
    {
        let mut changes = Changes::default();
        changes.binding(account, at, bound_as as i64);
        changes.store(db).await?;
    }
    Ok(Bound::Theirs { is_left })
}

/// The kind of a binding to this user of an install with this model, judged by the user's other installs. Only two
/// known models can make it a new device.
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
