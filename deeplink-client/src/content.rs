//! What makes two links the same: destinations, metadata, agent context, preview, affiliate, name, tags, aliases, the
//! design of QR codes, imported clicks, whether the owner has enabled it, and the owner's expiry, after applying the
//! service's rules to both. Absent, `null` and `{}` are the same; metadata is compared as JSON, numbers by their text.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

#[cfg(feature = "bulk")]
use deeplink_core::link::UpdateLink;
use deeplink_core::link::{AgentContext, Alias, LinkDetail, NewLink, SocialPreview, alias_set};
#[cfg(feature = "bulk")]
use deeplink_core::patch::Patch;
use deeplink_core::tag::{Tag, set_of};
use serde_json::value::RawValue;

/// One field in which a link differs from what was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The field.
    pub field: &'static str,
    /// What was requested, as text or JSON.
    pub wanted: Option<String>,
    /// What the link has.
    pub found: Option<String>,
}

/// The fields in which an existing link differs from a create request; none if the request would make the same link.
/// The id is not compared.
///
/// ```
/// # #[cfg(feature = "mock")] {
/// use deeplink_client::{CreateLink, differences, mock::fixtures};
///
/// let found = fixtures::link_detail("spring-42");
/// let same = CreateLink::new().web_url("https://example.com");
/// assert!(differences(&same.clone().check()?, &found).is_empty());
/// let other = same.affiliate_id("aff_0123456789abcdef01234567").check()?;
/// assert_eq!(differences(&other, &found)[0].to_string(), "affiliate_id: \"aff_0123456789abcdef01234567\", not nothing");
/// # }
/// # Ok::<(), deeplink_client::Invalid>(())
/// ```
pub fn differences(wanted: &NewLink, found: &LinkDetail) -> Vec<Difference> {
    Content::wanted(wanted.clone()).differences(&Content::found(found))
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &Option<String>| match text {
            None => "nothing".to_owned(),
            Some(json) if json.starts_with(['{', '[']) => json.clone(),
            Some(text) => format!("\"{}\"", text.escape_debug()),
        };
        write!(f, "{}: {}, not {}", self.field, shown(&self.wanted), shown(&self.found))
    }
}

/// The fields of a link that are compared, in one order, each as text or canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Content([Option<String>; FIELDS.len()]);

/// The field that a later export of another service changes.
pub(crate) const IMPORTED_CLICKS: &str = "imported_clicks";

const FIELDS: [&str; 17] = [
    "ios_deep_link",
    "ios_store_url",
    "android_deep_link",
    "android_store_url",
    "web_url",
    "metadata",
    "agent_context",
    "social_preview",
    "name",
    "enabled",
    "expires_at",
    "expired_url",
    "tags",
    "aliases",
    "qr",
    IMPORTED_CLICKS,
    "affiliate_id",
];

impl Content {
    pub(crate) fn wanted(link: NewLink) -> Self {
        let agent = link.agent_context.filter(|agent| *agent != AgentContext::default());
        let social = link.social_preview.filter(|social| *social != SocialPreview::default());
        let to = link.destinations;
        Self([
            to.ios_deep_link,
            to.ios_store_url,
            to.android_deep_link,
            to.android_store_url,
            to.web_url,
            link.metadata.map(|metadata| canonical(metadata.as_str())).filter(|text| text != "{}"),
            agent.and_then(|agent| serde_json::to_string(&agent).ok()),
            social.and_then(|social| serde_json::to_string(&social).ok()),
            link.name,
            // Enabled is the default.
            link.is_disabled.then(|| "false".to_owned()),
            link.expires_at.map(|end| end.to_string()),
            link.expired_url,
            (!link.tags.is_empty()).then(|| link.tags.iter().map(Tag::key).collect::<Vec<_>>().join(",")),
            (!link.aliases.is_empty()).then(|| link.aliases.iter().map(Alias::as_str).collect::<Vec<_>>().join(",")),
            link.qr.and_then(|qr| serde_json::to_string(&qr).ok()),
            link.imported_clicks.map(|count| count.to_string()),
            link.affiliate_id.map(|id| id.as_str().to_owned()),
        ])
    }

    pub(crate) fn found(link: &LinkDetail) -> Self {
        let mut content = NewLink::default();
        content.destinations = link.destinations().map(Clone::clone);
        content.metadata.clone_from(&link.metadata);
        content.agent_context.clone_from(&link.agent_context);
        content.social_preview.clone_from(&link.social_preview);
        content.affiliate_id.clone_from(&link.affiliate_id);
        content.name.clone_from(&link.name);
        content.is_disabled = !link.enabled;
        content.expires_at = link.owner_expires_at;
        content.expired_url.clone_from(&link.expired_url);
        content.tags = set_of(link.tags.iter().cloned().map(Tag::of_stored));
        content.aliases = alias_set(link.aliases.iter().cloned().map(Alias::of_stored));
        content.qr.clone_from(&link.qr);
        content.imported_clicks = link.imported_clicks;
        Self::wanted(content)
    }

    pub(crate) fn differences(&self, found: &Self) -> Vec<Difference> {
        let pairs = FIELDS.iter().zip(self.0.iter().zip(&found.0));
        pairs
            .filter(|(_, (wanted, found))| wanted != found)
            .map(|(field, (wanted, found))| Difference { field, wanted: wanted.clone(), found: found.clone() })
            .collect()
    }
}

/// Index of the affiliate in [`FIELDS`].
#[cfg(feature = "bulk")]
const AFFILIATE: usize = FIELDS.len() - 1;
/// Index of the imported clicks.
#[cfg(feature = "bulk")]
const CLICKS: usize = FIELDS.len() - 2;

#[cfg(feature = "bulk")]
impl Content {
    /// Sets the affiliate of a link that has none, as the service does for an affiliate's credential.
    pub(crate) fn or_affiliate(mut self, affiliate: Option<&str>) -> Self {
        if self.0[AFFILIATE].is_none() {
            self.0[AFFILIATE] = affiliate.map(str::to_owned);
        }
        self
    }

    /// The same without the imported clicks.
    pub(crate) fn without_clicks(mut self) -> Self {
        self.0[CLICKS] = None;
        self
    }

    pub(crate) fn names_affiliate(&self) -> bool {
        self.0[AFFILIATE].is_some()
    }
}

/// The update that gives a link the content of `wanted` in these fields; fields absent from `wanted` are cleared.
#[cfg(feature = "bulk")]
pub(crate) fn update_for(wanted: NewLink, differences: &[Difference]) -> UpdateLink {
    let mut update = UpdateLink::new();
    let differs = |field| differences.iter().any(|difference| difference.field == field);
    for ((field, slot), url) in update.destinations_mut().each().zip(wanted.destinations.into_array()) {
        if differs(field) {
            *slot = url.into();
        }
    }
    if differs("metadata") {
        update.metadata = wanted.metadata.into();
    }
    if differs("agent_context") {
        update.agent_context = wanted.agent_context.into();
    }
    if differs("social_preview") {
        update.social_preview = wanted.social_preview.into();
    }
    if differs("name") {
        update.name = wanted.name.into();
    }
    if differs("enabled") {
        update.enabled = Patch::Set(!wanted.is_disabled);
    }
    if differs("expires_at") {
        update.expires_at = wanted.expires_at.map(|end| end.to_string()).into();
    }
    if differs("expired_url") {
        update.expired_url = wanted.expired_url.into();
    }
    if differs("tags") {
        update.tags = Patch::Set(wanted.tags.into_iter().map(Tag::into_text).collect());
    }
    if differs("aliases") {
        update.aliases = Patch::Set(wanted.aliases.into_iter().map(Alias::into_text).collect());
    }
    if differs("qr") {
        update.qr = wanted.qr.into();
    }
    if differs(IMPORTED_CLICKS) {
        update.imported_clicks = wanted.imported_clicks.into();
    }
    update
}

/// JSON with sorted keys and one canonical form of each string; the digits of numbers stay.
fn canonical(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    write_canonical(json, &mut out);
    out
}

fn write_canonical(json: &str, out: &mut String) {
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
            write_list(out, ['{', '}'], members, |out, (key, value)| {
                let _ = write!(out, "{}:", serde_json::Value::String(key));
                write_canonical(value.get(), out);
            });
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            write_list(out, ['[', ']'], items, |out, item| write_canonical(item.get(), out));
        }
        Some(b'"') => match serde_json::from_str::<serde_json::Value>(json) {
            Ok(text) => {
                let _ = write!(out, "{text}");
            }
            Err(_) => out.push_str(json),
        },
        _ => out.push_str(json),
    }
}

fn write_list<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push(open);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(out, item);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use deeplink_core::link::CreateLink;

    #[test]
    fn metadata_is_compared_as_json_with_numbers_by_their_text() {
        for (one, other, same) in [
            (r#"{"a":1,"b":[true,null]}"#, r#"{"b":[true,null],"a":1}"#, true),
            (r#"{"a":"\u00e9\/"}"#, r#"{"a":"é/"}"#, true),
            (r#"{"a":1}"#, r#"{"a":1.0}"#, false),
            (r#"{"a":1e400}"#, r#"{"a":1e400}"#, true),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            (r#"{"a":"1"}"#, r#"{"a":1}"#, false),
            (r#"{"a":{"y":1,"x":2}}"#, r#"{"a":{"x":2,"y":1}}"#, true),
        ] {
            assert_eq!(canonical(one) == canonical(other), same, "{one} {other}");
        }
    }

    #[test]
    fn absent_null_and_empty_are_the_same() {
        let content = |json: &str| {
            let link: CreateLink = serde_json::from_str(json).expect("a create request");
            Content::wanted(link.check().expect("valid"))
        };
        let empty = content("{}");
        for json in
            [r#"{"metadata":{}}"#, r#"{"metadata":null}"#, r#"{"agent_context":{"cta":" "}}"#, r#"{"custom_id":"abc"}"#]
        {
            assert_eq!(content(json), empty, "{json}");
        }
        assert_eq!(content(r#"{"web_url":"https://EXAMPLE.com"}"#), content(r#"{"web_url":"https://example.com/"}"#));
        assert_ne!(content(r#"{"web_url":"https://example.com"}"#), empty);
        assert_eq!(content(r#"{"tags":["b","A"]}"#), content(r#"{"tags":["a","B"," b"]}"#));
        assert_eq!(content(r#"{"tags":[]}"#), empty);
        assert_eq!(content(r#"{"aliases":["l/b","a"]}"#), content(r#"{"aliases":["a","/l/b","a"]}"#));
        assert_eq!(content(r#"{"aliases":[]}"#), empty);
        assert_eq!(content(r#"{"qr":{}}"#), empty);
        assert_eq!(content(r#"{"imported_clicks":null}"#), empty);
        assert_ne!(content(r#"{"imported_clicks":0}"#), empty);
        assert_eq!(
            content(r#"{"qr":{"fgColor":"03C","level":"h"}}"#),
            content(r##"{"qr":{"level":"H","fgColor":"#0033cc"}}"##)
        );
    }

    #[cfg(feature = "bulk")]
    #[test]
    fn an_update_names_what_differs_and_clears_what_is_not_wanted() {
        let link = |json: &str| serde_json::from_str::<CreateLink>(json).expect("JSON").check().expect("valid");
        let wanted = link(r#"{"web_url":"https://example.com/new","metadata":{"a":1}}"#);
        let found = Content::wanted(link(
            r#"{"web_url":"https://example.com/old","metadata":{"a":1},"ios_deep_link":"app://x"}"#,
        ));
        let differences = Content::wanted(wanted.clone()).differences(&found);
        let update = serde_json::to_string(&update_for(wanted, &differences)).expect("JSON");
        assert_eq!(update, r#"{"ios_deep_link":null,"web_url":"https://example.com/new"}"#);
    }
}
