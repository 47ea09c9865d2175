//! The QR code of a link that does not exist yet: the options of its design in the link's form, and the image that
//! previews them. Nothing is stored.

use axum::extract::State;
use deeplink_core::link::{GENERATED_ID_LEN, check_custom_id};
use deeplink_core::qr::QrOptions;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, Uri};

use super::PageResult;
use super::form::{Form, Group};
use super::person::Person;
use super::qr_look::{self, NO_CACHE, poster};
use crate::api;
use crate::api::qr::Subject;
use crate::http::extract::Query;
use crate::state::Shared;

/// The ID in the code of a link whose ID will be generated: as long, so that the code is as large.
const EXAMPLE_ID: &str = "EXAMPLE1";
const _: () = assert!(EXAMPLE_ID.len() == GENERATED_ID_LEN);

/// The options of the design as a group of the link's form.
pub(super) fn group(logos: &[String]) -> Group {
    let upload = "To upload one, first create the link, then change the design of its code.";
    let mut fields: Vec<_> = qr_look::fields(logos, upload).into_iter().flatten().collect();
    fields[0].hint = "To see the code, select Preview below.".into();
    Group::new("QR code", "Style, colors and logo of the link’s QR code.", fields).folded()
}

/// The code of the link that a form describes.
pub(super) struct Draft {
    /// The address of the image.
    pub(super) image: String,
    /// Whether the ID in it is not the link's.
    pub(super) has_example_id: bool,
    /// Whether the image fails if the logo's server does.
    pub(super) fetches_logo: bool,
}

impl Draft {
    /// Of a form whose design is valid.
    pub(super) fn of(form: &Form) -> Self {
        let look = qr_look::look_in(form);
        let fetches_logo = qr_look::fetches_logo(&look);
        let options = qr_look::query_of(&poster(look));
        let id = Some(form.value("custom_id")).filter(|id| check_custom_id(id).is_ok());
        let image = match id {
            Some(id) => format!("/account/new-link/qr.svg?id={id}&{options}"),
            None => format!("/account/new-link/qr.svg?{options}"),
        };
        Self { image, has_example_id: id.is_none(), fetches_logo }
    }
}

/// The code of a new link with the ID and the options in the query.
pub(super) async fn image(
    State(app): State<Shared>,
    person: Person,
    query: Query,
    uri: Uri,
    headers: HeaderMap,
) -> PageResult {
    let id = query.one("id")?.filter(|id| check_custom_id(id).is_ok()).unwrap_or(EXAMPLE_ID);
    let file = (Subject::Draft(id), "svg");
    let options: (_, fn(QrOptions) -> QrOptions) = (uri.query().unwrap_or_default(), poster);
    let mut response = api::qr::draw_for(&app, &person.caller, file, options, &headers).await?;
    response.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_id_of_the_form_if_a_link_can_have_it() {
        for (id, image, has_example_id) in [
            ("spring-42", "/account/new-link/qr.svg?id=spring-42&size=1024&level=M&dotType=classy", false),
            ("", "/account/new-link/qr.svg?size=1024&level=M&dotType=classy", true),
            ("a&level=H", "/account/new-link/qr.svg?size=1024&level=M&dotType=classy", true),
            ("account", "/account/new-link/qr.svg?size=1024&level=M&dotType=classy", true),
        ] {
            let draft = Draft::of(&Form::with([("custom_id", Some(id)), ("qr.dotType", Some("classy"))]));
            assert_eq!((&*draft.image, draft.has_example_id), (image, has_example_id), "{id}");
        }
    }
}
