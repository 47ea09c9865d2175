//! Aliases: more addresses of a link, so that the printed short links of an earlier service go on working.

use std::borrow::Cow;

use serde::Deserializer;

use super::id::{RESERVED_WORDS, is_link_id, served_words};
use crate::error::{ErrorCode, Invalid};
use crate::object;
use crate::patch::Patch;
use crate::tag::nfc;

/// Maximum aliases of a link.
pub const MAX_ALIASES: usize = 5;
/// Maximum characters of an alias.
pub const MAX_ALIAS: usize = 200;
/// Maximum segments of an alias.
const MAX_SEGMENTS: usize = 3;

/// A valid alias: a link ID, or a path of up to three segments, decoded, in Unicode normalization form NFC, without a
/// slash at either end. Aliases are case-sensitive, as IDs are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias(String);

impl Alias {
    /// Validates an alias; a slash before it is removed, and percent-encoding is decoded. The error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(path) = canonical(text.strip_prefix('/').unwrap_or(text)) else {
            return Err(format!(
                "use an ID, or up to {MAX_SEGMENTS} path segments of letters, digits, '-', '.', '_' and '~', at most \
                 {MAX_ALIAS} characters in total"
            ));
        };
        if is_reserved(&path) {
            return Err("this path is reserved".to_owned());
        }
        Ok(Self(path.into_owned()))
    }

    /// An alias that was validated when it was stored.
    pub fn of_stored(text: String) -> Self {
        Self(text)
    }

    /// The alias as it is shown.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The alias as it is shown.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// The path of a request in the form that aliases are stored in, if a link can have such an alias. `path` has no slash
/// before it. One slash at the end is removed, as printed addresses may have it, unless the rest has the form of an ID.
pub fn canonical(path: &str) -> Option<Cow<'_, str>> {
    // At most 12 bytes for a character that is percent-encoded.
    if path.len() > MAX_ALIAS * 12 {
        return None;
    }
    let is_id = |path: &str| decoded(path).is_some_and(|path| is_link_id(&path));
    let without_slash = path.strip_suffix('/').filter(|path| !is_id(path));
    let mut path = decoded(without_slash.unwrap_or(path))?;
    if !path.is_ascii() {
        path = Cow::Owned(nfc(&path));
    }
    let is_whole = path.split('/').count() <= MAX_SEGMENTS && path.split('/').all(is_segment);
    (is_whole && path.chars().count() <= MAX_ALIAS).then_some(path)
}

/// The ID or alias in the path of a link's URL, with or without the slash before it. `None` if no link can have it.
pub fn name_in_path(path: &str) -> Option<Cow<'_, str>> {
    let path = path.strip_prefix('/').unwrap_or(path);
    // No alias begins with this: the service serves links there on every host.
    canonical(path.strip_prefix("r/").unwrap_or(path))
}

/// Decodes the percent-encoding of a path once. `None` if it is malformed, or hides a slash.
pub fn decoded(path: &str) -> Option<Cow<'_, str>> {
    if !path.contains('%') {
        return Some(Cow::Borrowed(path));
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        (rest, ()) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                let byte = digit(*high)? << 4 | digit(*low)?;
                if byte == b'/' {
                    return None;
                }
                (tail, bytes.push(byte))
            }
            (byte, tail) => (tail, bytes.push(*byte)),
        };
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

fn is_segment(segment: &str) -> bool {
    // Programs drop these two from a path before they send it.
    !matches!(segment, "" | "." | "..") && segment.chars().all(is_allowed)
}

fn is_allowed(c: char) -> bool {
    match c {
        '-' | '.' | '_' | '~' => true,
        c if c.is_ascii() => c.is_ascii_alphanumeric(),
        c => !c.is_control() && !c.is_whitespace() && !is_invisible(c),
    }
}

/// Characters that cannot be seen, or that change the direction of others: they would make two addresses look alike.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether the service serves the path itself or may do so, or programs look for a file there on every host.
fn is_reserved(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    if first == path && is_link_id(path) {
        return RESERVED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(path));
    }
    let stem = first.split('.').next().unwrap_or_default();
    stem.is_empty()
        || first.starts_with("apple-touch-icon")
        || served_words().iter().any(|word| word.eq_ignore_ascii_case(stem))
}

fn wrong(field: impl Into<Cow<'static, str>>, message: String) -> Invalid {
    Invalid::field(ErrorCode::InvalidAlias, field, message)
}

/// Applies the rules to the aliases of a link, and returns the different ones in alphabetical order.
pub(super) fn check(aliases: &[String], custom_id: Option<&str>) -> Result<Vec<Alias>, Invalid> {
    if aliases.len() > MAX_ALIASES {
        return Err(wrong("aliases", format!("aliases: must contain at most {MAX_ALIASES} aliases")));
    }
    let mut checked = Vec::with_capacity(aliases.len());
    for (index, text) in aliases.iter().enumerate() {
        let field = format!("aliases[{index}]");
        let alias = Alias::parse(text).map_err(|why| wrong(field.clone(), format!("{field}: {why}")))?;
        if Some(alias.as_str()) == custom_id {
            return Err(own_id(field));
        }
        checked.push(alias);
    }
    Ok(set_of(checked))
}

/// Refuses a link's own ID among its new aliases.
pub fn check_not_own(aliases: &[String], link_id: &str) -> Result<(), Invalid> {
    index_of(aliases, link_id).map_or(Ok(()), |index| Err(own_id(format!("aliases[{index}]"))))
}

/// The field of an alias in a request with these aliases.
pub fn field_of(aliases: &[String], alias: &Alias) -> Cow<'static, str> {
    index_of(aliases, alias.as_str()).map_or("aliases".into(), |index| format!("aliases[{index}]").into())
}

fn index_of(aliases: &[String], alias: &str) -> Option<usize> {
    aliases.iter().position(|text| Alias::parse(text).is_ok_and(|parsed| parsed.as_str() == alias))
}

fn own_id(field: String) -> Invalid {
    let message = format!("{field}: this is the link's own ID");
    wrong(field, message)
}

/// The refusal of aliases for several links at once.
pub(crate) fn of_many(field: &'static str) -> Invalid {
    wrong(
        field,
        format!("{field}: an alias belongs to a single link, so several links cannot be given the same aliases"),
    )
}

/// The distinct aliases, in alphabetical order.
pub fn set_of(aliases: impl IntoIterator<Item = Alias>) -> Vec<Alias> {
    let mut aliases: Vec<Alias> = aliases.into_iter().collect();
    aliases.sort();
    aliases.dedup();
    aliases
}

/// An array of strings, or null. Keeps only as many as are needed to detect that there are too many.
pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    object::texts(deserializer, MAX_ALIASES)
}

/// The same in an update.
pub(super) fn patch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Patch<Vec<String>>, D::Error> {
    optional(deserializer).map(Patch::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_of_an_alias() {
        let long = |n: usize| "a".repeat(n);
        for (text, expected) in [
            ("spring-42", Some("spring-42")),
            ("/spring-42", Some("spring-42")),
            ("3xYz_9", Some("3xYz_9")),
            ("a", Some("a")),
            ("-ab-", Some("-ab-")),
            ("l/spring", Some("l/spring")),
            ("l/2024/spring.html", Some("l/2024/spring.html")),
            ("app/spring", Some("app/spring")),
            ("caf%C3%A9", Some("café")),
            ("cafe\u{301}", Some("café")),
            ("👋", Some("👋")),
            (&long(200), Some(&*long(200))),
            (&"ä".repeat(200), Some(&*"ä".repeat(200))),
            (&long(201), None),
            ("", None),
            ("/", None),
            ("//a", None),
            ("a/", Some("a")),
            ("l/spring/", Some("l/spring")),
            ("l/spring//", None),
            ("spring-42/", None),
            ("a//b", None),
            ("a/b/c/d", None),
            ("./a", None),
            ("a/../b", None),
            ("a%2Fb", None),
            ("a%2", None),
            ("a%25", None),
            ("%ff", None),
            ("a b", None),
            ("a,b", None),
            ("a?b", None),
            ("a#b", None),
            ("a\\b", None),
            ("a:b", None),
            ("https://go.example.com/a", None),
            ("a\u{7}b", None),
            ("a\u{200b}b", None),
            ("a\u{202e}b", None),
            ("a\u{a0}b", None),
        ] {
            assert_eq!(Alias::parse(text).ok().as_ref().map(Alias::as_str), expected, "{text:?}");
        }
    }

    #[test]
    fn paths_of_the_service_are_reserved() {
        for path in RESERVED_WORDS.iter().copied().filter(|word| is_link_id(word)) {
            assert!(Alias::parse(path).is_err() && Alias::parse(&path.to_uppercase()).is_err(), "{path}");
        }
        for path in [
            "r/abc",
            "R/abc",
            "v1/links",
            "v1",
            "docs/api",
            "Health",
            "in/x",
            ".well-known/assetlinks.json",
            ".env",
            "robots.txt",
            "favicon.ico",
            "sitemap.xml",
            "openapi.json",
            "apple-touch-icon.png",
            "account/links",
            "bulk",
        ] {
            assert!(Alias::parse(path).is_err(), "{path}");
        }
        for path in ["app/x", "api/x", "static/x", "x/docs", "x.docs", "rr/abc"] {
            assert!(Alias::parse(path).is_ok(), "{path}");
        }
    }

    #[test]
    fn a_link_has_at_most_five_and_not_its_own_id() {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let refused = |list: &[&str]| check(&texts(list), Some("own")).expect_err("refused");
        for (list, field) in [
            (&["a1", "a2", "a3", "a4", "a5", "a6"][..], "aliases"),
            (&["a1", "a b"], "aliases[1]"),
            (&["a1", "a2", "/own"], "aliases[2]"),
        ] {
            let invalid = refused(list);
            assert_eq!((invalid.code.as_str(), invalid.field.as_deref()), ("invalid_alias", Some(field)), "{list:?}");
        }
        let shown: Vec<_> = check(&texts(&["b", "/a", "b", "A"]), None).expect("aliases");
        assert_eq!(shown.iter().map(Alias::as_str).collect::<Vec<_>>(), ["A", "a", "b"]);
        let own = check_not_own(&texts(&["b", "/a"]), "a").expect_err("refused");
        assert_eq!(own.field.as_deref(), Some("aliases[1]"));
        assert!(check_not_own(&texts(&["b", "/a"]), "c").is_ok());
        let field = |text: &str| field_of(&texts(&["b", "/a", "a"]), &Alias::parse(text).expect("an alias"));
        assert_eq!((field("a"), field("b"), field("c")), ("aliases[1]".into(), "aliases[0]".into(), "aliases".into()));
    }

    #[test]
    fn a_path_is_read_as_its_alias_is_stored() {
        for (path, alias) in [
            ("l/spring", Some("l/spring")),
            ("l/spr%69ng", Some("l/spring")),
            ("caf%c3%a9", Some("café")),
            ("cafe%CC%81", Some("café")),
            ("l%2fspring", None),
            ("l/spring/", Some("l/spring")),
            ("spring/", None),
            ("l/spr%2569ng", None),
        ] {
            assert_eq!(canonical(path).as_deref(), alias, "{path}");
        }
    }

    #[test]
    fn a_link_is_named_by_its_id_an_alias_or_its_path() {
        for (path, name) in [
            ("spring", Some("spring")),
            ("/spring", Some("spring")),
            ("r/spring", Some("spring")),
            ("/r/spring", Some("spring")),
            ("/l/spr%69ng/", Some("l/spring")),
            ("l/spring", Some("l/spring")),
            ("rr/spring", Some("rr/spring")),
            ("r", Some("r")),
            ("/r/", None),
            ("//spring", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(name_in_path(path).as_deref(), name, "{path:?}");
        }
    }
}
