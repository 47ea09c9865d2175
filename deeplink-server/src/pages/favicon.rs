//! The icon of the pages. Pages of visits carry it in themselves (`templates/favicon.html`): on a tenant's host there is
//! no path for it.

use std::sync::LazyLock;

use axum::Router;
use axum::routing::get;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};

use crate::http::fixed::Fixed;
use crate::state::Shared;

const A_DAY: HeaderValue = HeaderValue::from_static("public, max-age=86400");

static SVG: LazyLock<Fixed> = LazyLock::new(|| {
    let svg = include_str!("../../templates/favicon.svg");
    Fixed::new(svg, HeaderValue::from_static("image/svg+xml")).with(CACHE_CONTROL, A_DAY)
});

/// In 16, 32 and 48 pixels, for browsers that show no SVG and for programs that ask for this path unprompted.
static ICO: LazyLock<Fixed> = LazyLock::new(|| {
    let ico = include_bytes!("../../templates/favicon.ico").as_slice();
    Fixed::new(ico, HeaderValue::from_static("image/x-icon")).with(CACHE_CONTROL, A_DAY)
});

/// The files of the icon.
pub(super) fn files() -> Router<Shared> {
    Router::new()
        .route("/favicon.svg", get(|asked: HeaderMap| async move { SVG.answer(&asked) }))
        .route("/favicon.ico", get(|asked: HeaderMap| async move { ICO.answer(&asked) }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_icon_in_pages_is_the_file() {
        let in_pages = include_str!("../../templates/favicon.html").trim();
        let data = in_pages.strip_prefix("<link rel=\"icon\" href=\"data:image/svg+xml,").expect("a data URL");
        let escapes = [("\"", "'"), ("#", "%23"), ("<", "%3C"), (">", "%3E")];
        let svg = include_str!("../../templates/favicon.svg").trim().to_owned();
        let encoded = escapes.iter().fold(svg, |text, (character, escape)| text.replace(character, escape));
        assert_eq!(data.strip_suffix("\">"), Some(&*encoded));
    }
}
