//! Which field a column means. Case, spaces, `-` and `_` do not matter.

use std::fmt;

/// A field of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Field {
    CustomId,
    IosDeepLink,
    IosStoreUrl,
    AndroidDeepLink,
    AndroidStoreUrl,
    WebUrl,
    Metadata,
    MetaKey(String, MetaKind),
    /// The whole object, in JSON only.
    AgentContext,
    Action,
    Cta,
    AgentDescription,
    /// The whole object, in JSON only.
    SocialPreview,
    Title,
    SocialDescription,
    ImageUrl,
    AffiliateId,
    Name,
    Enabled,
    ExpiresAt,
    ExpiredUrl,
    Tags,
    Aliases,
    /// The design of the link's QR codes, as JSON.
    Qr,
    ImportedClicks,
    Ignored,
}

/// How the text of a metadata key is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MetaKind {
    String,
    Int,
    Number,
    Bool,
    Json,
}

use Field as F;

/// Every name of every field; names mapped to no field occur in exports and are ignored here.
const NAMES: &[(&str, Field)] = &[
    ("custom_id", F::CustomId),
    ("id", F::CustomId),
    ("slug", F::CustomId),
    ("link_id", F::CustomId),
    ("ios_deep_link", F::IosDeepLink),
    ("ios", F::IosDeepLink),
    ("ios_store_url", F::IosStoreUrl),
    ("ios_store", F::IosStoreUrl),
    ("android_deep_link", F::AndroidDeepLink),
    ("android", F::AndroidDeepLink),
    ("android_store_url", F::AndroidStoreUrl),
    ("android_store", F::AndroidStoreUrl),
    ("web_url", F::WebUrl),
    ("web", F::WebUrl),
    ("destination", F::WebUrl),
    ("url", F::WebUrl),
    ("metadata", F::Metadata),
    ("agent.action", F::Action),
    ("agent.cta", F::Cta),
    ("agent.description", F::AgentDescription),
    ("social.title", F::Title),
    ("social.description", F::SocialDescription),
    ("social.image_url", F::ImageUrl),
    ("affiliate_id", F::AffiliateId),
    ("affiliate", F::AffiliateId),
    ("name", F::Name),
    ("enabled", F::Enabled),
    ("expires_at", F::ExpiresAt),
    ("owner_expires_at", F::ExpiresAt),
    ("expired_url", F::ExpiredUrl),
    ("tags", F::Tags),
    ("aliases", F::Aliases),
    ("qr", F::Qr),
    ("imported_clicks", F::ImportedClicks),
    ("status", F::Ignored),
    ("created_at", F::Ignored),
    ("updated_at", F::Ignored),
    ("_error", F::Ignored),
];

/// The normalized name of the owner's expiry. If a file has it, too, `expires_at` is the effective expiry when the file was
/// written.
pub(super) const OWNER_END: &str = "ownerexpiresat";

/// Objects that only JSON can express as a whole.
const OBJECTS: &[(&str, Field)] = &[("agent_context", F::AgentContext), ("social_preview", F::SocialPreview)];

/// The part of a name that is compared.
pub(super) fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, ' ' | '-' | '_')).flat_map(char::to_lowercase).collect()
}

impl Field {
    /// The field that a column's name means; with `objects`, also the objects of JSON.
    pub(super) fn named(name: &str, objects: bool) -> Option<Self> {
        let name = name.trim();
        if let Some((prefix, key)) = name.split_once('.')
            && fold(prefix) == "meta"
        {
            return meta_key(key);
        }
        let folded = fold(name);
        let objects = OBJECTS.iter().filter(|_| objects);
        NAMES.iter().chain(objects).find(|(known, _)| fold(known) == folded).map(|(_, field)| field.clone())
    }

    /// Whether it is one of the URLs that a link can lead to.
    pub(super) fn is_destination(&self) -> bool {
        matches!(self, F::IosDeepLink | F::IosStoreUrl | F::AndroidDeepLink | F::AndroidStoreUrl | F::WebUrl)
    }

    /// Known names that look like this one, the nearest first.
    pub(super) fn near(name: &str) -> Vec<&'static str> {
        let folded = fold(name);
        let distance = |known: &str| distance(&folded, &fold(known));
        let mut near: Vec<(usize, &str)> = NAMES
            .iter()
            .map(|(known, _)| (distance(known), *known))
            .filter(|(distance, known)| *distance <= 2.min(known.len() / 3))
            .collect();
        near.sort_unstable();
        near.into_iter().map(|(_, known)| known).take(3).collect()
    }
}

fn meta_key(key: &str) -> Option<Field> {
    let (key, kind) = match key.rsplit_once(':') {
        Some((key, "int")) => (key, MetaKind::Int),
        Some((key, "number")) => (key, MetaKind::Number),
        Some((key, "bool")) => (key, MetaKind::Bool),
        Some((key, "json")) => (key, MetaKind::Json),
        Some((key, "string")) => (key, MetaKind::String),
        _ => (key, MetaKind::String),
    };
    (!key.is_empty()).then(|| Field::MetaKey(key.to_owned(), kind))
}

/// The message for a name that no field has.
pub(super) fn unknown(what: &str, name: &str) -> String {
    let near = Field::near(name);
    let hint = match near.as_slice() {
        [] => "map it to a field, or ignore unknown columns".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    format!("unknown {what} \"{}\"; {hint}", name.escape_debug())
}

/// Insertions, deletions, replacements and swaps of neighbors that turn one text into the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=other.len()).collect();
    for i in 1..=one.len() {
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[one.len()][other.len()]
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            F::MetaKey(key, _) => write!(f, "metadata.{key}"),
            F::AgentContext => f.write_str("agent_context"),
            F::SocialPreview => f.write_str("social_preview"),
            F::Action => f.write_str("agent_context.action"),
            F::Cta => f.write_str("agent_context.cta"),
            F::AgentDescription => f.write_str("agent_context.description"),
            F::Title => f.write_str("social_preview.title"),
            F::SocialDescription => f.write_str("social_preview.description"),
            F::ImageUrl => f.write_str("social_preview.image_url"),
            // The first name of each is its field's.
            field => f.write_str(NAMES.iter().find(|(_, known)| known == field).map_or("", |(name, _)| name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_loosely_and_keys_exactly() {
        for (name, field) in [
            ("Custom ID", Some(F::CustomId)),
            ("LINK-ID", Some(F::CustomId)),
            (" Web Url ", Some(F::WebUrl)),
            ("iosStore", Some(F::IosStoreUrl)),
            ("Agent.CTA", Some(F::Cta)),
            ("social.image-url", Some(F::ImageUrl)),
            ("Meta.Order_No", Some(F::MetaKey("Order_No".into(), MetaKind::String))),
            ("meta.n:int", Some(F::MetaKey("n".into(), MetaKind::Int))),
            ("meta.a:b", Some(F::MetaKey("a:b".into(), MetaKind::String))),
            ("meta.", None),
            ("agent_context", None),
            ("nothing", None),
        ] {
            assert_eq!(Field::named(name, false), field, "{name}");
        }
        assert_eq!(Field::named("agentContext", true), Some(F::AgentContext));
    }

    #[test]
    fn near_matches_are_named() {
        for (name, near) in
            [("web_ulr", "web_url"), ("custum_id", "custom_id"), ("ios_stor", "ios_store"), ("agent.ct", "agent.cta")]
        {
            assert_eq!(Field::near(name).first(), Some(&near), "{name}");
        }
        assert!(Field::near("price").is_empty());
        assert!(unknown("column", "web_ulr").ends_with("did you mean web_url?"));
    }
}
