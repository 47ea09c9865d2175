//! The form that uploads a logo for a link's QR code, below that of its design.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::qr::{MAX_LOGO_NAME, OPTION_NAMES, UPLOADED};
use deeplink_core::qr_logo::{MAX_LOGO_BYTES, check_logo_name};
use url::form_urlencoded::{Serializer, byte_serialize};

use super::PageResult;
use super::form::{Field, Form, FormError, FormView, Group, Kind, View};
use super::headers::see_other;
use super::person::Person;
use super::qr_look::{self, PREFIX};
use crate::api;
use crate::error::ApiError;
use crate::http::extract::Path;
use crate::http::multipart::Multipart;
use crate::state::{App, Shared};

/// Maximum bytes of the form besides its file: names, and the options of the design.
const FIELDS_LIMIT: usize = 16 << 10;

#[derive(Template)]
#[template(path = "pages/qr_logo.html")]
struct UploadForm<'a> {
    id: &'a str,
    /// The options of the design that the page shows, which an upload keeps.
    kept: Vec<(String, String)>,
    form: FormView,
}

/// The form as HTML, on the page that shows this design.
pub(super) fn form(app: &App, id: &str, design: &Form, view: &View<'_>) -> Result<String, ApiError> {
    let fields = vec![
        Field::line(
            "name",
            "Name",
            "Lowercase letters, digits and hyphens. An existing logo with the same name is replaced.",
        )
        .required()
        .max_length(MAX_LOGO_NAME)
        .placeholder("acme"),
        Field::file(
            "file",
            "Image",
            "A PNG, JPEG or WebP image of at most 512 KiB.",
            "image/png,image/jpeg,image/webp",
        )
        .required(),
    ];
    let form = FormView::new(app, vec![Group::plain(fields)], &Form::default(), view);
    let html = UploadForm { id, kept: options_in(design), form }.render();
    html.map_err(|error| ApiError::Internal(error.to_string()))
}

/// The options of a design in a form.
fn options_in(form: &Form) -> Vec<(String, String)> {
    let names = OPTION_NAMES.iter().map(|name| format!("{PREFIX}{name}"));
    names.filter_map(|name| form.filled(&name).map(|value| (name, value))).collect()
}

/// Uploads a logo, and shows the design with it: only Save keeps that.
pub(super) async fn upload(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    request: Request,
) -> PageResult {
    // A link that does not exist is a 404, whatever the form contains.
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let sent = match Multipart::read(request, MAX_LOGO_BYTES + FIELDS_LIMIT).await {
        Ok(sent) => sent,
        Err(error) if error.body().code == ErrorCode::PayloadTooLarge => {
            let refused = View::Refused(None, FormError::in_field("file", "Must be at most 512 KiB."));
            let design = qr_look::form_of(link.qr.as_ref());
            return qr_look::page(&app, &person, &id, &design, &View::Opened(None), None, &refused).await;
        }
        Err(error) => return Err(error),
    };
    let form = Form::of(&sent.pairs)?;
    let file = sent.file("file").cloned();
    let bytes = file.as_ref().map(bytes::Bytes::len);
    let stand_in = |field: &str| (field == "name").then_some(("name", "logo"));
    let refused = match View::checked(&form, stand_in, |form| check(form.value("name"), bytes)) {
        Some(refused) => refused,
        None => {
            let (caller, name) = (Arc::clone(&person.caller), form.value("name").to_owned());
            match api::qr_logos::put_for(&app, caller, name, file.unwrap_or_default()).await {
                Ok(logo) => return Ok(see_other(&with_logo(&id, &form, &logo.name))),
                Err(error) => View::Refused(Some(&form), FormError::of(error)?.beside("file")),
            }
        }
    };
    qr_look::page(&app, &person, &id, &form, &View::Opened(None), None, &refused).await
}

/// The rules that need nothing but the form.
fn check(name: &str, bytes: Option<usize>) -> Result<(), Invalid> {
    if name.is_empty() {
        return Err(Invalid::field(ErrorCode::MissingFields, "name", "name is required"));
    }
    check_logo_name(name)?;
    match bytes {
        None => Err(Invalid::field(ErrorCode::BadRequest, "file", "file: choose a file")),
        Some(bytes) if bytes > MAX_LOGO_BYTES => {
            Err(Invalid::field(ErrorCode::PayloadTooLarge, "file", "file: must be at most 512 KiB"))
        }
        Some(_) => Ok(()),
    }
}

/// The page of the design in the form, with this logo.
fn with_logo(id: &str, form: &Form, name: &str) -> String {
    let logo = format!("{PREFIX}logo");
    let others = options_in(form).into_iter().filter(|(option, _)| *option != logo);
    let query = Serializer::new(String::new())
        .extend_pairs(others)
        .append_pair(&logo, &format!("{UPLOADED}{name}"))
        .append_pair("done", "logo-uploaded")
        .finish();
    format!("/account/links/{id}/qr?{query}")
}

/// Redirects to the design: a bookmark or a sign-in comes back without the form.
pub(super) async fn back(Path(id): Path<String>) -> PageResult {
    // What no link's ID contains is not put into a header.
    let id: String = byte_serialize(id.as_bytes()).collect();
    Ok(see_other(&format!("/account/links/{id}/qr")))
}
