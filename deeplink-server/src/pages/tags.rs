//! Tags and aliases on the pages of links: lists that a form shows as one text.

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

/// The field for aliases.
pub(super) fn aliases_field() -> Field {
    Field::line(
        "aliases",
        "Aliases",
        "Up to five additional IDs or paths for this link, such as those of printed short links. They work only on your verified domains. Separate them with commas.",
    )
    .placeholder("spring_sale, l/2024/spring")
}

/// The text of the field for these tags or aliases.
pub(super) fn text_of(list: &[String]) -> String {
    list.join(", ")
}

/// The tags or aliases in a form; `None` if there are none.
pub(super) fn in_form(form: &Form, name: &str) -> Option<Vec<String>> {
    let text = form.filled(name)?;
    Some(text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect())
}

/// The change of a link's tags or aliases by a form.
pub(super) fn change_in(form: &Form, name: &str, now: &[String]) -> Patch<Vec<String>> {
    if !form.has(name) || form.value(name) == text_of(now) {
        return Patch::Keep;
    }
    in_form(form, name).map_or(Patch::Clear, Patch::Set)
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
