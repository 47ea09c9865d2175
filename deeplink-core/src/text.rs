//! What may stand in a stored text: no control characters but the few that prose needs.

/// U+0000–001F and U+007F–009F: never stored, never shown.
pub fn is_control(c: char) -> bool {
    c.is_control()
}

/// The first control character of a text, if it has one. With `prose`, TAB, LF and CR are let through: descriptions
/// and metadata values may span lines.
pub fn find_control(text: &str, prose: bool) -> Option<char> {
    text.chars().find(|&c| is_control(c) && !(prose && matches!(c, '\t' | '\n' | '\r')))
}

/// A text as somebody else may see it: control characters removed and cut to `max` characters.
pub fn clean(text: &str, max: usize) -> String {
    text.chars().filter(|&c| !is_control(c)).take(max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
