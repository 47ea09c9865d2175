//! Web addresses in one spelling, by which destinations that were taken down are recognized.
//!
//! Spellings of one address have http or https, any port, with or without `www.`, user name, repeated or last slashes or
//! fragment, a path in upper or lower case, parameters in any order and number, and percent-encoding where nearly all
//! servers read the same without it: everywhere but for what separates segments, parameters and the encoding itself.

use std::collections::BTreeSet;

use deeplink_core::secret::sha256_hex;
use url::{Position, Url};

use super::normal;

/// A web address: its page, and the parameters of its query.
pub(crate) struct Page {
    /// Without scheme, port and query.
    address: String,
    parameters: BTreeSet<String>,
}

impl Page {
    /// `None` for other schemes.
    pub(crate) fn of(destination: &str) -> Option<Self> {
        normal(destination).map(|url| Self::of_url(&url))
    }

    fn of_url(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let host = host.strip_prefix("www.").filter(|rest| rest.contains('.')).unwrap_or(host);
        let path = decoded(url.path(), b"/%").to_ascii_lowercase();
        let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        // In queries, forms write a space as +.
        let query = decoded(&url.query().unwrap_or_default().replace('+', "%20"), b"&=+%");
        let parameters = query.split('&').map(without_empty_value).filter(|parameter| !parameter.is_empty());
        Self {
            address: format!("//{host}/{}", segments.join("/")),
            parameters: parameters.map(str::to_owned).collect(),
        }
    }

    /// SHA-256 of the page, in hex.
    pub(crate) fn hash(&self) -> String {
        sha256_hex(&self.address)
    }

    /// The parameters, sorted, each once, joined by `&`.
    pub(crate) fn parameters(&self) -> String {
        self.parameters.iter().map(String::as_str).collect::<Vec<_>>().join("&")
    }

    /// Whether the address has these parameters of another, as [`Self::parameters`] gives them, and possibly more.
    pub(crate) fn has(&self, parameters: &str) -> bool {
        parameters.split('&').all(|parameter| parameter.is_empty() || self.parameters.contains(parameter))
    }
}

/// Identifies a destination that a tenant is refused: SHA-256 in hex, for web addresses of their one spelling. A URL of
/// another scheme is hashed as it is.
pub(crate) fn destination_hash(destination: &str) -> String {
    let Some(page) = Page::of(destination) else { return sha256_hex(destination) };
    let question = if page.parameters.is_empty() { "" } else { "?" };
    sha256_hex(&format!("{}{question}{}", page.address, page.parameters()))
}

/// The hashes by which a destination may be refused: its own, and what [`destination_hash`] was in earlier versions.
pub(crate) fn refusing_hashes(destination: &str) -> Vec<String> {
    let mut hashes = vec![destination_hash(destination)];
    if !destination.starts_with("http") {
        hashes.push(sha256_hex(destination));
    }
    if let Some(mut url) = normal(destination) {
        url.set_fragment(None);
        if url.query() == Some("") {
            url.set_query(None);
        }
        if matches!(url.port(), Some(80 | 443)) {
            let _ = url.set_port(None);
        }
        hashes.push(sha256_hex(&format!("//{}", without_needless_encoding(&url[Position::BeforeHost..]))));
    }
    hashes
}

/// `a` for `a=`.
fn without_empty_value(parameter: &str) -> &str {
    parameter.strip_suffix('=').filter(|name| !name.contains('=')).unwrap_or(parameter)
}

/// Decodes what is percent-encoded needlessly (RFC 3986, 6.2.2): unreserved characters.
fn without_needless_encoding(url: &str) -> String {
    decode(url, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// Decodes all characters of ASCII that are percent-encoded, but for these and control characters.
fn decoded(url: &str, except: &[u8]) -> String {
    decode(url, |byte| (b' '..0x7f).contains(&byte) && !except.contains(&byte))
}

/// Decodes these percent-encoded characters; other encodings get uppercase digits.
fn decode(url: &str, which: impl Fn(u8) -> bool) -> String {
    let mut parts = url.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let escape = part.split_at_checked(2).and_then(|(digits, rest)| {
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(digits, 16).ok().filter(|_| is_hex).map(|byte| (byte, digits, rest))
        });
        match escape {
            Some((byte, _, rest)) if which(byte) => {
                text.push(char::from(byte));
                text.push_str(rest);
            }
            Some((_, digits, rest)) => text.extend(["%", &digits.to_ascii_uppercase(), rest]),
            None => text.extend(["%", part]),
        }
    }
    text
}
