//! Masks secrets in text that goes to stderr.

use std::borrow::Cow;

/// Characters of a key that may be shown, as in `key_prefix`.
const SHOWN: usize = 18;

/// The prefixes of the service's secrets, and how much of each may be shown.
const KINDS: &[(&str, usize)] = &[
    ("dl_live_", SHOWN),
    ("pk_live_", SHOWN),
    ("whsec_", 6),
    ("session_token=", 14),
    // A mailed link, the form that submits it, and a mailed code.
    ("token=", 6),
    ("\"token\":\"", 9),
];

/// The part of a source's URL before its token, which is never shown.
const SOURCE: &str = "/in/";
/// Hex digits of that token.
const TOKEN: usize = 64;

/// Whether this is only the prefix of a secret.
pub(crate) fn is_prefix(text: &str) -> bool {
    KINDS.iter().any(|(prefix, _)| *prefix == text)
}

/// The text with every secret cut to its public prefix.
pub(crate) fn secrets(text: &str) -> Cow<'_, str> {
    let Some(mut found) = next(text) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (start, prefix, shown) = found;
        let word = &rest[start..];
        let over = |c: char| !(c.is_ascii_alphanumeric() || "_+/=-".contains(c));
        let end = word[prefix..].find(over).map_or(word.len(), |end| prefix + end);
        out.push_str(&rest[..start]);
        out.push_str(&word[..end.min(shown)]);
        if end > shown {
            out.push_str("...");
        }
        rest = &word[end..];
        match next(rest) {
            Some(more) => found = more,
            None => break,
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Where the first secret begins, the length of its prefix, and how much of it may be shown.
fn next(text: &str) -> Option<(usize, usize, usize)> {
    let kinds = KINDS.iter().filter_map(|(prefix, shown)| Some((text.find(prefix)?, prefix.len(), *shown)));
    kinds.chain(source(text)).min()
}

/// The first token in the URL of a source. Other URLs may look the same except for the token.
fn source(text: &str) -> Option<(usize, usize, usize)> {
    let is_token = |at: &usize| {
        let hex = |byte: &u8| byte.is_ascii_hexdigit();
        text.as_bytes()[at + SOURCE.len()..].iter().take_while(|byte| hex(byte)).count() >= TOKEN
    };
    let at = text.match_indices(SOURCE).map(|(at, _)| at).find(is_token)?;
    Some((at, SOURCE.len(), SOURCE.len()))
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
        let source = format!("POST https://dl.example.com/in/{}?a=b 1", "5e".repeat(32));
        assert_eq!(secrets(&source), "POST https://dl.example.com/in/...?a=b 1");
        assert_eq!(secrets("https://example.com/in/shoes/in/hats"), "https://example.com/in/shoes/in/hats");
        assert_eq!(secrets("token="), "token=");
        assert_eq!(secrets("dl_live_ and 48 hex digits"), "dl_live_ and 48 hex digits");
        assert_eq!(secrets("dl_live_3f3f3f3f3f..."), "dl_live_3f3f3f3f3f...");
    }
}
