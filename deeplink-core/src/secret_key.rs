//! Secret keys as operations return and request them. The format of a key is in [`crate::secret`].

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::id::{SecretKeyId, UserId};
use crate::secret::{ConfirmationCode, SecretKey};
use crate::time::Timestamp;
use crate::user::Email;
use crate::words::{email_request, paged};

/// Maximum secret keys of an account; its affiliates' credentials are not counted.
pub const MAX_KEYS: i64 = 5;
/// How long a confirmation code works, in seconds.
pub const CODE_SECS: i64 = 10 * 60;
/// Wrong codes that are answered as such; the next attempt invalidates the code.
pub const MAX_ATTEMPTS: i64 = 5;

/// A secret key in a list: never the key itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretKeyDetail {
    /// The key's ID.
    pub id: SecretKeyId,
    /// The key's first 18 characters and three dots.
    pub key_prefix: String,
    /// Who requested the key; null if no one did, or if they have left the team.
    pub created_by: Option<UserId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When the key was last used, to the minute; null if never.
    pub last_used_at: Option<Timestamp>,
}

paged! {
    /// Secret keys of an account, newest first.
    SecretKeyList {
        /// The keys.
        keys: SecretKeyDetail,
    }
}

email_request! {
    /// The request body for an emailed confirmation code.
    RequestSecretKey {
        /// Confirmed email address of a team member.
        email
    }
}

/// The response: a code has been sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CodeSent {
    /// `code_sent`.
    pub status: String,
}

impl CodeSent {
    /// The only possible response.
    pub fn new() -> Self {
        Self { status: "code_sent".into() }
    }
}

impl Default for CodeSent {
    fn default() -> Self {
        Self::new()
    }
}

/// The request body for a new key, with a confirmation code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"email": "ada@example.com", "token": "7K2M9Q"}))))]
#[non_exhaustive]
pub struct ConfirmSecretKey {
    /// Email address that received the code.
    #[cfg_attr(feature = "openapi", schema(max_length = 254))]
    pub email: String,
    /// The code: 6 letters and digits; case and surrounding spaces are ignored.
    pub token: String,
}

/// A code is not shown.
impl std::fmt::Debug for ConfirmSecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfirmSecretKey").field("email", &self.email).finish_non_exhaustive()
    }
}

impl ConfirmSecretKey {
    /// A confirmation by this person with this code.
    pub fn new(email: impl Into<String>, token: impl Into<String>) -> Self {
        Self { email: email.into(), token: token.into() }
    }

    /// Applies the rules. A malformed code is as wrong as any other and counts as an attempt: the second member is then
    /// `None`.
    pub fn check(self) -> Result<(Email, Option<ConfirmationCode>), Invalid> {
        Ok((self.email.parse()?, ConfirmationCode::typed(&self.token)))
    }

    /// The rules as a client applies them, before anything is sent and counted.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.email.parse::<Email>()?;
        if ConfirmationCode::typed(&self.token).is_none() {
            return Err(Invalid::field(ErrorCode::InvalidCode, "token", "the code must be 6 letters and digits"));
        }
        Ok(())
    }
}

/// The request body of a request for a new key; no field is required.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({}))))]
#[non_exhaustive]
pub struct IssueSecretKey {}

impl IssueSecretKey {
    /// An issue.
    pub fn new() -> Self {
        Self {}
    }
}

/// A new secret key, shown only once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CreatedSecretKey {
    /// The key's ID.
    pub id: SecretKeyId,
    /// The key itself; it is not shown again.
    pub key: SecretKey,
    /// The key's first 18 characters and three dots, as shown in lists.
    pub key_prefix: String,
    /// When it was created.
    pub created_at: Timestamp,
}

impl CreatedSecretKey {
    /// A response with all its fields.
    pub fn new(id: SecretKeyId, key: SecretKey, created_at: Timestamp) -> Self {
        let key_prefix = key.shown_prefix();
        Self { id, key, key_prefix, created_at }
    }
}
