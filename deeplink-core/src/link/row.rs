//! A link as a row of a CSV file that can be imported again: what exports write and imports read.

use super::{AgentContext, LinkDetail, SocialPreview};

/// The columns, in order.
pub const COLUMNS: [&str; 27] = [
    "link_id",
    "url",
    "ios_deep_link",
    "ios_store_url",
    "android_deep_link",
    "android_store_url",
    "web_url",
    "metadata",
    "agent.action",
    "agent.cta",
    "agent.description",
    "social.title",
    "social.description",
    "social.image_url",
    "affiliate_id",
    "status",
    "expires_at",
    "created_at",
    "updated_at",
    "name",
    "enabled",
    "owner_expires_at",
    "expired_url",
    "tags",
    "aliases",
    "qr",
    "imported_clicks",
];

/// A cell that means `null`.
pub const NULL: &str = r"\N";

/// The cells of a link, in the order of [`COLUMNS`].
pub fn cells(link: &LinkDetail) -> [String; COLUMNS.len()] {
    let agent = link.agent_context.clone().unwrap_or_default();
    let social = link.social_preview.clone().unwrap_or_default();
    let AgentContext { action, cta, description } = agent;
    let SocialPreview { title, description: text, image_url } = social;
    // If imported by an earlier version, or without the other column, the account's expiry would become the owner's.
    let owner_end = link.owner_expires_at.map(|moment| moment.to_string()).unwrap_or_default();
    let own = |text: &Option<String>| text.clone().unwrap_or_default();
    let prose = |text: Option<String>| text.map(|text| escape(&text)).unwrap_or_default();
    [
        link.link_id.clone(),
        link.url.clone(),
        own(&link.ios_deep_link),
        own(&link.ios_store_url),
        own(&link.android_deep_link),
        own(&link.android_store_url),
        own(&link.web_url),
        link.metadata.as_ref().map(|metadata| metadata.as_str().to_owned()).unwrap_or_default(),
        action.map(|action| action.as_str().to_owned()).unwrap_or_default(),
        prose(cta),
        prose(description),
        prose(title),
        prose(text),
        own(&image_url),
        link.affiliate_id.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default(),
        link.status.as_str().to_owned(),
        owner_end.clone(),
        link.created_at.to_string(),
        link.updated_at.to_string(),
        prose(link.name.clone()),
        link.enabled.to_string(),
        owner_end,
        own(&link.expired_url),
        escape(&link.tags.join(",")),
        link.aliases.join(","),
        link.qr.as_ref().and_then(|qr| serde_json::to_string(qr).ok()).unwrap_or_default(),
        link.imported_clicks.map(|count| count.to_string()).unwrap_or_default(),
    ]
}

/// The cell for a text: one that would read as [`NULL`] gets an extra backslash.
pub fn escape(text: &str) -> String {
    if text == NULL || is_escaped(text) { format!("\\{text}") } else { text.to_owned() }
}

/// Reverses [`escape`].
pub fn unescape(cell: &str) -> &str {
    if is_escaped(cell) { &cell[1..] } else { cell }
}

fn is_escaped(cell: &str) -> bool {
    cell.strip_prefix(r"\\").is_some_and(|rest| rest.trim_start_matches('\\') == "N")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_undo_each_other() {
        for text in [r"\N", r"\\N", r"\\\N", r"\n", r"\\", "N", "", r"\Nx", r"\\Nx"] {
            let cell = escape(text);
            assert_ne!(cell, NULL, "{text}");
            assert_eq!(unescape(&cell), text);
        }
    }
}
