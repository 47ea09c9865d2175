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

/// The first character of a text that nobody sees and that makes it differ from one that looks the same: one without width, or
/// one that changes the reading direction. A joiner between characters that are not ASCII is not one: emoji and some scripts
/// need it.
pub fn find_hidden(text: &str) -> Option<char> {
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_between = before.is_some_and(is_joinable) && chars.peek().copied().is_some_and(is_joinable);
        if is_hidden(c) || is_joiner(c) && !is_between {
            return Some(c);
        }
        before = Some(c);
    }
    None
}

/// U+200C and U+200D.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

fn is_joinable(c: char) -> bool {
    !c.is_ascii() && !is_joiner(c) && !c.is_whitespace()
}

/// Whether a character has no width, or changes the reading direction. Joiners are not among them.
pub fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    )
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

    #[test]
    fn hidden_characters_are_found() {
        let emoji = ["👋🏽", "❤\u{fe0f}", "👩\u{200d}👩\u{200d}👧", "🏴\u{e0067}\u{e0062}\u{e007f}"];
        let scripts = ["Größe", "日本", "\u{645}\u{6cc}\u{200c}\u{62e}", "\u{915}\u{94d}\u{200d}\u{937}"];
        for text in emoji.into_iter().chain(scripts).chain(["", "spring"]) {
            assert_eq!(find_hidden(text), None, "{text:?}");
        }
        for (text, hidden) in [
            ("a\u{200b}b", '\u{200b}'),
            ("a\u{200d}b", '\u{200d}'),
            ("\u{200d}👋", '\u{200d}'),
            ("👋\u{200d}", '\u{200d}'),
            ("ä\u{200d}\u{200d}ö", '\u{200d}'),
            ("a\u{202e}b", '\u{202e}'),
            ("\u{2066}a", '\u{2066}'),
            ("a\u{feff}", '\u{feff}'),
        ] {
            assert_eq!(find_hidden(text), Some(hidden), "{text:?}");
        }
    }
}
