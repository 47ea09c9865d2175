//! Ids of links: chosen by the caller, or generated.

use crate::error::{ErrorCode, Invalid};
use crate::secret::Random;

/// Characters of a generated link id, each one of `0-9A-Z`.
pub const GENERATED_ID_LEN: usize = 8;

const GENERATED_SYMBOLS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// First path segments that the service serves itself or may serve, then words that mislead: never a custom id.
pub const RESERVED_WORDS: &[&str] = &[
    "r",
    "v1",
    "in",
    "health",
    "ready",
    "openapi",
    "openapi-json",
    "docs",
    "llms",
    "robots",
    "security",
    "metrics",
    "account",
    "signin",
    "sdk",
    "mcp",
    "favicon",
    "sitemap",
    "admin",
    "api",
    "app",
    "assets",
    "auth",
    "callback",
    "login",
    "logout",
    "null",
    "oauth",
    "signup",
    "static",
    "undefined",
    "well-known",
    "bulk",
];

/// Number of words at the beginning of [`RESERVED_WORDS`] that are served, or that programs look for on every host.
const SERVED: usize = 18;

/// The reserved words that no longer path may begin with.
pub(super) fn served_words() -> &'static [&'static str] {
    &RESERVED_WORDS[..SERVED]
}

/// Whether a text can be the id of any link: 3 to 64 of `A-Z a-z 0-9 -`. Ids are case-sensitive.
pub fn is_link_id(text: &str) -> bool {
    (3..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Checks an id that a caller chose: a link id that neither starts nor ends with `-` and is not a reserved word.
pub fn check_custom_id(text: &str) -> Result<(), Invalid> {
    let wrong = |message| Err(Invalid::field(ErrorCode::InvalidCustomId, "custom_id", message));
    if !is_link_id(text) {
        return wrong("use 3 to 64 letters, digits and hyphens, with a letter or digit at each end");
    }
    if text.starts_with('-') || text.ends_with('-') {
        return wrong("an ID must not start or end with '-'");
    }
    if RESERVED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return wrong("this word is reserved");
    }
    Ok(())
}

/// A new id of 8 characters of `0-9A-Z`, each equally likely.
pub fn generate_id(random: &mut Random) -> String {
    (0..GENERATED_ID_LEN).map(|_| random.pick(GENERATED_SYMBOLS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L8: 3 to 64 ASCII letters, digits and inner hyphens.
    #[test]
    fn l8_charset_and_length_of_custom_ids() {
        for id in ["ａｂｃ", "pа1", "a_b", "-ab", "ab-", "ab", "", "a b", "a.b", "a/b", "a%62", &"a".repeat(65)] {
            assert!(check_custom_id(id).is_err(), "{id}");
        }
        for id in ["abc", "a-b", "A1B2", "123", &"a".repeat(64)] {
            assert!(check_custom_id(id).is_ok(), "{id}");
        }
    }

    /// L7: reserved words are refused whatever their case.
    #[test]
    fn l7_reserved_words_are_refused() {
        for word in RESERVED_WORDS {
            assert!(check_custom_id(word).is_err() && check_custom_id(&word.to_uppercase()).is_err(), "{word}");
        }
        assert_eq!(served_words().last(), Some(&"sitemap"));
    }

    /// X16: generated ids are uniform over `0-9A-Z`: a million of them show no preference for a symbol. They contain a
    /// collision in about one run of six, and practically never eight.
    #[test]
    fn x16_generated_ids_are_uniform() {
        let mut random = Random::system();
        let mut counts = [0_f64; 36];
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1_000_000 {
            let id = generate_id(&mut random);
            assert_eq!(id.len(), GENERATED_ID_LEN);
            for byte in id.bytes() {
                counts[GENERATED_SYMBOLS.iter().position(|s| *s == byte).expect("a symbol")] += 1.0;
            }
            seen.insert(id);
        }
        assert!(seen.len() > 1_000_000 - 8, "{} are different", seen.len());
        // 66.6 is the 0.999 quantile of chi-square with 35 degrees of freedom; 1.5 times that rules out false alarms.
        assert!(crate::secret::tests::chi_square(&counts) < 100.0);
    }
}
