//! Affiliates: partners whose credentials can access only their own links.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::id::{AffiliateId, SecretKeyId};
use crate::patch::Patch;
use crate::secret::SecretKey;
use crate::text::find_control;
use crate::time::Timestamp;
use crate::words::{paged, setters, words};

/// Maximum affiliates of an account, on any plan; deleted ones do not count.
pub const MAX_AFFILIATES: i64 = 1_000;
/// Maximum credentials of an affiliate.
pub const MAX_CREDENTIALS: i64 = 3;
/// Maximum characters of a name.
pub const MAX_NAME: usize = 64;

words! {
    /// Whether an affiliate's credentials work.
    AffiliateStatus {
        /// They are accepted.
        Active = "active",
        /// They are rejected; the affiliate's links keep working.
        Disabled = "disabled",
    }
}

/// Identifier of a partner for use in code: 2 to 32 lowercase letters, digits and `-`, unique within the account.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartnerKey(Box<str>);

impl PartnerKey {
    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PartnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for PartnerKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if (2..=32).contains(&text.len()) && text.bytes().all(allowed) {
            return Ok(Self(text.into()));
        }
        let message = "must be 2 to 32 lowercase letters, digits or hyphens";
        Err(Invalid::field(ErrorCode::InvalidPartnerKey, "partner_key", message))
    }
}

/// Display name of a partner: 1 to 64 characters after trimming, without control characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AffiliateName(Box<str>);

impl AffiliateName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AffiliateName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = |message: String| Invalid::field(ErrorCode::InvalidName, "name", message);
        if find_control(text, false).is_some() {
            return Err(wrong("name contains a control character".into()));
        }
        let text = text.trim();
        if text.is_empty() || text.chars().count() > MAX_NAME {
            return Err(wrong(format!("name must be 1 to {MAX_NAME} characters")));
        }
        Ok(Self(text.into()))
    }
}

/// The request body to create an affiliate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"name": "Partner", "partner_key": "partner"}))))]
#[non_exhaustive]
pub struct CreateAffiliate {
    /// Display name of the partner, 1 to 64 characters.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 64))]
    pub name: String,
    /// Identifier of the partner for use in code; unique within the account.
    #[cfg_attr(feature = "openapi", schema(min_length = 2, max_length = 32, pattern = "^[a-z0-9-]{2,32}$"))]
    pub partner_key: String,
}

impl CreateAffiliate {
    /// An affiliate with this name and partner key.
    pub fn new(name: impl Into<String>, partner_key: impl Into<String>) -> Self {
        Self { name: name.into(), partner_key: partner_key.into() }
    }

    /// Applies the rules.
    pub fn check(&self) -> Result<(AffiliateName, PartnerKey), Invalid> {
        Ok((self.name.parse()?, self.partner_key.parse()?))
    }
}

/// The request body of an update: absent fields keep their values. Fields cannot be cleared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"name": "Partner Ltd"}))))]
#[non_exhaustive]
pub struct UpdateAffiliate {
    /// Display name of the partner.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, min_length = 1, max_length = 64))]
    pub name: Patch<String>,
    /// Whether the partner's credentials work.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<AffiliateStatus>))]
    pub status: Patch<AffiliateStatus>,
}

/// A validated update; at least one field is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AffiliateChange {
    /// The new name.
    pub name: Option<AffiliateName>,
    /// The new status.
    pub status: Option<AffiliateStatus>,
}

impl UpdateAffiliate {
    /// An update with no fields set.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        [Patch::Set]
        /// Sets the name.
        name: impl Into<String>,
        /// Sets the status.
        status: AffiliateStatus,
    }

    /// Applies the rules.
    pub fn check(&self) -> Result<AffiliateChange, Invalid> {
        let name = self.name.as_ref().required("name")?.map(|name| name.parse()).transpose()?;
        let status = self.status.clone().required("status")?;
        if let Some(AffiliateStatus::Unknown(_)) = status {
            return Err(Invalid::field(ErrorCode::BadRequest, "status", "status must be active or disabled"));
        }
        if name.is_none() && status.is_none() {
            return Err(Invalid::whole(
                ErrorCode::EmptyUpdate,
                "the update is empty: send at least one of name and status",
            ));
        }
        Ok(AffiliateChange { name, status })
    }
}

/// An affiliate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AffiliateDetail {
    /// The affiliate's ID.
    pub id: AffiliateId,
    /// Display name.
    pub name: String,
    /// Identifier for use in code.
    pub partner_key: String,
    /// Whether the affiliate's credentials work.
    pub status: AffiliateStatus,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

paged! {
    /// Affiliates of an account, newest first.
    AffiliateList {
        /// The affiliates.
        affiliates: AffiliateDetail,
    }
}

/// A credential of an affiliate in a list: never the key itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CredentialDetail {
    /// The credential's ID.
    pub id: SecretKeyId,
    /// The key's first 18 characters and three dots.
    pub key_prefix: String,
    /// When it was created.
    pub created_at: Timestamp,
}

paged! {
    /// Credentials of an affiliate, newest first.
    CredentialList {
        /// The credentials.
        credentials: CredentialDetail,
    }
}

/// A new credential; the key is shown only once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct CreatedCredential {
    /// The credential's ID.
    pub id: SecretKeyId,
    /// ID of the affiliate that the credential belongs to.
    pub affiliate_id: AffiliateId,
    /// The key itself; it is not shown again.
    pub api_key: SecretKey,
    /// The key's first 18 characters and three dots, as shown in lists.
    pub key_prefix: String,
    /// When it was created.
    pub created_at: Timestamp,
}

impl CreatedCredential {
    /// A response with all its fields.
    pub fn new(id: SecretKeyId, affiliate_id: AffiliateId, api_key: SecretKey, created_at: Timestamp) -> Self {
        let key_prefix = api_key.shown_prefix();
        Self { id, affiliate_id, api_key, key_prefix, created_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partner_keys() {
        for text in ["ab", "a1", "--", "summer-2026", &"a".repeat(32)] {
            assert_eq!(text.parse::<PartnerKey>().expect("a key").as_str(), text);
        }
        for text in ["", "a", &"a".repeat(33), "Ab", "a_b", "a b", "é1", "ab\n"] {
            assert_eq!(text.parse::<PartnerKey>().expect_err("no key").code, ErrorCode::InvalidPartnerKey, "{text:?}");
        }
    }

    #[test]
    fn names() {
        for (text, name) in [(" Partner ", "Partner"), ("ä", "ä"), (&"ü".repeat(64), &*"ü".repeat(64))] {
            assert_eq!(text.parse::<AffiliateName>().expect("a name").as_str(), name);
        }
        for text in ["", "  ", "a\u{0}", "a\nb", &"a".repeat(65)] {
            assert_eq!(text.parse::<AffiliateName>().expect_err("no name").code, ErrorCode::InvalidName, "{text:?}");
        }
    }

    #[test]
    fn an_update_changes_something_that_can_change() {
        let check = |json: &str| serde_json::from_str::<UpdateAffiliate>(json).expect("an update").check();
        for (json, code, field) in [
            ("{}", ErrorCode::EmptyUpdate, None),
            (r#"{"partner_key":"x"}"#, ErrorCode::EmptyUpdate, None),
            (r#"{"name":null}"#, ErrorCode::BadRequest, Some("name")),
            (r#"{"status":null}"#, ErrorCode::BadRequest, Some("status")),
            (r#"{"status":"gone"}"#, ErrorCode::BadRequest, Some("status")),
            (r#"{"name":" "}"#, ErrorCode::InvalidName, Some("name")),
        ] {
            let refused = check(json).expect_err("a refusal");
            assert_eq!((refused.code, refused.field.as_deref()), (code, field), "{json}");
        }
        let change = check(r#"{"name":" New ","status":"disabled"}"#).expect("a change");
        assert_eq!(
            (change.name.as_ref().map(AffiliateName::as_str), change.status),
            (Some("New"), Some(AffiliateStatus::Disabled))
        );
    }
}
