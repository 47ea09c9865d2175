//! An account as a whole: its name, the time zone of its reports and the branding of its pages.

use serde::{Deserialize, Serialize};

use crate::app;
use crate::error::{ErrorCode, Invalid};
use crate::id::TenantId;
use crate::patch::Patch;
use crate::text::TextField;
use crate::time::Timestamp;
use crate::words::{reply, setters};
use crate::zone::Zone;

/// Maximum characters of an account's name.
pub const MAX_ACCOUNT_NAME: usize = 100;
/// Days from the request to delete an account until it is deleted; until then the deletion can be canceled.
pub const DELETION_DAYS: i64 = 7;

reply! {
    /// An account.
    Account {
        /// The account's ID.
        id: TenantId,
        /// The account's name, shown only to its team.
        name: Option<String>,
        /// Time zone used on the account pages: an IANA time zone name; `null` means UTC. API reports use their own
        /// `tz` parameter.
        time_zone: Option<String>,
        /// URL of the icon on landing pages of links whose app has none.
        icon_url: Option<String>,
        /// Color of the primary button on landing pages of links whose app has none: `#` and 3 or 6 hex digits.
        theme_color: Option<String>,
        /// When the account was created.
        created_at: Timestamp,
        /// When the account and everything in it will be deleted; `null` unless deletion was requested.
        deletes_at: Option<Timestamp>,
    }
}

/// The request body of an update: absent fields keep their values, and `null` clears a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"name": "Acme", "theme_color": "#0a7f5a"}))))]
#[non_exhaustive]
pub struct UpdateAccount {
    /// The account's name, shown only to its team, at most 100 characters.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, max_length = 100))]
    pub name: Patch<String>,
    /// An IANA time zone name, such as `Europe/Berlin`, case-insensitive.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub time_zone: Patch<String>,
    /// An http or https URL of an icon, at most 2,048 bytes; pages show only https icons.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = Uri, max_length = 2048))]
    pub icon_url: Patch<String>,
    /// Color of the primary button: `#` and 3 or 6 hex digits.
    #[serde(default, skip_serializing_if = "Patch::is_keep")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, pattern = "^#[0-9A-Fa-f]{3}([0-9A-Fa-f]{3})?$"))]
    pub theme_color: Patch<String>,
}

impl UpdateAccount {
    /// An update with no fields set.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        [Patch::Set]
        /// Sets the name.
        name: impl Into<String>,
        /// Sets the time zone of the account pages.
        time_zone: impl Into<String>,
        /// Sets the URL of the icon.
        icon_url: impl Into<String>,
        /// Sets the color of the primary button.
        theme_color: impl Into<String>,
    }

    /// Validates everything that can be validated without the server.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(drop)
    }

    /// Applies the rules; the values are those to store.
    pub fn check(self) -> Result<AccountChange, Invalid> {
        if self == Self::default() {
            let message = "the update is empty: send at least one of name, time_zone, icon_url and theme_color";
            return Err(Invalid::whole(ErrorCode::EmptyUpdate, message));
        }
        let name = TextField::line("name", MAX_ACCOUNT_NAME, ErrorCode::InvalidName);
        Ok(AccountChange {
            // A blank name is none.
            name: match self.name.try_map(|text| name.optional(Some(&text)))? {
                Patch::Set(text) => text.into(),
                Patch::Clear => Patch::Clear,
                Patch::Keep => Patch::Keep,
            },
            time_zone: self.time_zone.try_map(|text| zone(&text))?,
            icon_url: self.icon_url.try_map(|text| app::icon(&text))?,
            theme_color: self.theme_color.try_map(app::colour)?,
        })
    }
}

/// The zone's name as the database writes it.
fn zone(name: &str) -> Result<String, Invalid> {
    Zone::named(name).map(|zone| zone.name().to_owned()).ok_or_else(|| {
        let message = "time_zone must be an IANA time zone name, such as Europe/Berlin";
        Invalid::field(ErrorCode::BadRequest, "time_zone", message)
    })
}

/// A validated update; at least one field changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountChange {
    /// The account's name, shown only to its team.
    pub name: Patch<String>,
    /// The time zone whose days its pages show.
    pub time_zone: Patch<String>,
    /// Where its icon is.
    pub icon_url: Patch<String>,
    /// The color of the primary button.
    pub theme_color: Patch<String>,
}

impl AccountChange {
    /// The names of the fields that it changes.
    pub fn fields(&self) -> Vec<&'static str> {
        let all = [
            ("name", &self.name),
            ("time_zone", &self.time_zone),
            ("icon_url", &self.icon_url),
            ("theme_color", &self.theme_color),
        ];
        all.into_iter().filter(|(_, value)| !value.is_keep()).map(|(field, _)| field).collect()
    }
}

/// The request body to delete the account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"confirm": "tnt_0123456789abcdef01234567"}))))]
#[non_exhaustive]
pub struct DeleteAccount {
    /// The account's ID, as confirmation.
    pub confirm: String,
}

impl DeleteAccount {
    /// A request to delete this account.
    pub fn new(confirm: impl Into<String>) -> Self {
        Self { confirm: confirm.into() }
    }

    /// Rejects a request that names another account.
    pub fn check(&self, account: &TenantId) -> Result<(), Invalid> {
        if self.confirm == account.as_str() {
            return Ok(());
        }
        Err(Invalid::field(ErrorCode::BadRequest, "confirm", "confirm must be the ID of this account"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> Result<AccountChange, Invalid> {
        serde_json::from_str::<UpdateAccount>(json).expect("a body").check()
    }

    #[test]
    fn each_rule_has_its_code_and_field() {
        let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(MAX_ACCOUNT_NAME + 1));
        for (json, code, field) in [
            ("{}", ErrorCode::EmptyUpdate, None),
            (r#"{"title":"x"}"#, ErrorCode::EmptyUpdate, None),
            (&long, ErrorCode::InvalidName, Some("name")),
            (r#"{"name":"a\nb"}"#, ErrorCode::InvalidName, Some("name")),
            (r#"{"time_zone":""}"#, ErrorCode::BadRequest, Some("time_zone")),
            (r#"{"time_zone":"Europe/Atlantis"}"#, ErrorCode::BadRequest, Some("time_zone")),
            (r#"{"time_zone":"+02:00"}"#, ErrorCode::BadRequest, Some("time_zone")),
            (r#"{"icon_url":"http://127.0.0.1/x"}"#, ErrorCode::InvalidIconUrl, Some("icon_url")),
            (r#"{"icon_url":""}"#, ErrorCode::InvalidIconUrl, Some("icon_url")),
            (r#"{"theme_color":"red"}"#, ErrorCode::InvalidThemeColor, Some("theme_color")),
            (r##"{"name":"x","theme_color":"#ffff"}"##, ErrorCode::InvalidThemeColor, Some("theme_color")),
        ] {
            let invalid = check(json).expect_err(json);
            assert_eq!((invalid.code, invalid.field.as_deref()), (code, field), "{json}");
        }
    }

    #[test]
    fn values_are_stored_in_one_spelling() {
        let change = check(r##"{"name":"Example","time_zone":"europe/berlin","icon_url":null,"theme_color":"#ABC"}"##);
        let set = |text: &str| Patch::Set(text.to_owned());
        let expected = AccountChange {
            name: set("Example"),
            time_zone: set("Europe/Berlin"),
            icon_url: Patch::Clear,
            theme_color: set("#ABC"),
        };
        assert_eq!(change, Ok(expected));
        let blank = check(r#"{"name":"  "}"#).expect("good");
        assert_eq!((blank.name, blank.time_zone), (Patch::Clear, Patch::Keep));
    }
}
