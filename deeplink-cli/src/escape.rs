//! Text from elsewhere, made safe for a terminal: characters that could move the cursor, change the title or reverse
//! the reading direction become visible escapes.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character invisibly changes the reading direction.
const fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Control and bidi characters as `\u{1b}`; line breaks and tabs stay.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let hostile = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || is_bidi(c);
    replace(text, hostile, |out, c| write!(out, "\\u{{{:x}}}", u32::from(c)))
}

/// The same for one line of a table: line breaks and tabs would break it, so they are escaped too.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    replace(
        text,
        |c| c.is_control() || is_bidi(c),
        |out, c| match c {
            '\n' => out.write_str("\\n"),
            '\t' => out.write_str("\\t"),
            '\r' => out.write_str("\\r"),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)),
        },
    )
}

/// JSON text with the characters escaped that JSON itself lets through: U+007F to U+009F, and on a terminal bidi
/// controls. Outside strings JSON has none of them, so the text means the same.
pub(crate) fn json(text: &str, terminal: bool) -> Cow<'_, str> {
    let hostile = |c: char| matches!(c, '\u{7f}'..='\u{9f}') || terminal && is_bidi(c);
    replace(text, hostile, |out, c| write!(out, "\\u{:04x}", u32::from(c)))
}

fn replace(
    text: &str,
    hostile: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char) -> std::fmt::Result,
) -> Cow<'_, str> {
    let Some(first) = text.find(&hostile) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        // Writing to a string cannot fail.
        let escaped = hostile(c) && escape(&mut out, c).is_ok();
        if !escaped {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_become_visible() {
        assert_eq!(visible("a\u{1b}]0;x\u{7}b"), "a\\u{1b}]0;x\\u{7}b");
        assert_eq!(visible("line\n\ttab"), "line\n\ttab");
        assert_eq!(visible("\r\u{7f}\u{85}\u{9b}"), "\\u{d}\\u{7f}\\u{85}\\u{9b}");
        assert_eq!(visible("a\u{202e}b\u{2066}c\u{200f}\u{61c}"), "a\\u{202e}b\\u{2066}c\\u{200f}\\u{61c}");
        assert_eq!(visible("Grüße 👋 日本"), "Grüße 👋 日本");
        assert_eq!(one_line("a\nb\tc\r"), "a\\nb\\tc\\r");
    }

    #[test]
    fn json_stays_the_same_value() {
        let text = "{\"a\":\"\u{7f}\u{9b}\u{202e}é\"}";
        for terminal in [false, true] {
            let shown = json(text, terminal);
            assert_eq!(shown.contains('\u{202e}'), !terminal);
            assert!(!shown.contains('\u{7f}') && !shown.contains('\u{9b}'));
            let (before, after): (serde_json::Value, serde_json::Value) =
                (serde_json::from_str(text).expect("JSON"), serde_json::from_str(&shown).expect("JSON"));
            assert_eq!(before, after);
        }
    }
}
