//! People: email addresses, sign-up, and the team of an account.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::id::{SecretKeyId, TenantId, UserId};
use crate::secret::SecretKey;
use crate::text::find_control;
use crate::time::Timestamp;
use crate::words::{email_request, paged, words};

/// Maximum team members of an account, on any plan, including pending invitations.
pub const MAX_PEOPLE: i64 = 1_000;

/// An email address, trimmed and in lower case: one `@`, something before it, a domain with a dot after it, at most
/// 254 bytes (RFC 5321).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Email(Box<str>);

impl Email {
    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the `@`.
    pub fn domain(&self) -> &str {
        self.0.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Email {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::field(ErrorCode::InvalidEmail, "email", "not a valid email address");
        let text = lower(text.trim());
        let (local, domain) = text.rsplit_once('@').ok_or_else(wrong)?;
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_alphanumeric() || c == '-')
        };
        let local_ok = !local.is_empty()
            && local.len() <= 64
            && !local.starts_with('.')
            && !local.ends_with('.')
            && !local.contains("..")
            && local.chars().all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c));
        let ok = text.len() <= 254
            && find_control(&text, false).is_none()
            && local_ok
            && domain.contains('.')
            && domain.split('.').all(label);
        if ok { Ok(Self(text.into())) } else { Err(wrong()) }
    }
}

/// Lower case letter by letter. A letter that would become an ASCII one, such as the Kelvin sign, is kept: the result must
/// not be another person's address.
fn lower(text: &str) -> String {
    let letter = |c: char| {
        let lower: String = c.to_lowercase().collect();
        if c.is_ascii() || !lower.chars().any(|c| c.is_ascii()) { lower } else { c.to_string() }
    };
    text.chars().map(letter).collect()
}

email_request! {
    /// The request body of a sign-up.
    Signup {
        /// Email address to send the confirmation to; trimmed and lowercased.
        email
    }
}

/// The response to a sign-up: the account and its first secret key, shown only once. The key works until the
/// address is confirmed through the emailed link; the confirmation page shows a new key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct SignedUp {
    /// The account.
    pub tenant_id: TenantId,
    /// The account's first user, unverified until the address is confirmed through the emailed link.
    pub user_id: UserId,
    /// The key's ID.
    pub id: SecretKeyId,
    /// The key itself; it is not shown again. It stops working when the address is confirmed through the emailed link.
    pub api_key: SecretKey,
    /// The key's first 18 characters and three dots, as shown in lists.
    pub key_prefix: String,
    /// When the account was created.
    pub created_at: Timestamp,
}

impl SignedUp {
    /// A response with all its fields.
    pub fn new(
        tenant_id: TenantId,
        user_id: UserId,
        id: SecretKeyId,
        api_key: SecretKey,
        created_at: Timestamp,
    ) -> Self {
        let key_prefix = api_key.shown_prefix();
        Self { tenant_id, user_id, id, api_key, key_prefix, created_at }
    }
}

/// How long an invitation works, in days.
pub const INVITE_DAYS: i64 = 7;

/// Path of the page that confirms a sign-up. Its mailed link adds `?token=`.
pub const CONFIRM_PATH: &str = "/account/confirm";

words! {
    /// Whether a person has joined the team.
    UserStatus {
        /// Has joined.
        Active = "active",
        /// Has not confirmed the address yet.
        Pending = "pending",
    }
}

/// A member of the team.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UserDetail {
    /// The team member's ID.
    pub id: UserId,
    /// The user's email address.
    pub email: String,
    /// Whether the address is confirmed.
    pub verified: bool,
    /// Whether they have joined.
    pub status: UserStatus,
    /// Whether the user is the account's owner.
    pub is_owner: bool,
    /// When they were invited or created the account.
    pub created_at: Timestamp,
}

paged! {
    /// Members of the team, newest first.
    UserList {
        /// The members.
        users: UserDetail,
    }
}

email_request! {
    /// The request body of an invitation.
    InviteUser {
        /// Email address to send the invitation to; trimmed and lowercased.
        email
    }
}

/// The response to an invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct InvitedUser {
    /// The team member's ID.
    pub id: UserId,
    /// Email address that the invitation is sent to.
    pub email: String,
    /// `invited`.
    pub status: String,
}

impl InvitedUser {
    /// A response with all its fields.
    pub fn new(id: UserId, email: &Email) -> Self {
        Self { id, email: email.to_string(), status: "invited".into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, stored) in [
            ("  You@Example.COM ", "you@example.com"),
            ("a+b.c@sub.example.co", "a+b.c@sub.example.co"),
            ("\u{c9}@example.com", "\u{e9}@example.com"),
            ("\u{212a}@example.com", "\u{212a}@example.com"),
        ] {
            assert_eq!(text.parse::<Email>().expect("an address").as_str(), stored);
        }
        for text in [
            "",
            "@",
            "a@",
            "@example.com",
            "a@example",
            "a b@example.com",
            "a@exa mple.com",
            "a@b@example.com",
            "a@.com",
            "a@example.",
            "a\0@example.com",
            "a@-x.com",
            ".a@example.com",
            "a\r\nBcc: x@example.com",
        ] {
            assert!(text.parse::<Email>().is_err(), "{text:?}");
        }
    }
}
