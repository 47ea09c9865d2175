//! Tags on the pages of links.

use deeplink_core::link::LinkDetail;
use deeplink_core::patch::Patch;

use super::form::{Field, Form};
use super::link_filter;

/// The field of a form.
pub(super) fn field() -> Field {
    Field::line(
        "tags",
        "Tags",
        "Group links, for example by campaign. Separate tags with commas. Only you and your team see them.",
    )
    .placeholder("spring, poster")
}

/// The text of the field for these tags.
pub(super) fn text_of(tags: &[String]) -> String {
    tags.join(", ")
}

/// The tags in a form; `None` if there are none.
pub(super) fn in_form(form: &Form) -> Option<Vec<String>> {
    let text = form.filled("tags")?;
    Some(text.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect())
}

/// The change of a link's tags by a form.
pub(super) fn change_in(form: &Form, now: &LinkDetail) -> Patch<Vec<String>> {
    if !form.has("tags") || form.value("tags") == text_of(&now.tags) {
        return Patch::Keep;
    }
    in_form(form).map_or(Patch::Clear, Patch::Set)
}

/// A tag that links to the list of links with it.
pub(super) struct TagLink {
    pub(super) text: String,
    pub(super) href: String,
}

/// A link's tags.
pub(super) fn links_of(tags: &[String]) -> Vec<TagLink> {
    tags.iter().map(|tag| TagLink { text: tag.clone(), href: link_filter::tagged(tag) }).collect()
}
