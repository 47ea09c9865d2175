//! Logos for QR codes: upload, list, return, delete, and check that a look's logo is there.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use deeplink_core::audit::AuditAction;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::qr::{QrOptions, uploaded};
use deeplink_core::qr_logo::{MAX_LOGO_BYTES, MAX_LOGOS, QrLogo, QrLogoList, check_logo_name};
use deeplink_core::secret::sha256_hex_of;
use futures_util::FutureExt;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};

use super::qr::{Pixels, VARY};
use crate::caller::Caller;
use crate::db::qr_logos::{self, NewLogo};
use crate::db::{Conn, DbError, tenants};
use crate::error::ApiError;
use crate::http::NO_STORE;
use crate::http::auth::FullScope;
use crate::http::documented::{Deleted, FullKey, NotFound};
use crate::http::etag;
use crate::http::extract::{Path, body_within};
use crate::state::{App, Shared};

/// Another logo may be uploaded under the same name at any time.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");

/// Lists the uploaded logos, in alphabetical order. Maximum 20 per account.
#[utoipa::path(
    get, path = "/v1/qr-logos", operation_id = "list_qr_logos", tag = "qr-logos", security(("secret_key" = [])),
    responses((status = 200, description = "All logos", body = QrLogoList), FullKey)
)]
pub(crate) async fn list(State(app): State<Shared>, FullScope { caller, .. }: FullScope) -> Result<Response, ApiError> {
    Ok(([NO_STORE], Json(QrLogoList::new(list_for(&app, &caller).await?))).into_response())
}

/// The logos of an account.
pub(crate) async fn list_for(app: &App, caller: &Caller) -> Result<Vec<QrLogo>, ApiError> {
    app.report(caller, |mut db, tenant| async move { qr_logos::list(&mut db, &tenant).await }.boxed()).await
}

/// The names of an account's logos.
pub(crate) async fn names_for(app: &App, caller: &Caller) -> Result<Vec<String>, ApiError> {
    app.report(caller, |mut db, tenant| async move { qr_logos::names(&mut db, &tenant).await }.boxed()).await
}

/// Uploads a logo for QR codes. A logo with the same name is replaced.
///
/// The body is a PNG, JPEG or WebP file, subject to the same limits as the `logo` option of QR codes; `Content-Type` is
/// ignored. The image is stored as a PNG, without metadata; one with more than 262,144 pixels, or more than 2,048 on a side,
/// is scaled down. QR codes use it with `logo=name:` followed by its name. If a logo is replaced, codes generated afterward
/// show the new image; downloaded codes do not change.
#[utoipa::path(
    put, path = "/v1/qr-logos/{name}", operation_id = "put_qr_logo", tag = "qr-logos", security(("secret_key" = [])),
    params(("name" = String, Path, description = "The logo's name: 1 to 40 lowercase letters, digits and hyphens", example = "acme", min_length = 1, max_length = 40, pattern = "^[a-z0-9-]{1,40}$")),
    request_body(content((inline(Pixels) = "image/png"), (inline(Pixels) = "image/jpeg"), (inline(Pixels) = "image/webp"))),
    responses(
        (status = 200, description = "Uploaded or replaced", body = QrLogo),
        FullKey,
        (status = 400, description = "The name is invalid (`invalid_name`), or the body is not a PNG, JPEG or WebP image, or has too many pixels (`invalid_logo`)", body = ErrorBody),
        (status = 402, description = "The account already has 20 logos", body = ErrorBody),
        (status = 413, description = "The body is larger than 512 KiB", body = ErrorBody),
        (status = 415, description = "The body has a `Content-Encoding`", body = ErrorBody),
        (status = 503, description = "Too many logos are being decoded, or the database cannot be written; retry after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn put(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    check_logo_name(&name)?;
    let file = body_within(request, MAX_LOGO_BYTES).await?;
    Ok(([NO_STORE], Json(put_for(&app, caller, name, file).await?)).into_response())
}

/// Stores a logo for the caller.
pub(crate) async fn put_for(app: &Shared, caller: Arc<Caller>, name: String, file: Bytes) -> Result<QrLogo, ApiError> {
    // Before the image is decoded, which takes longer. Whether there is still room is checked again when it is stored.
    check_room(&qr_logos::names(&mut app.db.read().await?.conn(), &caller.tenant).await?, &name)?;
    let logo = app.logos.decode(&caller.tenant, caller.turn(), file).await?;
    let (width, height) = (logo.width(), logo.height());
    let image = app.codes.run(caller.turn(), move || logo.to_png()).await?;
    let logo = NewLogo { name, digest: sha256_hex_of(&image), image, width, height };
    let entry = app.audited(&caller, AuditAction::QrLogoSaved);
    let now = app.clock.now();
    let stored = app.write_for(
        Arc::clone(&caller),
        (caller, logo, entry),
        move |tx, (caller, logo, entry)| {
            async move {
                // So that the limit is exact.
                tenants::lock(tx, &caller.tenant).await?;
                check_room(&qr_logos::names(tx, &caller.tenant).await?, &logo.name)?;
                let stored = qr_logos::put(tx, &caller.tenant, logo, now).await?;
                entry.of(&logo.name, None).store(tx).await?;
                Ok::<_, ApiError>(stored)
            }
            .boxed()
        },
        |_, _, _| {},
    );
    stored.await
}

/// Refuses another logo when the account has as many as it may; one with a name that it has is replaced.
fn check_room(names: &[String], name: &str) -> Result<(), ApiError> {
    let current = i64::try_from(names.len()).unwrap_or(i64::MAX);
    if current >= MAX_LOGOS && !names.iter().any(|known| known == name) {
        return Err(ApiError::Full { resource: "logos", limit: MAX_LOGOS, current });
    }
    Ok(())
}

/// Returns an uploaded logo as a PNG.
#[utoipa::path(
    get, path = "/v1/qr-logos/{name}", operation_id = "get_qr_logo", tag = "qr-logos", security(("secret_key" = [])),
    params(
        ("name" = String, Path, description = "The logo's name", example = "acme"),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of a cached image; if it matches, the response is 304 without the image"),
    ),
    responses(
        (status = 200, description = "The image", content((inline(Pixels) = "image/png")),
            headers(("ETag" = String), ("Cache-Control" = String), ("Content-Disposition" = String))),
        (status = 304, description = "`If-None-Match` matches the image's current `ETag`"),
        FullKey, NotFound,
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    image_for(&app, &caller, &name, &headers).await
}

/// The image of one of the caller's logos.
pub(crate) async fn image_for(
    app: &App,
    caller: &Caller,
    name: &str,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    check_logo_name(name).map_err(|_| ApiError::not_found())?;
    let mut reader = app.db.read().await?;
    let tag_of = |digest: &str| format!("\"{}\"", digest.get(..32).unwrap_or(digest));
    let digest = qr_logos::digest(&mut reader.conn(), &caller.tenant, name).await?.ok_or_else(ApiError::not_found)?;
    let known = Some(tag_of(&digest)).filter(|tag| etag::matches(headers, tag));
    let is_known = known.is_some();
    let (tag, image) = match known {
        Some(tag) => (tag, Vec::new()),
        None => {
            let found = qr_logos::image(&mut reader.conn(), &caller.tenant, name).await?;
            let (digest, image) = found.ok_or_else(ApiError::not_found)?;
            (tag_of(&digest), image)
        }
    };
    let value =
        |text: &str| HeaderValue::from_str(text).map_err(|_| ApiError::Internal("a header value of a logo".to_owned()));
    let mut response = Response::new(Body::from(image));
    let sent = response.headers_mut();
    sent.insert(header::CACHE_CONTROL, CACHE_CONTROL);
    sent.insert(header::VARY, VARY);
    sent.insert(header::ETAG, value(&tag)?);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        sent.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
        sent.insert(header::CONTENT_DISPOSITION, value(&format!("inline; filename=\"{name}.png\""))?);
    }
    Ok(response)
}

/// Deletes an uploaded logo. QR codes of links whose `qr` refers to it have no logo until one is uploaded with the same
/// name.
#[utoipa::path(
    delete, path = "/v1/qr-logos/{name}", operation_id = "delete_qr_logo", tag = "qr-logos", security(("secret_key" = [])),
    params(("name" = String, Path, description = "The logo's name", example = "acme")),
    responses(Deleted)
)]
pub(crate) async fn delete(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    delete_for(&app, caller, name).await.map(|()| StatusCode::NO_CONTENT)
}

/// Deletes one of the caller's logos.
pub(crate) async fn delete_for(app: &Shared, caller: Arc<Caller>, name: String) -> Result<(), ApiError> {
    check_logo_name(&name).map_err(|_| ApiError::not_found())?;
    let entry = app.audited(&caller, AuditAction::QrLogoDeleted);
    let deleted = app.write_for(
        Arc::clone(&caller),
        (caller, name, entry),
        |tx, (caller, name, entry)| {
            async move {
                if !qr_logos::delete(tx, &caller.tenant, name).await? {
                    return Err(ApiError::not_found());
                }
                Ok(entry.of(name, None).store(tx).await?)
            }
            .boxed()
        },
        |_, _, ()| {},
    );
    deleted.await
}

/// What is needed to check the logos of links' looks.
pub(super) struct Looks<'a> {
    app: &'a App,
    /// The names of the account's logos, if a look has one of them.
    names: HashSet<String>,
}

impl<'a> Looks<'a> {
    /// Reads the names of an account's logos, if any of these looks needs one.
    pub(super) async fn of(
        app: &'a App,
        tx: &mut Conn<'_>,
        tenant: &TenantId,
        looks: impl IntoIterator<Item = &QrOptions>,
    ) -> Result<Self, DbError> {
        let is_named = |look: &QrOptions| look.logo.as_deref().and_then(uploaded).is_some();
        let needs_names = looks.into_iter().any(is_named);
        let names = if needs_names { qr_logos::names(tx, tenant).await? } else { Vec::new() };
        Ok(Self { app, names: names.into_iter().collect() })
    }

    /// Refuses a look whose logo cannot be drawn: on a host that the service may not reach, or not uploaded.
    pub(super) fn check(&self, look: Option<&QrOptions>) -> Result<(), Invalid> {
        let Some(look) = look else { return Ok(()) };
        look.check_reach(|address| self.app.config.outbound_allow.contains(address))?;
        match look.logo.as_deref().and_then(uploaded) {
            Some(name) if !self.names.contains(name) => {
                let message = format!("qr.logo: this account has no uploaded logo named {name}");
                Err(Invalid::field(ErrorCode::InvalidQrOptions, "qr.logo", message))
            }
            _ => Ok(()),
        }
    }
}
