//! Credentials: how they are made, written, hashed and shown. Every random byte of the product comes from [`Random`].
//!
//! A secret never shows itself: `Debug` and `Display` print its public prefix at most, comparison takes constant time,
//! and [`SecretKey::expose`] is the only way to the text.

use std::fmt;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, RngExt, SeedableRng, TryRng};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The one source of randomness: a cryptographic generator, seeded by the operating system or, in tests, by a number.
#[derive(Debug)]
pub struct Random(StdRng);

impl Random {
    /// Seeded by the operating system.
    ///
    /// # Panics
    /// If the operating system provides no randomness: no secret can be made without it.
    pub fn system() -> Self {
        let mut seed = [0; 32];
        #[expect(
            clippy::expect_used,
            reason = "without randomness no credential may be made, so the process must not continue"
        )]
        SysRng.try_fill_bytes(&mut seed).expect("the operating system gives random bytes");
        Self(StdRng::from_seed(seed))
    }

    /// The same sequence for the same number: for tests and samples only.
    pub fn seeded(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.0.fill_bytes(buffer);
    }

    /// `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A number below `end`, each equally likely; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.0.random_range(0..end) }
    }

    /// One of `symbols`, each equally likely.
    pub fn pick(&mut self, symbols: &[u8]) -> char {
        symbols.get(self.0.random_range(0..symbols.len().max(1))).map_or('0', |b| char::from(*b))
    }
}

/// Lowercase hex of the SHA-256 of a text: how high-entropy tokens are stored.
pub fn sha256_hex(text: &str) -> String {
    sha256_hex_of(text.as_bytes())
}

/// The same of bytes.
pub fn sha256_hex_of(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => {$(
        $(#[$doc])*
        // Other text is accepted too, since a client may talk to a service whose keys look different; no key has its hash.
        #[derive(Clone, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// What each key of this service begins with.
            pub const PREFIX: &'static str = $prefix;
            /// Length of a key in characters.
            pub const LEN: usize = 56;

            /// A new key.
            pub fn generate(random: &mut Random) -> Self {
                Self(format!("{}{}", Self::PREFIX, hex::encode(random.bytes::<24>())))
            }

            /// Takes a key as it was entered.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The key itself. The caller is responsible for where it goes.
            pub fn expose(&self) -> &str {
                &self.0
            }

            /// Whether the text has the form that this service gives its keys.
            pub fn is_well_formed(&self) -> bool {
                self.0.strip_prefix(Self::PREFIX).is_some_and(|rest| rest.len() == 48 && is_lower_hex(rest))
            }

            /// The first 18 characters and three dots: what lists and logs may show.
            pub fn shown_prefix(&self) -> String {
                let end = self.0.char_indices().nth(18).map_or(self.0.len(), |(at, _)| at);
                format!("{}...", &self.0[..end])
            }

            /// SHA-256 in hex: how the key is stored and looked up.
            pub fn hash(&self) -> String {
                sha256_hex(&self.0)
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
            }
        }

        impl Eq for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Only text that is certainly one of our keys may show its prefix: a pasted password must not.
                if self.is_well_formed() { f.write_str(&self.shown_prefix()) } else { f.write_str("[secret]") }
            }
        }
    )+};
}

keys! {
    /// A secret key: `dl_live_` followed by 48 lowercase hex digits, 24 bytes from a cryptographic generator.
    SecretKey = "dl_live_";
    /// A publishable key, for apps and web pages: `pk_live_` followed by 48 lowercase hex digits.
    PublishableKey = "pk_live_";
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A token of a session, a sign-in link, an invitation or a proof: 64 lowercase hex digits (32 bytes), stored as its
/// SHA-256.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Token(String);

impl Token {
    /// A new token.
    pub fn generate(random: &mut Random) -> Self {
        Self(hex::encode(random.bytes::<32>()))
    }

    /// Takes a token as it was entered; text of another form is accepted, but unknown to the service.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The token itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the text has the form that this service gives its tokens.
    pub fn is_well_formed(&self) -> bool {
        self.0.len() == 64 && is_lower_hex(&self.0)
    }

    /// SHA-256 in hex: how the token is stored and looked up.
    pub fn hash(&self) -> String {
        sha256_hex(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[token]")
    }
}

/// A confirmation code that is mailed and typed: 6 characters of `A-Z0-9`, each equally likely, compared in upper case
/// and without the space around it. It has too little entropy for a bare hash: the service stores a keyed one.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct ConfirmationCode(String);

impl ConfirmationCode {
    /// Length in characters.
    pub const LEN: usize = 6;
    const SYMBOLS: &'static [u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    /// A new code.
    pub fn generate(random: &mut Random) -> Self {
        Self((0..Self::LEN).map(|_| random.pick(Self::SYMBOLS)).collect())
    }

    /// Takes a code as it was typed, trimmed and converted to upper case. `None` when it does not have the form of a
    /// code.
    pub fn typed(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_uppercase();
        let is_code = text.len() == Self::LEN && text.bytes().all(|b| Self::SYMBOLS.contains(&b));
        is_code.then_some(Self(text))
    }

    /// The code itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ConfirmationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[code]")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn chi_square(counts: &[f64]) -> f64 {
        let buckets = u32::try_from(counts.len()).map_or(1.0, f64::from);
        let expected = counts.iter().sum::<f64>() / buckets;
        counts.iter().map(|seen| (seen - expected).powi(2) / expected).sum()
    }

    #[test]
    fn keys_have_the_documented_form() {
        let key = SecretKey::generate(&mut Random::seeded(7));
        assert_eq!(key.expose().len(), SecretKey::LEN);
        assert!(key.is_well_formed());
        assert_eq!(key.shown_prefix(), format!("{}...", &key.expose()[..18]));
        assert_eq!(key.hash().len(), 64);
        assert!(!SecretKey::new("dl_live_short").is_well_formed());
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        let key = SecretKey::generate(&mut Random::seeded(7));
        assert!(!format!("{key:?} {key}").contains(&key.expose()[20..]));
        let pasted = SecretKey::new("correct horse battery staple");
        assert_eq!(format!("{pasted:?} {pasted}"), "[secret] [secret]");
        assert_eq!(format!("{:?}", Token::generate(&mut Random::seeded(7))), "[token]");
    }

    #[test]
    fn codes_are_read_as_people_type_them() {
        let code = ConfirmationCode::generate(&mut Random::seeded(7));
        assert_eq!(format!("{code:?} {}", code.expose().len()), "[code] 6");
        for (typed, read) in [
            (" ab12cz\n", Some("AB12CZ")),
            ("AB12C", None),
            ("AB12CZ7", None),
            ("AB-2CZ", None),
            ("", None),
            ("\u{17f}B12CZ", None),
        ] {
            assert_eq!(ConfirmationCode::typed(typed).as_ref().map(ConfirmationCode::expose), read, "{typed:?}");
        }
    }

    #[test]
    fn equality_is_by_text() {
        assert_eq!(SecretKey::new("a"), SecretKey::new("a"));
        assert_ne!(SecretKey::new("a"), SecretKey::new("b"));
    }
}
