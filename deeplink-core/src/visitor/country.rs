use std::fmt;

/// A country or territory, by its two-letter code (ISO 3166-1 alpha-2), or none if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country(u16);

impl Country {
    /// Unknown.
    pub const UNKNOWN: Self = Self(0);
    /// Codes that databases and proxies use for an unknown country.
    const NONE: [&'static [u8; 2]; 2] = [b"XX", b"ZZ"];

    /// Reads a two-letter code; anything else is unknown, such as `XX` and the `T1` of some proxies.
    pub fn read(code: &[u8]) -> Self {
        let Ok(letters) = <[u8; 2]>::try_from(code.trim_ascii()) else { return Self::UNKNOWN };
        let letters = letters.map(|letter| letter.to_ascii_uppercase());
        if !letters.iter().all(u8::is_ascii_uppercase) || Self::NONE.contains(&&letters) {
            return Self::UNKNOWN;
        }
        let [first, second] = letters.map(|letter| u16::from(letter - b'A'));
        Self(1 + 26 * first + second)
    }

    /// A small number for storage: 0 if unknown, else 1 for `AA` to 676 for `ZZ`.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The country stored under this number.
    pub fn from_code(code: u16) -> Self {
        if code <= 26 * 26 { Self(code) } else { Self::UNKNOWN }
    }
}

/// The two letters, or `unknown`.
impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.0.checked_sub(1) else { return f.write_str("unknown") };
        let letter = |nth: u16| char::from(b'A' + u8::try_from(nth).unwrap_or(0));
        write!(f, "{}{}", letter(code / 26), letter(code % 26))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_country_is_two_letters() {
        for (code, shown) in [("DE", "DE"), (" gb ", "GB"), ("AA", "AA"), ("ZW", "ZW"), ("aA", "AA")] {
            let country = Country::read(code.as_bytes());
            assert_eq!((country.to_string().as_str(), Country::from_code(country.code())), (shown, country));
        }
        for none in ["", "D", "DEU", "T1", "XX", "xx", "ZZ", "--", "D\u{c9}", "1"] {
            assert_eq!(Country::read(none.as_bytes()), Country::UNKNOWN, "{none}");
        }
        assert_eq!(Country::UNKNOWN.to_string(), "unknown");
        assert_eq!((Country::read(b"AA").code(), Country::read(b"ZY").code()), (1, 675));
        assert_eq!(Country::from_code(677), Country::UNKNOWN);
    }
}
