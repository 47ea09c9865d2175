//! Events: what webhooks and the event stream deliver.
//!
//! An [`Event`] is written once, as the bytes that are signed and sent; every attempt and every reader gets the same ones.
//! Reading also takes the forms of earlier versions: `attribution` for `attribute`, and a conversion with `link_id`.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{EventId, SourceId, TenantId};
use crate::metadata::Metadata;
use crate::time::Timestamp;
use crate::words::words;

mod log;
pub mod sample;

pub use log::{EventFilter, EventList, MAX_EVENTS, StoredEvent};

words! {
    /// What an event is about.
    EventKind {
        /// A person or an agent clicked or resolved a link.
        Click = "click",
        /// An app was opened from a link.
        Attribute = "attribute",
        /// An install was bound to a user.
        Identify = "identify",
        /// A user with a known install converted.
        Conversion = "conversion",
    }
}

impl EventKind {
    /// The kind as earlier versions of the interface may name it: `attribution` is `attribute`.
    pub fn named(text: &str) -> Self {
        if text == "attribution" { Self::Attribute } else { Self::from(text) }
    }

    /// The kind as a number, for storage; `None` for a word this build does not know.
    pub const fn code(&self) -> Option<u8> {
        match self {
            Self::Click => Some(0),
            Self::Attribute => Some(1),
            Self::Identify => Some(2),
            Self::Conversion => Some(3),
            Self::Unknown(_) => None,
        }
    }

    /// The kind that is stored as this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).cloned()
    }
}

/// The data of a click.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ClickEvent))]
pub struct ClickData {
    /// The account.
    pub tenant_id: TenantId,
    /// The link.
    pub link_id: String,
    /// The visitor's `User-Agent`, truncated to 512 characters.
    pub user_agent: Option<String>,
    /// The page that the visitor came from, truncated to 512 characters.
    pub referer: Option<String>,
    /// Operating system of the visitor: `ios`, `android`, `macos`, `windows` or `other`.
    pub platform: String,
    /// When the event happened.
    pub timestamp: Timestamp,
}

/// The data of a touch: an app was opened from a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = AttributeEvent))]
pub struct AttributeData {
    /// The account.
    pub tenant_id: TenantId,
    /// The link.
    pub link_id: String,
    /// Install ID assigned by the app.
    pub install_id: String,
    /// The app's version.
    pub app_version: String,
    /// When the service received it.
    pub timestamp: Timestamp,
    /// The user that the install was bound to at that time; absent if it was not bound to a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
}

/// The data of a binding: an install belongs to a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = IdentifyEvent))]
pub struct IdentifyData {
    /// The account.
    pub tenant_id: TenantId,
    /// User ID in the app.
    pub user_id: String,
    /// Install ID assigned by the app.
    pub install_id: String,
    /// The link that the install was first opened from; null if there was none.
    pub first_touch_link_id: Option<String>,
    /// That link's metadata at the time of the event; null if it has none.
    pub first_touch_link_metadata: Option<Metadata>,
    /// When the event happened.
    pub timestamp: Timestamp,
}

/// The data of a conversion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ConversionEvent))]
pub struct ConversionData {
    /// The conversion's ID, the same in every attempt: use it to detect duplicates.
    pub event_id: EventId,
    /// The account.
    pub tenant_id: TenantId,
    /// The source that reported the conversion; null if it was reported with a key.
    pub source_id: Option<SourceId>,
    /// The link that touched the user first; null if none did. In the legacy form, this is `link_id`.
    pub first_touch_link_id: Option<String>,
    /// The last link that touched the user before the conversion; null if none did.
    pub last_touch_link_id: Option<String>,
    /// Type of conversion, such as `purchase`.
    pub conversion_type: String,
    /// User ID in the app.
    pub user_id: String,
    /// The conversion's own metadata; if it has none, the metadata of the last-touch link at the time of the
    /// conversion.
    pub metadata: Option<Metadata>,
    /// When the event happened.
    pub timestamp: Timestamp,
    /// The one link of the earlier form; absent in this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    pub link_id: Option<String>,
    /// Revenue in hundredths of the currency unit; absent if the conversion has no amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount_cents: Option<i64>,
    /// Currency of the amount, an ISO 4217 code; absent if there is no amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventData {
    /// A click.
    Click(ClickData),
    /// A touch.
    Attribute(AttributeData),
    /// A binding.
    Identify(IdentifyData),
    /// A conversion.
    Conversion(Box<ConversionData>),
    /// The data of a kind this build does not know.
    Unknown(serde_json::Value),
}

impl EventData {
    /// The kind that this is the data of; `None` for an unknown one.
    pub const fn kind(&self) -> Option<EventKind> {
        match self {
            Self::Click(_) => Some(EventKind::Click),
            Self::Attribute(_) => Some(EventKind::Attribute),
            Self::Identify(_) => Some(EventKind::Identify),
            Self::Conversion(_) => Some(EventKind::Conversion),
            Self::Unknown(_) => None,
        }
    }

    fn timestamp(&self) -> Option<Timestamp> {
        match self {
            Self::Click(data) => Some(data.timestamp),
            Self::Attribute(data) => Some(data.timestamp),
            Self::Identify(data) => Some(data.timestamp),
            Self::Conversion(data) => Some(data.timestamp),
            Self::Unknown(_) => None,
        }
    }
}

/// An event as it was received: the parsed fields, and the body itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What it is about. The earlier `attribution` is [`EventKind::Attribute`].
    pub kind: EventKind,
    /// When the event happened.
    pub timestamp: Timestamp,
    /// What happened.
    pub data: EventData,
    /// The body, byte for byte.
    pub raw: String,
}

/// The body is not an event.
#[derive(Debug, thiserror::Error)]
#[error("not an event: {0}")]
pub struct NotAnEvent(String);

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    timestamp: Timestamp,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Event {
    /// Reads a body: this form and the earlier ones. Unknown members are ignored, and the data of an unknown kind is kept
    /// as it is.
    pub fn parse(body: &[u8]) -> Result<Self, NotAnEvent> {
        let raw = std::str::from_utf8(body).map_err(|error| NotAnEvent(error.to_string()))?;
        let wrong = |error: serde_json::Error| NotAnEvent(error.to_string());
        let Envelope { event, timestamp, data } = serde_json::from_str(raw).map_err(wrong)?;
        let kind = EventKind::named(&event);
        let data = data.get();
        // It is valid JSON, so its first byte shows its type.
        if !data.starts_with('{') {
            return Err(NotAnEvent("data must be an object".into()));
        }
        let data = match kind {
            EventKind::Click => EventData::Click(serde_json::from_str(data).map_err(wrong)?),
            EventKind::Attribute => EventData::Attribute(serde_json::from_str(data).map_err(wrong)?),
            EventKind::Identify => EventData::Identify(serde_json::from_str(data).map_err(wrong)?),
            EventKind::Conversion => EventData::Conversion(serde_json::from_str(data).map_err(wrong)?),
            EventKind::Unknown(_) => EventData::Unknown(serde_json::from_str(data).map_err(wrong)?),
        };
        Ok(Self { kind, timestamp, data, raw: raw.to_owned() })
    }

    /// The body of an event: what is signed and sent. `None` for data of an unknown kind.
    pub fn body(data: &EventData) -> Option<String> {
        #[derive(Serialize)]
        struct Whole<'a, T> {
            event: &'a str,
            timestamp: Timestamp,
            data: &'a T,
        }
        fn write<T: Serialize>(event: &str, timestamp: Timestamp, data: &T) -> Option<String> {
            serde_json::to_string(&Whole { event, timestamp, data }).ok()
        }
        let (kind, timestamp) = (data.kind()?, data.timestamp()?);
        match data {
            EventData::Click(data) => write(kind.as_str(), timestamp, data),
            EventData::Attribute(data) => write(kind.as_str(), timestamp, data),
            EventData::Identify(data) => write(kind.as_str(), timestamp, data),
            EventData::Conversion(data) => write(kind.as_str(), timestamp, data),
            EventData::Unknown(_) => None,
        }
    }

    /// An event with its body.
    pub fn of(data: EventData) -> Option<Self> {
        Some(Self { kind: data.kind()?, timestamp: data.timestamp()?, raw: Self::body(&data)?, data })
    }

    /// The id by which a receiver can recognize repeats without a `webhook-id`: a conversion's id.
    pub fn event_id(&self) -> Option<&EventId> {
        match &self.data {
            EventData::Conversion(data) => Some(&data.event_id),
            _ => None,
        }
    }
}

/// The id of a click's event is derived from its position in the log: 48 bits of milliseconds, then the 20 bits of the
/// position below them, then zeros.
const CLICK_TAIL: &str = "0000000";

/// The id of a click's event. A position is milliseconds above 20 bits.
pub fn click_event_id(position: i64) -> EventId {
    let position = position.max(0);
    let text = format!("{}_{:012x}{:05x}{CLICK_TAIL}", EventId::PREFIX, position >> 20, position & 0xf_ffff);
    // The form is correct by construction; the fallback is unreachable.
    text.parse().unwrap_or_else(|_| EventId::new(Timestamp::from_millis(0), &mut crate::secret::Random::seeded(0)))
}

/// The log position in the id of a click's event; `None` for other events.
pub fn click_position(id: &EventId) -> Option<i64> {
    let hex = id.as_str().strip_prefix(EventId::PREFIX)?.strip_prefix('_')?;
    let (millis, rest) = hex.split_at_checked(12)?;
    let low = rest.strip_suffix(CLICK_TAIL)?;
    let (millis, low) = (i64::from_str_radix(millis, 16).ok()?, i64::from_str_radix(low, 16).ok()?);
    (millis < 1 << 43).then_some(millis << 20 | low)
}

impl fmt::Display for EventData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            Some(kind) => kind.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests;
