//! From click to conversion: what apps, pages and servers report, and the replies.
//!
//! The request types are the wire. `check` applies every rule of the service, so a [`NewConversion`] may be
//! stored.

use iso_currency::Currency;
use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, Invalid};
use crate::id::EventId;
use crate::link::ResolvedLink;
use crate::metadata::Metadata;
use crate::text::TextField;
use crate::time::Timestamp;
use crate::words::{reply, setters};

/// Maximum characters of an install's id, a user's id, a version and each text of a context.
pub const MAX_TEXT: usize = 255;
/// Maximum characters of a conversion's type.
pub const MAX_CONVERSION_TYPE: usize = 64;
/// Maximum characters of a conversion's idempotency key.
pub const MAX_IDEMPOTENCY_KEY: usize = 256;
/// Maximum bytes of a conversion's metadata.
pub const MAX_CONVERSION_METADATA: usize = 1_024;
/// Largest amount either way: the integers that every JSON parser represents exactly, 2^53 - 1 (RFC 8259, section 6).
pub const MAX_AMOUNT_CENTS: i64 = 9_007_199_254_740_991;
/// How long ago a conversion may have happened, in days.
pub const MAX_CONVERSION_AGE_DAYS: i64 = 400;
/// How far a sender's clock may be ahead, in milliseconds.
pub const MAX_CLOCK_AHEAD_MILLIS: i64 = 5 * 60_000;

/// The request body of a click.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"link_id": "spring-42"}))))]
#[non_exhaustive]
pub struct TrackClick {
    /// The link that was clicked: its ID, one of its aliases, or the path of its URL, with or without the slash before it.
    pub link_id: String,
}

impl TrackClick {
    /// A click on this link.
    pub fn new(link_id: impl Into<String>) -> Self {
        Self { link_id: link_id.into() }
    }

    /// The only rule: the link is named.
    pub fn validate(&self) -> Result<(), Invalid> {
        required("link_id", &self.link_id)
    }
}

reply! {
    /// The response to a click: the resolved link, and the visitor's platform.
    TrackedClick {
        /// The link.
        #[serde(flatten)]
        link: ResolvedLink,
        /// Operating system of the visitor: `ios`, `android`, `macos`, `windows` or `other`.
        platform: String,
    }
}

/// The request body of a touch: an app was opened from a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"link_id": "spring-42", "install_id": "install-1", "app_version": "2.4.0"}))))]
#[non_exhaustive]
pub struct Attribute {
    /// The link that the app was opened from: its ID, one of its aliases, or the path of its URL, with or without the slash
    /// before it.
    pub link_id: String,
    /// Install ID assigned by the app, at most 255 characters.
    pub install_id: String,
    /// The app's version, at most 255 characters.
    pub app_version: String,
    /// Device and system of the install. Distinguishes a reinstall from a new device.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::object::optional")]
    pub context: Option<InstallContext>,
}

impl Attribute {
    /// An install that was opened from this link.
    pub fn new(link_id: impl Into<String>, install_id: impl Into<String>, app_version: impl Into<String>) -> Self {
        Self { link_id: link_id.into(), install_id: install_id.into(), app_version: app_version.into(), context: None }
    }

    setters! {
        /// Sets its device and system.
        context: impl Into<InstallContext>,
    }

    /// Runs every rule of the service.
    pub fn validate(&self) -> Result<(), Invalid> {
        required("link_id", &self.link_id)?;
        required("install_id", &self.install_id)?;
        required("app_version", &self.app_version)?;
        self.context.as_ref().map_or(Ok(()), InstallContext::validate)
    }

    /// Applies every rule: blank texts of the context count as absent.
    pub fn check(mut self) -> Result<Self, Invalid> {
        self.validate()?;
        self.context = self.context.map(InstallContext::without_blanks);
        Ok(self)
    }
}

macro_rules! context {
    ($($(#[$doc:meta])* $field:ident = $path:literal,)+) => {
        /// Device and system of an install. All fields are optional, at most 255 characters each; blank fields count as
        /// absent.
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[non_exhaustive]
        pub struct InstallContext {
            $($(#[$doc])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<String>,)+
        }

        impl InstallContext {
            /// A context with no fields set.
            pub fn new() -> Self {
                Self::default()
            }

            setters! { $($(#[$doc])* $field: impl Into<String>,)+ }

            fn validate(&self) -> Result<(), Invalid> {
                $(if let Some(value) = &self.$field {
                    TextField::line($path, MAX_TEXT, ErrorCode::BadRequest).check(value)?;
                })+
                Ok(())
            }

            fn without_blanks(self) -> Self {
                let present = |value: Option<String>| value.filter(|value| !value.trim().is_empty());
                Self { $($field: present(self.$field),)+ }
            }
        }
    };
}

context! {
    /// The app's version.
    app_version = "context.app_version",
    /// The device's manufacturer.
    device_manufacturer = "context.device_manufacturer",
    /// The device's model; a user's next install on a different model counts as a new device.
    device_model = "context.device_model",
    /// Language and region of the device, such as `en-GB`.
    locale = "context.locale",
    /// Operating system.
    os = "context.os",
    /// Version of the operating system.
    os_version = "context.os_version",
    /// Kind of device, such as `ios` or `android`.
    platform = "context.platform",
    /// Region of the device.
    region = "context.region",
    /// Time zone of the device, such as `Europe/Paris`.
    timezone = "context.timezone",
}

/// The request body of a binding: an install belongs to a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"install_id": "install-1", "user_id": "user-7"}))))]
#[non_exhaustive]
pub struct Identify {
    /// Install ID assigned by the app, at most 255 characters.
    pub install_id: String,
    /// User ID in the app, at most 255 characters.
    pub user_id: String,
}

impl Identify {
    /// This install belongs to this user.
    pub fn new(install_id: impl Into<String>, user_id: impl Into<String>) -> Self {
        Self { install_id: install_id.into(), user_id: user_id.into() }
    }

    /// Runs every rule of the service.
    pub fn validate(&self) -> Result<(), Invalid> {
        required("install_id", &self.install_id)?;
        required("user_id", &self.user_id)
    }
}

/// The response if the only result is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Done {
    /// Always `true`; a failure returns an error object.
    pub success: bool,
}

impl Done {
    /// Success.
    pub const fn new() -> Self {
        Self { success: true }
    }
}

impl Default for Done {
    fn default() -> Self {
        Self::new()
    }
}

/// The request body of a conversion, from an app, a server or a source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"user_id": "user-7", "type": "purchase", "idempotency_key": "order-1001", "amount_cents": 1999, "currency": "EUR"}))))]
#[non_exhaustive]
pub struct Convert {
    /// User ID in the app, at most 255 characters.
    pub user_id: String,
    /// Type of conversion, such as `purchase`, at most 64 characters.
    #[serde(rename = "type")]
    pub conversion_type: String,
    /// The same key within 30 days means the same conversion. At most 256 characters. Idempotency keys are shared
    /// between secret keys and sources; those sent with publishable keys are separate, because visitors can read
    /// publishable keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Custom data: a JSON object of at most 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(schema_with = metadata_schema))]
    pub metadata: Option<Metadata>,
    /// Revenue in hundredths of the currency unit, negative for a refund; must be within ±(2^53 - 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = -9_007_199_254_740_991_i64, maximum = 9_007_199_254_740_991_i64))]
    pub amount_cents: Option<i64>,
    /// Currency of the amount, an uppercase ISO 4217 code; required with an amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Z]{3}$"))]
    pub currency: Option<String>,
    /// Time of the conversion: at most 400 days in the past and at most 5 minutes in the future; a future time is
    /// replaced by the time of arrival. Default: the time of arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
}

#[cfg(feature = "openapi")]
fn metadata_schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
    use utoipa::openapi::schema::{SchemaType, Type};
    let kind = SchemaType::Array(vec![Type::Object, Type::Null]);
    crate::metadata::any_object(kind, "Custom data: a JSON object of at most 1,024 bytes.")
}

impl Convert {
    /// A conversion of this type by this user.
    pub fn new(user_id: impl Into<String>, conversion_type: impl Into<String>) -> Self {
        Self { user_id: user_id.into(), conversion_type: conversion_type.into(), ..Self::default() }
    }

    setters! {
        /// Sets the idempotency key.
        idempotency_key: impl Into<String>,
        /// Sets the metadata.
        metadata: impl Into<Metadata>,
        /// Sets when it happened.
        occurred_at: Timestamp,
    }

    /// Sets the revenue.
    #[must_use]
    pub fn amount(mut self, cents: i64, currency: impl Into<String>) -> Self {
        self.amount_cents = Some(cents);
        self.currency = Some(currency.into());
        self
    }

    /// Runs every rule of the service.
    pub fn validate(&self, now: Timestamp) -> Result<(), Invalid> {
        self.validate_words()?;
        moment(self.occurred_at, now).map(|_| ())
    }

    /// Every rule except the one that depends on the current time.
    fn validate_words(&self) -> Result<(), Invalid> {
        let text = |field, max| TextField::line(field, max, ErrorCode::ParseError);
        let wrong =
            |field: &'static str, message: &'static str| Err(Invalid::field(ErrorCode::ParseError, field, message));
        text("user_id", MAX_TEXT).required(&self.user_id)?;
        text("type", MAX_CONVERSION_TYPE).required(&self.conversion_type)?;
        if let Some(key) = &self.idempotency_key {
            text("idempotency_key", MAX_IDEMPOTENCY_KEY).required(key)?;
        }
        if let Some(metadata) = &self.metadata {
            metadata.check().map_err(|invalid| Invalid { code: ErrorCode::ParseError, ..invalid })?;
            if metadata.as_str().len() > MAX_CONVERSION_METADATA {
                return wrong("metadata", "metadata must be at most 1024 bytes");
            }
        }
        if self.amount_cents.is_some_and(|cents| cents.unsigned_abs() > MAX_AMOUNT_CENTS.unsigned_abs()) {
            return wrong("amount_cents", "amount_cents must be within ±9007199254740991");
        }
        match (&self.amount_cents, &self.currency) {
            (Some(_), None) => wrong("currency", "an amount requires a currency"),
            (None, Some(_)) => wrong("amount_cents", "a currency requires an amount"),
            (_, Some(currency)) if Currency::from_code(currency).is_none() => {
                wrong("currency", "currency must be an ISO 4217 code, such as EUR")
            }
            _ => Ok(()),
        }
    }

    /// Applies the rules and returns what may be stored, once [`NewConversion::moment`] has checked when it happened.
    pub fn check(self) -> Result<NewConversion, Invalid> {
        self.validate_words()?;
        Ok(NewConversion {
            user_id: self.user_id,
            conversion_type: self.conversion_type,
            idempotency_key: self.idempotency_key,
            metadata: self.metadata,
            amount: self.amount_cents.zip(self.currency),
            occurred_at: self.occurred_at,
        })
    }
}

/// The time at which a conversion reported at `now` counts: never after `now`, whatever the sender's clock says.
fn moment(occurred_at: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, Invalid> {
    let wrong = |message: &'static str| Err(Invalid::field(ErrorCode::ParseError, "occurred_at", message));
    match occurred_at {
        Some(at) if at > now.plus_millis(MAX_CLOCK_AHEAD_MILLIS) => {
            wrong("occurred_at is more than 5 minutes in the future")
        }
        Some(at) if at < now.plus_days(-MAX_CONVERSION_AGE_DAYS) => wrong("occurred_at is more than 400 days ago"),
        Some(at) => Ok(at.min(now)),
        None => Ok(now),
    }
}

/// A conversion that passed every rule except the one that depends on the current time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewConversion {
    /// User ID in the app.
    pub user_id: String,
    /// Type of conversion.
    pub conversion_type: String,
    /// The key by which repeats are recognized.
    pub idempotency_key: Option<String>,
    /// The sender's own data.
    pub metadata: Option<Metadata>,
    /// Hundredths, and the currency.
    pub amount: Option<(i64, String)>,
    /// When it happened, as the sender says.
    pub occurred_at: Option<Timestamp>,
}

impl NewConversion {
    /// The time at which it counts if reported at `now`: never after `now`.
    pub fn moment(&self, now: Timestamp) -> Result<Timestamp, Invalid> {
        moment(self.occurred_at, now)
    }
}

/// The response to a conversion. Exactly one of the counts is 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct Converted {
    /// 1 if the conversion was stored and its user has an install.
    pub accepted: i64,
    /// 1 if a conversion with the same idempotency key is already stored; nothing was done.
    pub deduped: i64,
    /// 1 if the conversion was stored but its user has no install yet; it is credited once the user has one.
    pub unattributed: i64,
    /// 1 if the conversion was not stored because the plan's monthly event limit had been reached.
    pub failed: i64,
    /// ID of the stored conversion: for a repeat, the ID of the first one; null if nothing was stored.
    pub event_id: Option<EventId>,
}

impl Converted {
    /// Stored, and the user has an install.
    pub const fn accepted(id: EventId) -> Self {
        Self { accepted: 1, deduped: 0, unattributed: 0, failed: 0, event_id: Some(id) }
    }

    /// Already stored.
    pub const fn deduped(id: EventId) -> Self {
        Self { accepted: 0, deduped: 1, unattributed: 0, failed: 0, event_id: Some(id) }
    }

    /// Stored, but the user has no install yet.
    pub const fn unattributed(id: EventId) -> Self {
        Self { accepted: 0, deduped: 0, unattributed: 1, failed: 0, event_id: Some(id) }
    }

    /// Not stored.
    pub const fn failed() -> Self {
        Self { accepted: 0, deduped: 0, unattributed: 0, failed: 1, event_id: None }
    }
}

fn required(field: &'static str, text: &str) -> Result<(), Invalid> {
    TextField::line(field, MAX_TEXT, ErrorCode::BadRequest).required(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_795_167_000_000;

    fn refused(json: &str) -> Option<String> {
        let convert: Convert = serde_json::from_str(json).expect("a conversion");
        let now = Timestamp::from_millis(NOW);
        let invalid = convert.clone().check().and_then(|new| new.moment(now)).err()?;
        assert_eq!(convert.validate(now).err().map(|invalid| invalid.field), Some(invalid.field.clone()));
        assert_eq!(invalid.code, ErrorCode::ParseError);
        invalid.field.map(Into::into)
    }

    /// C5: an amount is an integer within ±(2^53 - 1) with a currency of ISO 4217; `occurred_at` is between 400 days
    /// ago and 5 minutes ahead.
    #[test]
    fn c5_amounts_currencies_and_moments() {
        let with = |rest: &str| refused(&format!(r#"{{"user_id":"u","type":"purchase"{rest}}}"#));
        let at = |millis: i64| with(&format!(r#","occurred_at":"{}""#, Timestamp::from_millis(NOW + millis)));
        assert_eq!(with(r#","amount_cents":9007199254740991,"currency":"EUR""#), None);
        assert_eq!(with(r#","amount_cents":-9007199254740991,"currency":"JPY""#), None);
        assert_eq!(with(r#","amount_cents":9007199254740992,"currency":"EUR""#).as_deref(), Some("amount_cents"));
        assert_eq!(with(r#","amount_cents":-9223372036854775808,"currency":"EUR""#).as_deref(), Some("amount_cents"));
        for currency in ["usd", "XYZ", "", "EURO", "EU"] {
            let json = format!(r#","amount_cents":5,"currency":"{currency}""#);
            assert_eq!(with(&json).as_deref(), Some("currency"), "{currency}");
        }
        assert_eq!(with(r#","amount_cents":5"#).as_deref(), Some("currency"));
        assert_eq!(with(r#","currency":"EUR""#).as_deref(), Some("amount_cents"));
        for wrong in
            [r#"{"user_id":"u","type":"t","amount_cents":1.5}"#, r#"{"user_id":"u","type":"t","amount_cents":"5"}"#]
        {
            assert!(serde_json::from_str::<Convert>(wrong).is_err(), "{wrong}");
        }
        let day = 86_400_000;
        assert_eq!([at(300_000), at(-400 * day), at(0)], [None, None, None]);
        assert_eq!(at(300_001).as_deref(), Some("occurred_at"));
        assert_eq!(at(-400 * day - 1).as_deref(), Some("occurred_at"));
        let now = Timestamp::from_millis(NOW);
        let counts = |at: Option<Timestamp>| {
            let convert = Convert { occurred_at: at, ..Convert::new("u", "t") };
            convert.check().and_then(|new| new.moment(now)).map(Timestamp::as_millis)
        };
        assert_eq!(counts(None), Ok(NOW));
        assert_eq!(counts(Some(now.plus_millis(300_000))), Ok(NOW), "a time ahead counts as now");
        assert_eq!(counts(Some(now.plus_millis(-1))), Ok(NOW - 1));
    }

    #[test]
    fn texts_are_there_and_short() {
        let long = "👋".repeat(256);
        for (json, field) in [
            (r#"{"user_id":" ","type":"t"}"#.to_owned(), "user_id"),
            (r#"{"user_id":"u","type":""}"#.to_owned(), "type"),
            (format!(r#"{{"user_id":"{long}","type":"t"}}"#), "user_id"),
            (format!(r#"{{"user_id":"u","type":"{}"}}"#, "t".repeat(65)), "type"),
            (r#"{"user_id":"u\u0000","type":"t"}"#.to_owned(), "user_id"),
            (r#"{"user_id":"u","type":"t","idempotency_key":""}"#.to_owned(), "idempotency_key"),
            (format!(r#"{{"user_id":"u","type":"t","idempotency_key":"{}"}}"#, "k".repeat(257)), "idempotency_key"),
            (format!(r#"{{"user_id":"u","type":"t","metadata":{{"k":"{}"}}}}"#, "m".repeat(1_024)), "metadata"),
            (r#"{"user_id":"u","type":"t","metadata":[]}"#.to_owned(), "metadata"),
        ] {
            assert_eq!(refused(&json).as_deref(), Some(field), "{json}");
        }
        let context = |model: &str| Attribute::new("l", "i", "1").context(InstallContext::new().device_model(model));
        assert_eq!(context(&long).check().map_err(|e| e.field), Err(Some("context.device_model".into())));
        assert_eq!(context(" ").check().map(|new| new.context), Ok(Some(InstallContext::new())));
        assert_eq!(Identify::new("i", "").validate().map_err(|e| e.field), Err(Some("user_id".into())));
    }
}
