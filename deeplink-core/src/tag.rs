//! Tags, which an account's owner uses to group links.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use icu_normalizer::ComposingNormalizerBorrowed;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::object;
use crate::patch::Patch;
use crate::text::{find_control, find_hidden};
use crate::words::reply;

/// Maximum characters of a tag.
pub const MAX_TAG: usize = 40;
/// Maximum tags of a link, and of a filter.
pub const MAX_TAGS: usize = 20;
/// Maximum number of different tags in an account.
pub const MAX_TAGS_OF_ACCOUNT: i64 = 1_000;

/// A valid tag: 1 to 40 characters, trimmed, in Unicode normalization form NFC, without commas, control characters and characters
/// that nobody sees, with which two tags could look the same. Tags that differ only in case are equal.
#[derive(Debug, Clone)]
pub struct Tag {
    text: String,
    key: String,
}

impl Tag {
    /// Validates a tag; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = nfc(text.trim());
        if text.is_empty() {
            return Err("a tag must not be blank".to_owned());
        }
        if find_control(&text, false).is_some() {
            return Err("a tag contains a control character".to_owned());
        }
        if let Some(hidden) = find_hidden(&text) {
            return Err(format!("a tag contains an invisible character (U+{:04X})", u32::from(hidden)));
        }
        let count = text.chars().count();
        if count > MAX_TAG {
            return Err(format!("a tag must be at most {MAX_TAG} characters (currently {count})"));
        }
        if text.contains(',') {
            return Err(format!("the tag \"{text}\" contains a comma"));
        }
        Ok(Self::of_stored(text))
    }

    /// A tag that was validated when it was stored.
    pub fn of_stored(text: String) -> Self {
        Self { key: folded(&text), text }
    }

    /// The tag as it is shown.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same for all tags that are equal.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The tag as it is shown.
    pub fn into_text(self) -> String {
        self.text
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Tag {}

impl Hash for Tag {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl PartialOrd for Tag {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tag {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// The request body to rename a tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"tag": "spring-sale"}))))]
#[non_exhaustive]
pub struct RenameTag {
    /// The new tag: 1 to 40 characters, without commas.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 40))]
    pub tag: String,
}

impl RenameTag {
    /// A rename to this.
    pub fn new(tag: impl Into<String>) -> Self {
        Self { tag: tag.into() }
    }

    /// Applies the rules.
    pub fn check(&self) -> Result<Tag, Invalid> {
        Tag::parse(&self.tag).map_err(|message| Invalid::field(ErrorCode::InvalidTag, "tag", format!("tag: {message}")))
    }
}

reply! {
    /// A tag.
    TagDetail {
        /// The tag, as the account spells it.
        tag: String,
        /// The number of links with the tag, at least one.
        links: i64,
    }
}

reply! {
    /// All tags of an account, at most 1,000.
    TagList {
        /// The tags, in alphabetical order.
        tags: Vec<TagDetail>,
    }
}

/// In Unicode normalization form NFC.
pub(crate) fn nfc(text: &str) -> String {
    const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
    NFC.normalize(text).into_owned()
}

/// Case-folded. Uppercased first, because some letters have two lowercase forms (σ and ς) or expand when uppercased (ß).
fn folded(text: &str) -> String {
    nfc(&text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>())
}

/// The distinct tags, sorted; of equal tags, the first is kept.
pub fn set_of(tags: impl IntoIterator<Item = Tag>) -> Vec<Tag> {
    let mut tags: Vec<Tag> = tags.into_iter().collect();
    tags.sort();
    tags.dedup();
    tags
}

/// Applies the rules to the tags of a link.
pub(crate) fn check(tags: &[String]) -> Result<Vec<Tag>, Invalid> {
    check_field("tags", tags)
}

/// The same to tags in another field.
pub(crate) fn check_field(field: &'static str, tags: &[String]) -> Result<Vec<Tag>, Invalid> {
    check_in(field, &ErrorCode::InvalidTag, tags)
}

/// Applies the rules to the tags of a filter.
pub(crate) fn check_filter(tags: &[String]) -> Result<Vec<Tag>, Invalid> {
    check_in("tag", &ErrorCode::BadRequest, tags)
}

fn check_in(field: &'static str, code: &ErrorCode, tags: &[String]) -> Result<Vec<Tag>, Invalid> {
    let wrong = |message: String| Invalid::field(code.clone(), field, format!("{field}: {message}"));
    if tags.len() > MAX_TAGS {
        return Err(wrong(format!("must contain at most {MAX_TAGS} tags")));
    }
    let tags = tags.iter().map(|text| Tag::parse(text).map_err(&wrong));
    Ok(set_of(tags.collect::<Result<Vec<_>, _>>()?))
}

/// An array of strings, or null. Keeps only as many as are needed to detect that there are too many.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    object::texts(deserializer, MAX_TAGS)
}

/// The same in an update.
pub(crate) fn patch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Vec<String>>, D::Error> {
    optional(deserializer).map(Patch::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_rule_of_a_tag() {
        let long = |n: usize| "ä".repeat(n);
        for (text, expected) in [
            ("spring", Some("spring")),
            ("  Spring Sale ", Some("Spring Sale")),
            ("\u{a0}spring\u{3000}", Some("spring")),
            ("e\u{301}te\u{301}", Some("été")),
            ("👋", Some("👋")),
            ("a;b|c/d?e#f%g\"h'i<j>", Some("a;b|c/d?e#f%g\"h'i<j>")),
            (&long(40), Some(&*long(40))),
            // Counted after composition: 80 characters as they are sent.
            (&"a\u{308}".repeat(40), Some(&*long(40))),
            (&format!("  {}  ", long(40)), Some(&*long(40))),
            (&long(41), None),
            ("", None),
            (" \t ", None),
            ("a,b", None),
            (",", None),
            ("a\u{7}b", None),
            ("a\nb", None),
            ("a\u{9f}b", None),
            ("a\u{200b}b", None),
            ("\u{202e}gnirps", None),
            ("spring\u{feff}", None),
            ("👩\u{200d}👩\u{200d}👧", Some("👩\u{200d}👩\u{200d}👧")),
        ] {
            assert_eq!(Tag::parse(text).ok().as_ref().map(Tag::as_str), expected, "{text:?}");
        }
    }

    #[test]
    fn tags_are_equal_without_case() {
        let tag = |text: &str| Tag::parse(text).expect("a tag");
        for (one, other, same) in [
            ("Spring", "sPRING", true),
            ("ÄRGER", "a\u{308}rger", true),
            ("ΟΔΟΣ", "οδος", true),
            ("STRASSE", "straße", true),
            ("spring", "spring ", true),
            ("spring", "springs", false),
            ("spring-1", "spring_1", false),
            ("cafe", "café", false),
        ] {
            assert_eq!(tag(one) == tag(other), same, "{one} {other}");
        }
        let sent = ["b", "Ä", "a", "B", "ä"].map(str::to_owned);
        let shown: Vec<_> = check(&sent).expect("tags").into_iter().map(Tag::into_text).collect();
        assert_eq!(shown, ["a", "b", "Ä"]);
    }

    #[test]
    fn a_link_has_at_most_twenty() {
        let tags = |n: usize| (0..n).map(|at| format!("tag {at}")).collect::<Vec<_>>();
        assert_eq!(check(&tags(20)).map(|tags| tags.len()), Ok(20));
        let refused = check(&tags(21)).expect_err("too many");
        assert_eq!((refused.code.as_str(), refused.field.as_deref()), ("invalid_tag", Some("tags")));
        let refused = check_filter(&[String::new()]).expect_err("a blank tag");
        assert_eq!((refused.code.as_str(), refused.field.as_deref()), ("bad_request", Some("tag")));
    }

    proptest! {
        #[test]
        fn a_tag_is_what_it_is_read_as(text in "\\PC{0,60}") {
            if let Ok(tag) = Tag::parse(&text) {
                let again = Tag::parse(tag.as_str()).expect("a tag");
                prop_assert_eq!((again.as_str(), again.key()), (tag.as_str(), tag.key()));
                prop_assert_eq!(&Tag::of_stored(tag.as_str().to_owned()), &tag);
            }
        }

        #[test]
        fn case_makes_no_other_tag(text in "[a-zA-ZäÄßςσΣéÉ ]{1,10}") {
            if let Ok(tag) = Tag::parse(&text) {
                for other in [text.to_lowercase(), text.to_uppercase()] {
                    prop_assert_eq!(&Tag::parse(&other).expect("a tag"), &tag);
                }
            }
        }
    }
}
