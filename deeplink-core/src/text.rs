//! Rules for stored texts: their length, and no control characters except the few that prose needs.

use std::borrow::Cow;

use crate::error::{ErrorCode, Invalid};

/// U+0000–001F and U+007F–009F: never stored, never shown.
pub fn is_control(c: char) -> bool {
    c.is_control()
}

/// The first control character of a text, if it has one. With `prose`, TAB, LF and CR are allowed: descriptions
/// and metadata values may span lines.
pub fn find_control(text: &str, prose: bool) -> Option<char> {
    text.chars().find(|&c| is_control(c) && !(prose && matches!(c, '\t' | '\n' | '\r')))
}

/// A text that is safe to show: control characters removed and cut to `max` characters.
pub fn clean(text: &str, max: usize) -> String {
    text.chars().filter(|&c| !is_control(c)).take(max).collect()
}

/// A word quoted for a POSIX shell where needed.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// The rules of one text field of a request.
pub(crate) struct TextField {
    pub(crate) name: &'static str,
    /// Maximum characters.
    pub(crate) max: usize,
    /// The error code of a refusal.
    pub(crate) code: ErrorCode,
    /// Whether it may span lines.
    pub(crate) prose: bool,
}

impl TextField {
    pub(crate) fn line(name: &'static str, max: usize, code: ErrorCode) -> Self {
        Self { name, max, code, prose: false }
    }

    pub(crate) fn prose(name: &'static str, max: usize, code: ErrorCode) -> Self {
        Self { prose: true, ..Self::line(name, max, code) }
    }

    /// Applies the rules to a text that may be absent; a blank one counts as absent.
    pub(crate) fn optional(self, text: Option<&str>) -> Result<Option<String>, Invalid> {
        let Some(text) = text else { return Ok(None) };
        if text.trim().is_empty() && find_control(text, self.prose).is_none() {
            return Ok(None);
        }
        self.check(text).map(|()| Some(text.to_owned()))
    }

    /// Applies the rules to a text that must not be blank.
    pub(crate) fn required(self, text: &str) -> Result<(), Invalid> {
        if text.trim().is_empty() {
            let message = format!("{} must not be blank", self.name);
            return Err(Invalid::field(self.code, self.name, message));
        }
        self.check(text)
    }

    /// Applies the rules.
    pub(crate) fn check(self, text: &str) -> Result<(), Invalid> {
        let Self { name, max, code, prose } = self;
        let wrong = |message| Err(Invalid::field(code, name, message));
        if find_control(text, prose).is_some() {
            return wrong(format!("{name} contains a control character"));
        }
        let count = text.chars().count();
        if count > max { wrong(format!("{name} must be at most {max} characters (currently {count})")) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_quoted_words_back() {
        assert_eq!(shell_word("/home/me/a-b_c.toml"), "/home/me/a-b_c.toml");
        assert_eq!(shell_word("my links.csv"), "'my links.csv'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn control_characters_are_found_and_prose_has_lines() {
        for c in (0..0x20).chain(0x7f..0xa0).filter_map(char::from_u32) {
            let text = format!("a{c}b");
            assert_eq!(find_control(&text, false), Some(c));
            assert_eq!(find_control(&text, true).is_none(), matches!(c, '\t' | '\n' | '\r'));
            assert_eq!(clean(&text, 10), "ab");
        }
        assert_eq!(find_control("Grüße 👋", false), None);
        assert_eq!(clean("👋👋👋", 2), "👋👋");
    }
}
