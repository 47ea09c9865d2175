//! Sources: URLs that conversions can be posted to without a key.

use std::fmt;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::error::{ErrorCode, Invalid};
use crate::id::SourceId;
use crate::text::find_control;
use crate::time::Timestamp;
use crate::words::{paged, reply, words};

/// Maximum characters of a source's name.
pub const MAX_SOURCE_NAME: usize = 64;
/// Maximum sources of an account.
pub const MAX_SOURCES: i64 = 100;

words! {
    /// What posts to a source.
    SourceType {
        /// Anything that can send the service's own body.
        Custom = "custom",
    }
}

/// URL that conversions are posted to. The URL itself is the credential: keep it secret.
#[derive(Clone, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, format = Uri))]
#[serde(transparent)]
pub struct SourceUrl(String);

impl SourceUrl {
    /// Takes an address as it was entered.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The address itself. The caller is responsible for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The address up to its token.
    pub fn masked(&self) -> String {
        self.0.rsplit_once("/in/").map_or_else(|| "[source URL]".to_owned(), |(base, _)| format!("{base}/in/..."))
    }
}

impl PartialEq for SourceUrl {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for SourceUrl {}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

/// The request body to create a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"name": "Shop", "source_type": "custom"}))))]
#[non_exhaustive]
pub struct CreateSource {
    /// Display name, 1 to 64 characters after trimming; unique within the account.
    pub name: String,
    /// `custom`.
    #[cfg_attr(feature = "openapi", schema(value_type = SourceType))]
    pub source_type: String,
}

impl CreateSource {
    /// A source of this name that takes the service's own body.
    pub fn custom(name: impl Into<String>) -> Self {
        Self { name: name.into(), source_type: SourceType::Custom.as_str().to_owned() }
    }

    /// Runs every rule of the service.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(drop)
    }

    /// Applies every rule: the name as it is stored, and the type.
    pub fn check(self) -> Result<(String, SourceType), Invalid> {
        let name = self.name.trim();
        let length = name.chars().count();
        if !(1..=MAX_SOURCE_NAME).contains(&length) || find_control(name, false).is_some() {
            let message = "name must be 1 to 64 characters, without control characters";
            return Err(Invalid::field(ErrorCode::InvalidName, "name", message));
        }
        match SourceType::from(self.source_type.as_str()) {
            SourceType::Unknown(_) => {
                Err(Invalid::field(ErrorCode::InvalidSourceType, "source_type", "source_type must be custom"))
            }
            known => Ok((name.to_owned(), known)),
        }
    }
}

reply! {
    /// A source.
    SourceDetail {
        /// The source's ID.
        id: SourceId,
        /// Display name.
        name: String,
        /// Type of the source.
        source_type: SourceType,
        /// URL that conversions are posted to. The URL is the only credential; to change it, create a new source.
        /// `null` if the service cannot decrypt the URL because the master key is missing; the URL still accepts
        /// conversions.
        webhook_url: Option<SourceUrl>,
        /// When it was created.
        created_at: Timestamp,
    }
}

paged! {
    /// Sources of an account, newest first.
    SourceList {
        /// The sources.
        sources: SourceDetail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_types_have_rules() {
        let check = |name: &str, source_type: &str| {
            let create = CreateSource { name: name.into(), source_type: source_type.into() };
            create.check().map(|(name, _)| name).map_err(|e| e.code)
        };
        assert_eq!(check("  Shop ", "custom"), Ok("Shop".into()));
        assert_eq!(check(&"é".repeat(64), "custom"), Ok("é".repeat(64)));
        for name in ["", "  ", "a\nb", &"n".repeat(65)] {
            assert_eq!(check(name, "custom"), Err(ErrorCode::InvalidName), "{name:?}");
        }
        for source_type in ["", "Custom", "shop"] {
            assert_eq!(check("Shop", source_type), Err(ErrorCode::InvalidSourceType), "{source_type:?}");
        }
    }

    #[test]
    fn an_address_does_not_print_itself() {
        let url = SourceUrl::new(format!("https://dl.example.com/in/{}", "ab".repeat(32)));
        assert_eq!(format!("{url} {url:?}"), "https://dl.example.com/in/... https://dl.example.com/in/...");
        assert_eq!(SourceUrl::new("secret").to_string(), "[source URL]");
        assert_eq!(url, url.clone());
    }
}
