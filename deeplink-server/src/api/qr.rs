//! Links as QR codes.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use deeplink_core::error::{ErrorBody, ErrorCode, Invalid};
use deeplink_core::id::TenantId;
use deeplink_core::qr::{
    CornerDotType, CornerSquareType, DotType, QrFormat, QrLevel, QrOptions, QrShape, QrStyle, uploaded, within_link,
};
use http::header::{self, HeaderMap, HeaderValue};
use http::{StatusCode, Uri};
use sha2::{Digest, Sha256};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

use crate::caller::Caller;
use crate::db::{domains, qr_logos};
use crate::error::{ApiError, Stop};
use crate::http::auth::LinkWriter;
use crate::http::documented::{AnyKey, NotFound};
use crate::http::etag;
use crate::http::extract::Path;
use crate::qr::{Layout, Logo, RENDERER_VERSION, draw};
use crate::state::{App, Shared};

/// A link's address may change when a domain is verified, and the link may be deleted.
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, max-age=300");
pub(super) const VARY: HeaderValue = HeaderValue::from_static("Authorization");

/// The message of an uploaded logo that was replaced or deleted between the reads of its digest and its image.
const REPLACED: &str = "the logo was replaced while the code was being generated; try again";

/// Returns a QR code for a link.
///
/// The code contains only the link's `url`, whatever the link's status; requesting it does not count as a
/// click. For print, use level `M` or higher, a margin of at least 2, dark colors on a light background with a
/// contrast of at least 3, and at least 3 pixels per module. In tests, common scanners read codes with
/// `cornerSquareType=square`; scanners that look for straight edges in the corner squares, such as OpenCV and quirc, cannot read rounded
/// ones.
///
/// If no options are given, the design in the link's `qr` is used, or the default design if there is none. `size` alone
/// changes only the size. With any other option, the saved design is ignored, and omitted options have their defaults. If
/// the design refers to an uploaded logo that was deleted, the code has no logo; if it has the URL of a logo that cannot be
/// fetched, the response is 400 with the field `qr.logo`.
///
/// Enumerated values are case-insensitive. Known parameters that are repeated or empty are rejected; unknown
/// parameters are ignored.
#[utoipa::path(
    get, path = "/v1/links/{link_id}/qr.{format}", operation_id = "link_qr", tag = "links", security(("secret_key" = [])),
    params(
        ("link_id" = String, Path, description = "The link's ID", example = "spring-42"),
        ("format" = QrFormat, Path, description = "File format", example = "svg"),
        ("size" = Option<u32>, Query, description = "Width and height in pixels, including the margin; 600 by default. In a PNG, each module is a whole number of pixels wide, at least 2 (66 in total for a typical link), and the remainder widens the margin. An SVG can be any size. PDF and EPS files use 300 pixels per inch, so 600 pixels are 50.8 mm; the minimum for a PDF is 13 pixels", minimum = 1, maximum = 2048),
        ("level" = Option<QrLevel>, Query, description = "Error correction level; `L` by default, or `H` with a logo"),
        ("margin" = Option<u32>, Query, description = "Margin in modules; 2 by default", minimum = 0, maximum = 16),
        ("includeMargin" = Option<bool>, Query, deprecated, description = "`false` means `margin=0` if `margin` is absent"),
        ("dotType" = Option<DotType>, Query, description = "Style of the modules; `rounded` by default"),
        ("cornerSquareType" = Option<CornerSquareType>, Query, description = "Shape of the corner squares; `extra-rounded` by default"),
        ("cornerDotType" = Option<CornerDotType>, Query, description = "Shape of the corner dots; `dot` by default"),
        ("shape" = Option<QrShape>, Query, description = "Overall shape: `circle` fills a disc around the code with decorative dots; `square` by default"),
        ("fgColor" = Option<String>, Query, description = "Color of all parts for which no separate color is set; black by default", pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"),
        ("bgColor" = Option<String>, Query, description = "Background color; white by default. Each part must have a contrast (WCAG 2.2) of at least 2.0 with it and differ from it by at least 32 of 255 in brightness (BT.601); all parts must be darker than the background, or all lighter", pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"),
        ("dotColor" = Option<String>, Query, description = "Color of the dots; `fgColor` by default", pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"),
        ("cornerSquareColor" = Option<String>, Query, description = "Color of the corner squares; `fgColor` by default", pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"),
        ("cornerDotColor" = Option<String>, Query, description = "Color of the corner dots; `fgColor` by default", pattern = "^#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$"),
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of a cached image; if it matches, the response is 304 without the image"),
        ("hideLogo" = Option<bool>, Query, description = "Omits the logo and ignores `logo`"),
        ("logo" = Option<String>, Query, description = "An uploaded logo to show in the middle, as `name:` followed by its name, or the public URL of a PNG, JPEG or WebP image: at most 512 KiB, 4,096 px per side and 16 megapixels; less if decoding needs more memory, as for a progressive JPEG (2 megapixels, 4 with chroma subsampling), a WebP (7) or an interlaced PNG (12). A WebP must be lossy and without compressed transparency. Redirects are not followed", max_length = 2048),
    ),
    responses(
        (status = 200, description = "The image", content((inline(Pixels) = "image/png"), (String = "image/svg+xml"), (inline(Pixels) = "application/pdf"), (String = "application/postscript")),
            headers(("ETag" = String), ("Cache-Control" = String), ("Content-Disposition" = String))),
        (status = 304, description = "`If-None-Match` matches the image's current `ETag`"),
        AnyKey, NotFound,
        (status = 400, description = "The format is not `png`, `svg`, `pdf` or `eps` (`invalid_qr_format`), or the option in `field` is malformed, out of range or not usable with the other options (`invalid_qr_options`)", body = ErrorBody),
        (status = 503, description = "Too many codes are being generated or logos fetched, or the database cannot be read; retry after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn get(
    State(app): State<Shared>,
    LinkWriter(caller): LinkWriter,
    Path((link_id, format)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let file = (Subject::Link(&link_id), &*format);
    draw_for(&app, &caller, file, (uri.query().unwrap_or_default(), |look| look), &headers).await
}

/// The link that a code leads to.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// One of the caller's links.
    Link(&'a str),
    /// A link that does not exist yet and would have this ID.
    Draft(&'a str),
}

impl<'a> Subject<'a> {
    fn id(self) -> &'a str {
        let (Self::Link(id) | Self::Draft(id)) = self;
        id
    }
}

/// Draws a link of the caller, with the options in the query, else with the link's own look and what `complete` adds to it.
pub(crate) async fn draw_for(
    app: &Shared,
    caller: &Caller,
    file: (Subject<'_>, &str),
    options: (&str, fn(QrOptions) -> QrOptions),
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    match try_draw(app, caller, file, options, headers).await {
        // Now with the new logo, or without one.
        Err(ApiError::Plain(_, REPLACED)) => try_draw(app, caller, file, options, headers).await,
        other => other,
    }
}

async fn try_draw(
    app: &Shared,
    caller: &Caller,
    (subject, format): (Subject<'_>, &str),
    (query, complete): (&str, fn(QrOptions) -> QrOptions),
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let format = QrFormat::ALL.iter().copied().find(|known| known.as_str() == format).ok_or_else(unknown_format)?;
    let link = if caller.is_known() { Some(address(app, caller, subject).await?) } else { None };
    let is_allowed = |address| app.config.outbound_allow.contains(address);
    let asked = QrOptions::from_query(query, is_allowed)?;
    let style = asked.check()?;
    let Some((url, look)) = link else { return Err(ApiError::Stopped(Stop::FormIsValid)) };
    // Options other than the size replace the link's own look as a whole.
    let is_own = !QrOptions::are_in_query(query);
    // The caller did not send the options of the look.
    let (has_look, has_size) = (is_own && look.is_some(), asked.size.is_some());
    let told = |error: ApiError| match error {
        ApiError::Invalid(why) if has_look && !(has_size && why.field.as_deref() == Some("size")) => {
            ApiError::Invalid(within_link(why))
        }
        other => other,
    };
    let (style, digest) = if is_own {
        let own = asked.or(look.unwrap_or_default());
        style_of(app, &caller.tenant, own, complete).await.map_err(told)?
    } else {
        let digest = digest_of(app, &caller.tenant, &style).await?;
        (style, digest)
    };
    let layout = Layout::of(&style, format, &url).map_err(|why| told(Invalid::from(why).into()))?;
    let file = File { link_id: subject.id(), format, has_logo: style.logo.is_some() };
    let artwork = match &style.logo {
        Some(logo) => Some(Artwork::of(app, caller, logo, digest).await.map_err(told)?),
        None => None,
    };
    let tag = tag(&style, format, &url, artwork.as_ref().map(Artwork::digest).as_deref());
    if etag::matches(headers, &tag) {
        return file.answer(StatusCode::NOT_MODIFIED, &tag, Bytes::new());
    }
    if let Some(image) = app.codes.cached(&tag) {
        return file.answer(StatusCode::OK, &tag, image);
    }
    let logo = match artwork {
        Some(artwork) => Some(artwork.decoded(app, caller).await.map_err(told)?),
        None => None,
    };
    let image = app.codes.run(caller.turn(), move || draw(&layout, &style, &url, logo.as_deref())).await?;
    let image = Bytes::from(image);
    app.codes.insert(tag.clone(), image.clone());
    file.answer(StatusCode::OK, &tag, image)
}

/// `qr.` without a format is an invalid format, not another route.
pub(crate) async fn without_format(LinkWriter(_): LinkWriter) -> ApiError {
    unknown_format()
}

fn unknown_format() -> ApiError {
    Invalid::whole(ErrorCode::InvalidQrFormat, "the format must be png, svg, pdf or eps, as in qr.png").into()
}

fn no_logo() -> ApiError {
    let message = "logo: this account has no uploaded logo with this name";
    Invalid::field(ErrorCode::InvalidQrOptions, "logo", message).into()
}

/// The address of a link, as in its detail, and the look that it keeps.
async fn address(app: &App, caller: &Caller, subject: Subject<'_>) -> Result<(String, Option<QrOptions>), ApiError> {
    let mut reader = app.db.read().await?;
    let link = match subject {
        Subject::Link(id) => Some(super::links::find(&mut reader.conn(), caller, id).await?),
        Subject::Draft(_) => None,
    };
    let primary = domains::primary_of(&mut reader.conn(), &caller.tenant).await?;
    let primary = primary.as_deref();
    let url = link.as_ref().map_or_else(|| app.link_url(subject.id(), primary), |link| app.url_of(link, primary));
    Ok((url, link.and_then(|link| link.content.qr)))
}

/// The style of a link's own look and what `complete` adds to it, and the digest of its uploaded logo. Without the logo, if
/// that was deleted.
async fn style_of(
    app: &App,
    tenant: &TenantId,
    look: QrOptions,
    complete: fn(QrOptions) -> QrOptions,
) -> Result<(QrStyle, Option<String>), ApiError> {
    let style = complete(look.clone()).check()?;
    let digest = digest_of(app, tenant, &style).await?;
    if digest.is_none() && style.logo.as_deref().and_then(uploaded).is_some() {
        return Ok((complete(look.hide_logo(true)).check()?, None));
    }
    Ok((style, digest))
}

/// The digest of the uploaded logo that a style names. `None` if it names none, or none that is there.
async fn digest_of(app: &App, tenant: &TenantId, style: &QrStyle) -> Result<Option<String>, ApiError> {
    let Some(name) = style.logo.as_deref().and_then(uploaded) else { return Ok(None) };
    Ok(qr_logos::digest(&mut app.db.read().await?.conn(), tenant, name).await?)
}

/// A logo to draw.
enum Artwork {
    /// From a URL.
    Fetched(Arc<Logo>),
    /// Uploaded. It is decoded only for a code that is not cached.
    Uploaded { name: String, digest: String },
}

impl Artwork {
    async fn of(app: &App, caller: &Caller, logo: &str, digest: Option<String>) -> Result<Self, ApiError> {
        match (uploaded(logo), digest) {
            (Some(name), Some(digest)) => Ok(Self::Uploaded { name: name.to_owned(), digest }),
            (Some(_), None) => Err(no_logo()),
            (None, _) => Ok(Self::Fetched(app.logos.get(&caller.tenant, caller.turn(), logo).await?)),
        }
    }

    /// SHA-256 of its file in hex.
    fn digest(&self) -> String {
        match self {
            Self::Fetched(logo) => hex::encode(logo.digest()),
            Self::Uploaded { digest, .. } => digest.clone(),
        }
    }

    async fn decoded(self, app: &App, caller: &Caller) -> Result<Arc<Logo>, ApiError> {
        match self {
            Self::Fetched(logo) => Ok(logo),
            Self::Uploaded { name, digest } => {
                let read = async {
                    let found = qr_logos::image(&mut app.db.read().await?.conn(), &caller.tenant, &name).await?;
                    match found {
                        Some((of, image)) if of == digest => Ok(Bytes::from(image)),
                        _ => Err(ApiError::Plain(ErrorCode::Overloaded, REPLACED)),
                    }
                };
                app.logos.uploaded(&caller.tenant, caller.turn(), &digest, read).await
            }
        }
    }
}

/// One tag for all spellings of one picture.
fn tag(style: &QrStyle, format: QrFormat, url: &str, logo: Option<&str>) -> String {
    let QrStyle { size, level, margin, dot_type, corner_square_type, corner_dot_type, shape, .. } = style;
    let QrStyle { background, dots, frames, pupils, .. } = style;
    let logo = logo.unwrap_or("-");
    etag::tag_of(Sha256::new_with_prefix(format!(
        "{RENDERER_VERSION}\n{format}\n{url}\n{size}\n{level}\n{margin}\n{shape}\n{dot_type}\n{corner_square_type}\n\
         {corner_dot_type}\n{background}\n{dots}\n{frames}\n{pupils}\n{logo}\n"
    )))
}

/// A binary file in the OpenAPI description.
pub(super) enum Pixels {}

impl utoipa::PartialSchema for Pixels {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::Binary);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl utoipa::ToSchema for Pixels {}

/// The response.
struct File<'a> {
    link_id: &'a str,
    format: QrFormat,
    has_logo: bool,
}

impl File<'_> {
    fn answer(&self, status: StatusCode, tag: &str, image: Bytes) -> Result<Response, ApiError> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, CACHE_CONTROL);
        headers.insert(header::VARY, VARY);
        headers.insert(header::ETAG, value(tag)?);
        if status == StatusCode::OK {
            let name = format!("inline; filename=\"{}.{}\"", self.link_id, self.format);
            headers.insert(header::CONTENT_DISPOSITION, value(&name)?);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.format.media_type()));
            headers.insert(header::CONTENT_LENGTH, image.len().into());
            // Opened on its own, an SVG is a document.
            if self.format == QrFormat::Svg {
                let logo = if self.has_logo { "; img-src data:" } else { "" };
                let policy = format!("sandbox; default-src 'none'{logo}");
                headers.insert(header::CONTENT_SECURITY_POLICY, value(&policy)?);
            }
            *response.body_mut() = Body::from(image);
        }
        Ok(response)
    }
}

/// A header value from an id, a tag or our own text.
fn value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(|_| ApiError::Internal("a header value of a QR code".into()))
}
