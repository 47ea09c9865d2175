//! Custom domains: list, claim, delete. Claims are proved in `domain_verify`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use deeplink_core::audit::AuditAction;
use deeplink_core::domain::{
    CreateDomain, CreatedDomain, DomainChange, DomainDetail, DomainName, DomainRole, MAX_DOMAINS, UpdateDomain,
};
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::DomainId;
use deeplink_core::routes;
use deeplink_core::secret::Token;
use futures_util::FutureExt;
use http::StatusCode;

use super::domain_verify::Proving;
use crate::caller::Caller;
use crate::db::audit::NewEntry;
use crate::db::domains::{self, Domain};
use crate::db::pages::Span;
use crate::db::tenants::{self, Counted};
use crate::db::{Conn, notices, takedowns};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, IdempotencyKey, JsonBody, NotFound, PageQuery, Paged};
use crate::http::extract::{BODY_LIMIT, Path, Query, json_body, parse};
use crate::http::once::{Answer, Once, Outcome, Work, created};
use crate::http::pages::{ArrayPage, PageRequest};
use crate::state::{App, Shared};

/// Lists domains, newest first. Maximum 1,000 per account.
#[utoipa::path(
    get, path = "/v1/domains", operation_id = "list_domains", tag = "domains", security(("secret_key" = [])),
    params(PageQuery),
    responses(
        (status = 200, description = "One page", body = Vec<DomainDetail>, headers(("Link" = String, description = "`<URL>; rel=\"next\"` (RFC 8288): the absolute URL of the next page; absent on the last page"))),
        FullKey, Paged,
    )
)]
pub(crate) async fn list(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    query: Query,
) -> Result<ArrayPage<DomainDetail>, ApiError> {
    list_for(&app, &caller, PageRequest::read(&query)?).await
}

/// A page of the caller's domains, newest first.
pub(crate) async fn list_for(
    app: &App,
    caller: &Caller,
    request: PageRequest<'_>,
) -> Result<ArrayPage<DomainDetail>, ApiError> {
    let page = request.of(app, caller, routes::LIST_DOMAINS.path)?;
    let found = page.read(|mut db, tenant, span| async move { domains::list(&mut db, &tenant, &span).await }.boxed());
    let mut found = found.await?;
    let next_cursor = page.end(&mut found, |domain| domain.id.as_str())?;
    let target = app.config.cname_target_at(&app.public_url);
    let shown = found.into_iter().map(|domain| detail(domain, target.clone())).collect();
    Ok(page.array(shown, next_cursor))
}

/// The names of all of the caller's verified domains, newest first.
pub(crate) async fn verified_of(app: &App, caller: &Caller) -> Result<Vec<String>, ApiError> {
    Ok(verified(app, caller).await?.into_iter().map(|domain| domain.name.to_string()).collect())
}

/// The same of those that links can have in their URLs, oldest first.
pub(crate) async fn primaries_of(app: &App, caller: &Caller) -> Result<Vec<String>, ApiError> {
    let verified = verified(app, caller).await?.into_iter().rev();
    let primaries = verified.filter(|domain| domain.role == DomainRole::Primary);
    Ok(primaries.map(|domain| domain.name.to_string()).collect())
}

async fn verified(app: &App, caller: &Caller) -> Result<Vec<Domain>, ApiError> {
    let all = app.report(caller, |mut db, tenant| {
        async move { domains::list(&mut db, &tenant, &Span::newest(MAX_DOMAINS)).await }.boxed()
    });
    Ok(all.await?.into_iter().filter(|domain| domain.is_verified).collect())
}

fn detail(domain: Domain, target: String) -> DomainDetail {
    DomainDetail {
        txt_record: Some(domain.name.txt_record()),
        domain: domain.name.to_string(),
        role: domain.role,
        verified: domain.is_verified,
        created_at: domain.created_at,
        verification_token: Some(domain.token),
        cname_target: Some(target),
        root_url: domain.root_url,
        not_found_url: domain.not_found_url,
        long_links: domain.long_links,
        allowed_hosts: domain.allowed_hosts,
    }
}

/// One of an account's domains.
pub(crate) async fn find(app: &App, caller: &Caller, name: &str) -> Result<DomainDetail, ApiError> {
    let found = domains::find(&mut app.db.read().await?.conn(), &caller.tenant, &named(name)?).await?;
    let found = found.ok_or_else(ApiError::not_found)?;
    Ok(detail(found, app.config.cname_target_at(&app.public_url)))
}

/// Adds a domain.
///
/// The response contains the DNS records to create. An unverified domain does not prevent other accounts from
/// adding the same name, and is removed after 7 days. A service whose public URL is a loopback address also
/// accepts names under `.localhost`, and treats them as verified.
#[utoipa::path(
    post, path = "/v1/domains", operation_id = "create_domain", tag = "domains", security(("secret_key" = [])),
    params(IdempotencyKey), request_body = CreateDomain,
    responses(
        (status = 201, description = "Added", body = CreatedDomain, headers(("Location" = String), ("Idempotency-Replayed" = String))),
        FullKey, JsonBody,
        (status = 400, description = "Not a valid domain (`invalid_domain`), or no such role (`invalid_role`)", body = ErrorBody),
        (status = 402, description = "The plan's limit has been reached, or the account already has 1,000 domains, including unverified ones", body = ErrorBody),
        (status = 409, description = "Already added by this account or verified by another account (`domain_taken`), the account already has a verified alternate domain (`alternate_limit`), or the `Idempotency-Key` was already used for a different request", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    request: Request,
) -> Result<Answer<CreatedDomain>, ApiError> {
    let (once, asked) = Once::json::<CreateDomain>(request, &caller, BODY_LIMIT).await?;
    create_for(&app, &caller, once, asked).await
}

/// Claims a domain for the caller.
pub(crate) async fn create_for(
    app: &Shared,
    caller: &Caller,
    once: Once,
    domain: CreateDomain,
) -> Result<Answer<CreatedDomain>, ApiError> {
    let (name, role) = domain.check()?;
    if !app.is_loopback {
        name.check_public()?;
    }
    // Every name that a service on this machine can take is below the host `localhost`.
    if name.as_str() == app.service_host || app.service_host != "localhost" && name.is_within(&app.service_host) {
        let message = format!("{} is this service's own host", app.service_host);
        return Err(Invalid::field(ErrorCode::InvalidDomain, "domain", message).into());
    }
    let (proving, lifted) = Proving::new(app);
    let now = proving.now;
    let (id, token) = app.random(|random| (DomainId::new(now, random), Token::generate(random)));
    let tenant = caller.tenant.clone();
    let token = token.expose().to_owned();
    let domain = Domain {
        id,
        tenant,
        name,
        role,
        is_verified: false,
        token,
        created_at: now,
        root_url: None,
        not_found_url: None,
        long_links: false,
        allowed_hosts: Vec::new(),
    };
    let entry = app.audited(caller, AuditAction::DomainCreated).of(&domain.name, None);
    let answer = app.once(once, Create { app: Arc::clone(app), domain, proving, entry }).await?;
    lifted.wait().await;
    Ok(answer)
}

struct Create {
    app: Shared,
    domain: Domain,
    /// For a name that needs no proof.
    proving: Proving,
    entry: NewEntry,
}

impl Work for Create {
    type Made = CreatedDomain;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<CreatedDomain>, ApiError> {
        let (app, new) = (&self.app, &self.domain);
        domains::lock_name(tx, &new.name).await?;
        match tenants::count_domain(tx, &new.tenant, app.quotas_at(new.created_at)).await? {
            Counted::Within => {}
            Counted::Over { limit, current } => {
                return Err(ApiError::one_too_many("domains", limit, current, MAX_DOMAINS));
            }
        }
        if !domains::insert(tx, new).await? {
            let own = domains::is_claimed_by(tx, &new.tenant, &new.name).await?;
            return Err(if own { claimed(&new.name) } else { taken(&new.name) });
        }
        if new.role == DomainRole::Alternate && domains::has_alternate(tx, &new.tenant).await? {
            return Err(alternate_limit());
        }
        self.entry.store(tx).await?;
        let verified = app.needs_no_proof(&new.name);
        if verified {
            self.proving.run(tx, new).await?;
        }
        let made = CreatedDomain {
            domain: new.name.to_string(),
            role: new.role.clone(),
            verified,
            verification_token: new.token.clone(),
            txt_record: new.name.txt_record(),
            cname_target: app.config.cname_target_at(&app.public_url),
        };
        created(format!("/v1/domains/{}", new.name), made)
    }

    fn committed(&self, app: &Shared, _: &CreatedDomain) {
        self.proving.committed(app, &self.domain);
    }
}

/// The error for a name that the account has already claimed.
fn claimed(name: &DomainName) -> ApiError {
    let message = format!("this account already has {name}; the list of domains shows its DNS records");
    Invalid::field(ErrorCode::DomainTaken, "domain", message).into()
}

/// The error for a name that another account has verified.
pub(super) fn taken(name: &DomainName) -> ApiError {
    let message = format!("{name} is verified by another account");
    Invalid::field(ErrorCode::DomainTaken, "domain", message).into()
}

/// The error for a second alternate.
pub(super) fn alternate_limit() -> ApiError {
    let message = "this account already has a verified alternate domain, the maximum";
    Invalid::field(ErrorCode::AlternateLimit, "role", message).into()
}

/// Updates where a domain redirects visitors without a valid link, and whether it supports long links.
///
/// Absent fields keep their values, and `null` clears a field, so that visitors see a page. API clients, which do not
/// request HTML, always get 404. Takes effect once the domain is verified. A URL is not used if it is later added to
/// the threat list, or if one of the account's links to it is taken down.
///
/// With `long_links`, the domain supports long Firebase Dynamic Links: `/?link=…` with `apn`, `isi`, `afl`,
/// `ifl`, `st`, `sd`, `si` and `efr`. `link`, `afl` and `ifl` must be http or https URLs on one of the `allowed_hosts`;
/// otherwise, the response is the same as for a nonexistent link. The App Store and Google Play are used only if
/// `apps.apple.com` and `play.google.com`, respectively, are among them. Visits to long links are not counted.
#[utoipa::path(
    patch, path = "/v1/domains/{domain}", operation_id = "update_domain", tag = "domains", security(("secret_key" = [])),
    params(("domain" = String, Path, description = "The domain name, case-insensitive; a trailing dot is ignored, and a Unicode name is equivalent to its A-label form", example = "go.example.com")),
    request_body = UpdateDomain,
    responses(
        (status = 200, description = "The changed domain", body = DomainDetail),
        FullKey, JsonBody, NotFound,
        (status = 400, description = "A URL or host is invalid (`invalid_url`, `invalid_domain`) or blocked (`threat_detected`), or no field is specified (`empty_update`)", body = ErrorBody),
    )
)]
pub(crate) async fn update(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<DomainDetail>, ApiError> {
    if caller.is_known() {
        find(&app, &caller, &name).await?;
    }
    let body = json_body(request, BODY_LIMIT).await?;
    update_for(&app, caller, &name, parse::<UpdateDomain>(&body)?).await.map(Json)
}

/// Updates one of the caller's domains.
pub(crate) async fn update_for(
    app: &Shared,
    caller: Arc<Caller>,
    name: &str,
    asked: UpdateDomain,
) -> Result<DomainDetail, ApiError> {
    let (change, name) = (asked.check()?, named(name)?);
    change.check_on(&name)?;
    app.threats.check(change.urls())?;
    let target = app.config.cname_target_at(&app.public_url);
    let entry = app.audited(&caller, AuditAction::DomainUpdated).of(&name, None);
    let update = Update { caller, name, change, target, entry };
    let changed = app.write_for(
        Arc::clone(&update.caller),
        update,
        |tx, update| update.run(tx).boxed(),
        |app, update, _| app.forget_host(&update.name, &update.caller.tenant),
    );
    changed.await
}

struct Update {
    caller: Arc<Caller>,
    name: DomainName,
    change: DomainChange,
    /// Target of its CNAME record.
    target: String,
    entry: NewEntry,
}

impl Update {
    async fn run(&self, tx: &mut Conn<'_>) -> Result<DomainDetail, ApiError> {
        let tenant = &self.caller.tenant;
        // Lock the tenant's row, so that no link is taken down between the check and the change.
        tenants::lock(tx, tenant).await?;
        let blocked = takedowns::blocked(tx, tenant, self.change.urls().map(|(_, url)| url)).await?;
        blocked.check(self.change.urls())?;
        let changed = domains::update(tx, tenant, &self.name, &self.change).await?.ok_or_else(ApiError::not_found)?;
        self.entry.store(tx).await?;
        notices::host_changed(tx, &self.name, tenant).await?;
        Ok(detail(changed, self.target.clone()))
    }
}

/// Deletes a domain. URLs on it stop working, and other accounts can add the domain.
#[utoipa::path(
    delete, path = "/v1/domains/{domain}", operation_id = "delete_domain", tag = "domains", security(("secret_key" = [])),
    params(("domain" = String, Path, description = "The domain name, case-insensitive; a trailing dot is ignored, and a Unicode name is equivalent to its A-label form", example = "go.example.com")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, &name).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes one of the caller's domains.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, name: &str) -> Result<(), ApiError> {
    let name = named(name)?;
    let entry = app.audited(&caller, AuditAction::DomainDeleted).of(&name, None);
    let deleted = app.write_for(
        Arc::clone(&caller),
        (caller, name, entry),
        |tx, (caller, name, entry)| {
            async move {
                tenants::uncount_domains(tx, &caller.tenant, 1).await?;
                if !domains::delete(tx, &caller.tenant, name).await? {
                    return Err(ApiError::not_found());
                }
                entry.store(tx).await?;
                Ok(notices::host_changed(tx, name, &caller.tenant).await?)
            }
            .boxed()
        },
        |app, (caller, name, _), ()| app.forget_host(name, &caller.tenant),
    );
    deleted.await
}

/// The domain in a path; a malformed name is "not found".
pub(crate) fn named(path: &str) -> Result<DomainName, ApiError> {
    path.parse().map_err(|_| ApiError::not_found())
}
