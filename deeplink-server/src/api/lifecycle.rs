//! From click to conversion: reports by apps, pages and servers. Each report is one transaction, and is acknowledged
//! once it is on disk; credit is assigned in `db/installs` and `db/conversions`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::{Request, State};
use deeplink_core::error::{ErrorBody, ErrorCode};
use deeplink_core::id::{EventId, TenantId};
use deeplink_core::lifecycle::{
    Attribute, Convert, Converted, Done, Identify, InstallContext, NewConversion, TrackClick, TrackedClick,
};
use deeplink_core::link::name_in_path;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use serde_json::value::RawValue;

use crate::cache::CachedLink;
use crate::caller::{Actor, Caller};
use crate::clicks::Click;
use crate::db::conversions::{self, ConversionRow, Reporter};
use crate::db::events::Publisher;
use crate::db::installs::{self, Bound, NewBinding, NewTouch};
use crate::db::tenants::{self, Counted};
use crate::db::{Conn, DbError};
use crate::error::ApiError;
use crate::http::client_ip::Peer;
use crate::http::documented::{IdempotencyKey, JsonBody, KeyedBody, NotFound, PublishableKeyQuery, Reporting};
use crate::http::extract::{BODY_LIMIT, json_body, parse};
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::http::sdk_key::SdkCaller;
use crate::state::{App, Shared};
use crate::visit::{self, report};

/// Records a click.
///
/// For apps and web pages that open links themselves. The click counts as a click by a person. The response is
/// the link resolved as JSON, plus the platform. A 2xx response means the click has been stored.
#[utoipa::path(
    post, path = "/v1/lifecycle/click", operation_id = "track_click", tag = "lifecycle",
    security(("publishable_key" = []), ("secret_key" = [])),
    params(PublishableKeyQuery, IdempotencyKey), request_body = TrackClick,
    responses(
        (status = 200, description = "Recorded", body = TrackedClick, headers(("Idempotency-Replayed" = String))),
        Reporting, KeyedBody,
        (status = 404, description = "No such link, or the link is not active", body = ErrorBody),
    )
)]
pub(crate) async fn click(
    State(app): State<Shared>,
    SdkCaller(caller): SdkCaller,
    request: Request,
) -> Result<Answer<Box<RawValue>>, ApiError> {
    click_for(&app, &caller, request).await
}

/// Records a click for the caller.
pub(super) async fn click_for(
    app: &Shared,
    caller: &Caller,
    request: Request,
) -> Result<Answer<Box<RawValue>>, ApiError> {
    let (headers, path) = (request.headers().clone(), request.uri().path().to_owned());
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, caller, &path, &body)?;
    let asked = parse::<TrackClick>(&body)?;
    asked.validate()?;
    let link = link_of(app, &caller.tenant, &asked.link_id).await?;
    let clicked = link.and_then(|link| report::clicked(app, peer, &headers, &link));
    let clicked = clicked.map(|(click, reply)| Ok((click, RawValue::from_string(reply)?))).transpose();
    let clicked = clicked.map_err(|error: serde_json::Error| ApiError::Internal(error.to_string()))?;
    if !once.is_keyed() {
        let (click, reply) = clicked.ok_or_else(no_link)?;
        app.clicks.record(&click);
        return Answer::done(reply);
    }
    app.once(once, Reported { app: Arc::clone(app), clicked }).await
}

/// A click whose reply is stored for its idempotency key: both are stored, or neither.
struct Reported {
    app: Shared,
    /// The click and its reply; `None` if there is no such link, or no longer.
    clicked: Option<(Click, Box<RawValue>)>,
}

impl Work for Reported {
    type Made = Box<RawValue>;

    async fn run(&self, _tx: &mut Conn<'_>) -> Result<Outcome<Self::Made>, ApiError> {
        let (_, reply) = self.clicked.as_ref().ok_or_else(no_link)?;
        done(reply.clone())
    }

    async fn finish(&self, tx: &mut Conn<'_>) -> Result<(), ApiError> {
        if let Some((click, _)) = &self.clicked {
            self.app.clicks.store(tx, click).await?;
        }
        Ok(())
    }

    fn committed(&self, app: &Shared, _: &Self::Made) {
        app.clicks.note_stored();
    }
}

/// There is no such link, or no longer, or it belongs to another account.
fn no_link() -> ApiError {
    ApiError::no_such("no link with this ID")
}

/// A tenant's link with this ID or alias, or the path of its address, whatever its status.
async fn link_of(app: &App, tenant: &TenantId, id: &str) -> Result<Option<Arc<CachedLink>>, ApiError> {
    let found = match name_in_path(id) {
        Some(name) => visit::known(app, Some(tenant), &name, None).await?,
        None => None,
    };
    Ok(found.filter(|link| !link.is_deleted()))
}

/// Records that an app was opened from a link.
///
/// The first request for an install creates the install, and every later one counts as another open. A link that is no
/// longer active counts too, because it was tapped earlier.
#[utoipa::path(
    post, path = "/v1/lifecycle/attribute", operation_id = "attribute", tag = "lifecycle",
    security(("publishable_key" = []), ("secret_key" = [])),
    params(PublishableKeyQuery, IdempotencyKey), request_body = Attribute,
    responses(
        (status = 200, description = "Recorded", body = Done, headers(("Idempotency-Replayed" = String))),
        Reporting, KeyedBody, NotFound,
    )
)]
pub(crate) async fn attribute(
    State(app): State<Shared>,
    SdkCaller(caller): SdkCaller,
    request: Request,
) -> Result<Answer<Done>, ApiError> {
    attribute_for(&app, caller, request).await
}

/// Records a touch for the caller.
pub(super) async fn attribute_for(
    app: &Shared,
    caller: Arc<Caller>,
    request: Request,
) -> Result<Answer<Done>, ApiError> {
    let (once, asked) = Once::json::<Attribute>(request, &caller, BODY_LIMIT).await?;
    let asked = asked.check()?;
    let link = link_of(app, &caller.tenant, &asked.link_id).await?;
    if link.is_none() && !once.is_keyed() {
        return Err(no_link());
    }
    let context = asked.context.as_ref().filter(|context| **context != InstallContext::new());
    let context = context.map(serde_json::to_string).transpose().map_err(|e| ApiError::Internal(e.to_string()))?;
    let now = app.clock.now();
    let (publisher, is_left) = (app.publisher(now), AtomicBool::new(false));
    app.once(once, Touch { app: Arc::clone(app), caller, asked, link, context, publisher, is_left }).await
}

struct Touch {
    app: Shared,
    caller: Arc<Caller>,
    asked: Attribute,
    /// `None` if there is no such link, or no longer.
    link: Option<Arc<CachedLink>>,
    context: Option<String>,
    publisher: Publisher,
    /// Whether part of the credit is left for later.
    is_left: AtomicBool,
}

impl Work for Touch {
    type Made = Done;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<Done>, ApiError> {
        let link = self.link.as_ref().ok_or_else(no_link)?;
        let now = self.publisher.now();
        let [position] = drawn(&self.app, now);
        let touch = NewTouch {
            tenant: &self.caller.tenant,
            position,
            install_id: &self.asked.install_id,
            link: link.position,
            // Its own ID: the app may have been opened by an alias.
            link_id: link.link_id(),
            app_version: &self.asked.app_version,
            device_model: self.asked.context.as_ref().and_then(|context| context.device_model.as_deref()),
            context: self.context.as_deref(),
            at: now,
        };
        let is_left = installs::touch(tx, &self.publisher, &touch).await?;
        self.is_left.store(is_left, Ordering::Relaxed);
        done(Done::new())
    }

    fn committed(&self, app: &Shared, _: &Done) {
        app.announce(&self.publisher, &self.caller.tenant);
        if self.is_left.load(Ordering::Relaxed) {
            app.credit_waits.notify_one();
        }
    }
}

/// Positions of new rows. Drawn within the write; a retry draws new ones.
fn drawn<const N: usize>(app: &App, now: Timestamp) -> [i64; N] {
    let mut positions = app.positions.draw(now, N);
    std::array::from_fn(|_| positions.next().unwrap_or_default())
}

/// Binds an install to a user.
///
/// An install is bound to a user permanently. The user's earlier conversions are credited to the links that
/// the install was opened from: the 500 oldest immediately, the others moments later. Only the user's 100 most recently
/// bound installs are considered. Binding an install to the same user again has no effect.
#[utoipa::path(
    put, path = "/v1/lifecycle/identify", operation_id = "identify", tag = "lifecycle",
    security(("publishable_key" = []), ("secret_key" = [])),
    params(PublishableKeyQuery), request_body = Identify,
    responses(
        (status = 200, description = "Bound", body = Done),
        Reporting, JsonBody,
        (status = 409, description = "The install belongs to another user (`identify_conflict`)", body = ErrorBody),
    )
)]
pub(crate) async fn identify(
    State(app): State<Shared>,
    SdkCaller(caller): SdkCaller,
    request: Request,
) -> Result<Answer<Done>, ApiError> {
    identify_for(&app, caller, request).await
}

/// Binds an install for the caller.
pub(super) async fn identify_for(
    app: &Shared,
    caller: Arc<Caller>,
    request: Request,
) -> Result<Answer<Done>, ApiError> {
    let body = json_body(request, BODY_LIMIT).await?;
    let asked = parse::<Identify>(&body)?;
    asked.validate()?;
    // Apps report it at every start, and a binding never changes: usually there is nothing to write.
    let user = installs::user_of(&mut app.db.read().await?.conn(), &caller.tenant, &asked.install_id).await?;
    let is_bound = match user {
        Some(user) => user == asked.user_id,
        None => {
            let publisher = app.publisher(app.clock.now());
            let bound = app.write(
                caller.turn(),
                Binding { app: Arc::clone(app), caller, asked, publisher },
                |tx, binding| binding.run(tx).boxed(),
                |app, binding, bound| {
                    app.announce(&binding.publisher, &binding.caller.tenant);
                    if *bound == (Bound::Theirs { is_left: true }) {
                        app.credit_waits.notify_one();
                    }
                },
            );
            bound.await? != Bound::Another
        }
    };
    if is_bound {
        Answer::done(Done::new())
    } else {
        Err(ApiError::Plain(ErrorCode::IdentifyConflict, "this install belongs to another user"))
    }
}

/// A binding of an install to a user.
struct Binding {
    app: Shared,
    caller: Arc<Caller>,
    asked: Identify,
    publisher: Publisher,
}

impl Binding {
    async fn run(&self, tx: &mut Conn<'_>) -> Result<Bound, DbError> {
        let now = self.publisher.now();
        let binding = NewBinding {
            tenant: &self.caller.tenant,
            positions: drawn(&self.app, now),
            install_id: &self.asked.install_id,
            user_id: &self.asked.user_id,
            at: now,
        };
        installs::bind(tx, &self.publisher, &binding).await
    }
}

/// Records a conversion.
///
/// The conversion is credited to the links that touched the user's installs before it; if the user has no install yet,
/// it is credited once they have one. At most 100 links are credited: the first, the last, and the most recent touches.
/// The same `idempotency_key` within 30 days means the same conversion. Idempotency keys sent with publishable keys are
/// separate, so a request from a page never blocks one with a secret key or from a source.
#[utoipa::path(
    post, path = "/v1/lifecycle/convert", operation_id = "convert", tag = "lifecycle",
    security(("publishable_key" = []), ("secret_key" = [])),
    params(PublishableKeyQuery, IdempotencyKey), request_body = Convert,
    responses(
        (status = 200, description = "The result", body = Converted, headers(("Idempotency-Replayed" = String))),
        Reporting, KeyedBody,
        (status = 400, description = "The conversion is malformed or invalid (`parse_error`)", body = ErrorBody),
    )
)]
pub(crate) async fn convert(
    State(app): State<Shared>,
    SdkCaller(caller): SdkCaller,
    request: Request,
) -> Result<Answer<Converted>, ApiError> {
    let headers = request.headers().clone();
    let body = json_body(request, BODY_LIMIT).await?;
    let once = Once::read(&headers, &caller, "/v1/lifecycle/convert", &body)?;
    let new = read_conversion(&body)?;
    let reporter = if matches!(caller.by, Actor::Page(_)) { Reporter::Page } else { Reporter::Server };
    store(&app, &caller.tenant, reporter, once, new).await
}

/// Parses a conversion. Any fault is a `parse_error`.
pub(crate) fn read_conversion(body: &[u8]) -> Result<NewConversion, ApiError> {
    let asked = parse::<Convert>(body).map_err(|error| match error {
        ApiError::Invalid(mut invalid) => {
            invalid.code = ErrorCode::ParseError;
            ApiError::Invalid(invalid)
        }
        other => other,
    })?;
    Ok(asked.check()?)
}

/// Stores a conversion that was reported without an `Idempotency-Key`.
pub(crate) async fn store_conversion(
    app: &Shared,
    tenant: &TenantId,
    reporter: Reporter,
    new: NewConversion,
) -> Result<Converted, ApiError> {
    store(app, tenant, reporter, Once::none(tenant), new).await?.into_made()
}

async fn store(
    app: &Shared,
    tenant: &TenantId,
    reporter: Reporter,
    once: Once,
    new: NewConversion,
) -> Result<Answer<Converted>, ApiError> {
    let now = app.clock.now();
    if !once.is_keyed() && new.idempotency_key.is_none() {
        new.moment(now)?;
    }
    let id = app.random(|random| EventId::new(now, random));
    let publisher = app.publisher(now);
    let work = Conversion { app: Arc::clone(app), tenant: tenant.clone(), reporter, id, new, publisher };
    match app.once(once, work).await {
        // Nothing is stored, so it can be sent again when there is room.
        Err(ApiError::Quota { .. }) => Answer::done(Converted::failed()),
        stored => stored,
    }
}

struct Conversion {
    app: Shared,
    tenant: TenantId,
    reporter: Reporter,
    id: EventId,
    new: NewConversion,
    publisher: Publisher,
}

impl Work for Conversion {
    type Made = Converted;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<Converted>, ApiError> {
        done(self.store(tx).await?)
    }

    fn committed(&self, app: &Shared, _: &Converted) {
        app.announce(&self.publisher, &self.tenant);
    }
}

impl Conversion {
    async fn store(&self, tx: &mut Conn<'_>) -> Result<Converted, ApiError> {
        let Self { tenant, reporter, id, new, .. } = self;
        let now = self.publisher.now();
        if let Some(key) = &new.idempotency_key
            && let Some(first) = conversions::claim_key(tx, tenant, reporter, key, id, now).await?
        {
            return Ok(Converted::deduped(first));
        }
        // Checked only now: a repeat is older than when it was first accepted.
        let at = new.moment(now)?;
        let [user, position] = drawn(&self.app, now);
        let user = conversions::lock_user(tx, tenant, &new.user_id, user, now).await?;
        let row = ConversionRow { id, tenant, user, position, reporter, new, at };
        let is_known = conversions::insert(tx, &self.publisher, &row).await?;
        // Last, because all of the account's conversions lock this row.
        if self.app.config.enforce_quotas
            && let Counted::Over { limit, current } = tenants::count_events(tx, tenant, now, 1).await?
        {
            return Err(ApiError::Quota { resource: "events", limit, current });
        }
        Ok(if is_known { Converted::accepted(id.clone()) } else { Converted::unattributed(id.clone()) })
    }
}
