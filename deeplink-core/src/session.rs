//! Signing in: the mail that is asked for, the path that follows, and who is signed in.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::Invalid;
use crate::id::{TenantId, UserId};
use crate::time::Timestamp;
use crate::user::Email;
use crate::words::{reply, setters};

/// Name of the session's cookie.
pub const COOKIE: &str = "session_token";
/// How long a session lasts from its sign-in, in seconds: 30 days, regardless of activity.
pub const SESSION_SECS: i64 = 30 * 86_400;
/// How long a sign-in link works, in seconds.
pub const MAGIC_LINK_SECS: i64 = 15 * 60;

/// The request body to sign in by email.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(example = json!({"email": "you@example.com"})))]
#[non_exhaustive]
pub struct Signin {
    /// Email address to send the link to; trimmed and lowercased.
    #[cfg_attr(feature = "openapi", schema(max_length = 254))]
    pub email: String,
    /// Path on this service to redirect to after sign-in; `/account` if absent or not on this service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Signin {
    /// A sign-in of this address.
    pub fn new(email: impl Into<String>) -> Self {
        Self { email: email.into(), next: None }
    }

    setters! {
        /// Sets where to go after the sign-in.
        next: impl Into<String>,
    }

    /// Applies the rules.
    pub fn check(self) -> Result<(Email, Option<NextPath>), Invalid> {
        Ok((self.email.parse()?, self.next.as_deref().map(NextPath::read)))
    }
}

/// The response to a sign-in by email. It is the same whether or not the address has an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SigninSent {
    /// `sent`.
    pub status: String,
}

impl SigninSent {
    /// The only possible response.
    pub fn new() -> Self {
        Self { status: "sent".into() }
    }
}

impl Default for SigninSent {
    fn default() -> Self {
        Self::new()
    }
}

/// A path of the service's own origin to go to after a sign-in. A path that could lead elsewhere becomes `/account`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct NextPath(Box<str>);

impl NextPath {
    /// The default.
    pub const ACCOUNT: &'static str = "/account";
    /// Maximum bytes of a path.
    const MAX: usize = 2_048;

    /// Reads a path: one `/` at the start, printable ASCII without backslashes (literal or percent-encoded), on the
    /// same origin after a browser's parsing (WHATWG URL).
    pub fn read(text: &str) -> Self {
        Self(Self::own(text).unwrap_or_else(|| Self::ACCOUNT.into()))
    }

    fn own(text: &str) -> Option<Box<str>> {
        let is_plain = text.len() <= Self::MAX && text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
        if !is_plain || !text.starts_with('/') {
            return None;
        }
        let bytes = text.as_bytes();
        let hides_one = bytes
            .windows(3)
            .any(|three| three[0] == b'%' && hex::decode(&three[1..]).is_ok_and(|byte| is_dangerous(byte[0])));
        let starts_doubled = |path: &str| {
            let rest = path.get(1..).unwrap_or_default().to_ascii_lowercase();
            rest.starts_with('/') || rest.starts_with("%2f")
        };
        if hides_one || starts_doubled(text) {
            return None;
        }
        // The host is never contacted: it only shows whether the text leads to another host.
        let origin = Url::parse("https://origin.invalid/").ok()?;
        let parsed = origin.join(text).ok()?;
        let stays = parsed.origin() == origin.origin() && !starts_doubled(parsed.path());
        stays.then(|| parsed[url::Position::BeforePath..].into())
    }

    /// The path, with its query and fragment.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_dangerous(byte: u8) -> bool {
    byte.is_ascii_control() || byte == b'\\'
}

impl Default for NextPath {
    fn default() -> Self {
        Self(Self::ACCOUNT.into())
    }
}

impl fmt::Display for NextPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

reply! {
    /// The signed-in user.
    Me {
        /// The user.
        user: MyUser,
        /// The account.
        tenant: MyTenant,
    }
}

/// The signed-in user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MyUser {
    /// The team member's ID.
    pub id: UserId,
    /// The user's email address.
    pub email: String,
    /// Whether the address is confirmed.
    pub verified: bool,
    /// Whether the user is the account's owner.
    pub is_owner: bool,
}

/// The account of the signed-in user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MyTenant {
    /// The account's ID.
    pub id: TenantId,
    /// The account's name; null if it has none, and for an affiliate's credential.
    pub name: Option<String>,
    /// When the account was created.
    pub created_at: Timestamp,
    /// When the account and everything in it will be deleted; null unless deletion was requested.
    pub deletes_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S10: the path after a sign-in stays on the origin; what could leave it becomes `/account`.
    #[test]
    fn s10_next_stays_on_the_origin() {
        for text in [
            "",
            "//e",
            "/\\e",
            "\\\\e",
            "\\/e",
            "/%09/e",
            "/%0d%0aX:",
            "/%0D%0ASet-Cookie:x",
            "/%00",
            "/%7f",
            "/%5ce",
            "/%5Ce",
            "https:e",
            "https://e",
            "http:/e",
            "HTTPS://e",
            "/..//e",
            "/.//e",
            "/a/../..//e",
            "/./..//e",
            "@e",
            "e",
            "e/f",
            "?a=b",
            "#f",
            "/\u{ff0f}e",
            "\u{ff0f}\u{ff0f}e",
            "/\u{2215}e",
            "javascript:alert(1)",
            "data:text/html,x",
            " /a",
            "/a b",
            "/a\nb",
            "/a\tb",
            "\t/a",
            "/\t/e",
            "/\n/e",
            "/%2f/e",
            "/%2F%2Fe",
            "/%2fe",
            "///e",
            "////e",
            "/\u{0}",
            "/\u{85}",
            "/é",
            ".//e",
            "/%2e%2e//e",
            "/%2e//e",
        ] {
            assert_eq!(NextPath::read(text).as_str(), "/account", "{text:?}");
        }
        assert_eq!(NextPath::read(&format!("/{}", "a".repeat(2_048))).as_str(), "/account");
        for (text, kept) in [
            ("/", "/"),
            ("/account", "/account"),
            ("/account/links?made=abc#top", "/account/links?made=abc#top"),
            ("/a?x=//ok", "/a?x=//ok"),
            ("/a//b", "/a//b"),
            ("/a/../b", "/b"),
            ("/a%20b?q=%C3%A9", "/a%20b?q=%C3%A9"),
            ("/@e", "/@e"),
            ("/:80", "/:80"),
        ] {
            assert_eq!(NextPath::read(text).as_str(), kept, "{text:?}");
        }
    }
}
