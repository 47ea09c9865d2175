//! Takes secrets out of text that goes to stderr, whoever put them there.

use std::borrow::Cow;

/// Characters of a key that may be shown, as in `key_prefix`.
const SHOWN: usize = 18;

/// What a secret of the service begins with, and how much of it may be seen.
const KINDS: &[(&str, usize)] = &[
    ("dl_live_", SHOWN),
    ("pk_live_", SHOWN),
    ("whsec_", 6),
    ("session_token=", 14),
    // A mailed link, the form it is sent with, and a mailed code.
    ("token=", 6),
    ("\"token\":\"", 9),
];

/// The text with every secret cut to its public prefix.
pub(crate) fn secrets(text: &str) -> Cow<'_, str> {
    if !KINDS.iter().any(|(prefix, _)| text.contains(prefix)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((start, prefix, shown)) = next(rest) {
        let word = &rest[start..];
        let over = |c: char| !(c.is_ascii_alphanumeric() || "_+/=-".contains(c));
        let end = word[prefix..].find(over).map_or(word.len(), |end| prefix + end);
        out.push_str(&rest[..start]);
        out.push_str(&word[..end.min(shown)]);
        if end > shown {
            out.push_str("...");
        }
        rest = &word[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn next(text: &str) -> Option<(usize, usize, usize)> {
    KINDS.iter().filter_map(|(prefix, shown)| Some((text.find(prefix)?, prefix.len(), *shown))).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_prefix_stays() {
        let key = format!("dl_live_{}", "3f".repeat(24));
        let shown = secrets(&format!("a '{key}' b {key}, c")).into_owned();
        assert_eq!(shown, "a 'dl_live_3f3f3f3f3f...' b dl_live_3f3f3f3f3f..., c");
        assert_eq!(secrets("secret whsec_AbC+/d= set"), "secret whsec_... set");
        assert_eq!(secrets("Cookie: session_token=0123456789abcdef; x"), "Cookie: session_token=...; x");
        assert_eq!(secrets("https://x/callback?token=0123ab&next=/a"), "https://x/callback?token=...&next=/a");
        assert_eq!(secrets(r#"{"email":"a@b.c","token":"7GK2QX"}"#), r#"{"email":"a@b.c","token":"..."}"#);
        assert_eq!(secrets("token="), "token=");
        assert_eq!(secrets("dl_live_ and 48 hex digits"), "dl_live_ and 48 hex digits");
        assert_eq!(secrets("dl_live_3f3f3f3f3f..."), "dl_live_3f3f3f3f3f...");
    }
}
