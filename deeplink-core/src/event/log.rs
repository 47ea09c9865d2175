//! The log of events: everything that was counted, in the order in which the service stored it.

use std::borrow::Cow;

use serde::de::Error as _;
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Envelope, Event, EventKind};
use crate::error::{ErrorCode, Invalid};
use crate::id::EventId;
use crate::time::Timestamp;
use crate::words::{paged, setters};

/// Maximum events per page.
pub const MAX_EVENTS: u32 = 1_000;

/// An event and its id, which webhooks call `webhook-id`. In JSON it is the body that webhooks get, with `id` before it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The event's id.
    pub id: EventId,
    /// What happened; [`Event::raw`] is the body that webhooks get, to the byte.
    pub event: Event,
}

impl StoredEvent {
    /// An event with its id.
    pub fn new(id: EventId, event: Event) -> Self {
        Self { id, event }
    }
}

impl Serialize for StoredEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The data as it was stored: members that this build does not know stay.
        let stored: Envelope<'_> = serde_json::from_str(&self.event.raw).map_err(S::Error::custom)?;
        let mut object = serializer.serialize_struct("StoredEvent", 4)?;
        object.serialize_field("id", &self.id)?;
        object.serialize_field("event", &stored.event)?;
        object.serialize_field("timestamp", &stored.timestamp)?;
        object.serialize_field("data", stored.data)?;
        object.end()
    }
}

impl<'de> Deserialize<'de> for StoredEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Item<'a> {
            id: EventId,
            #[serde(borrow)]
            event: Cow<'a, str>,
            timestamp: Timestamp,
            data: Box<RawValue>,
        }
        #[derive(Serialize)]
        struct Body<'a> {
            event: &'a str,
            timestamp: Timestamp,
            data: &'a RawValue,
        }
        let item = Item::deserialize(deserializer)?;
        let body = Body { event: &item.event, timestamp: item.timestamp, data: &item.data };
        let body = serde_json::to_string(&body).map_err(D::Error::custom)?;
        let event = Event::parse(body.as_bytes()).map_err(D::Error::custom)?;
        Ok(Self { id: item.id, event })
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for StoredEvent {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, Ref, SchemaFormat, Type};
        let moment = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("When the event happened."));
        let data = ["ClickEvent", "AttributeEvent", "IdentifyEvent", "ConversionEvent"].into_iter();
        let data = data.fold(AnyOfBuilder::new(), |any, name| any.item(Ref::from_schema_name(name)));
        let object = ObjectBuilder::new()
            .description(Some("An event in the log: the body that webhooks receive, with its ID."))
            .property("id", EventId::schema())
            .property("event", Ref::from_schema_name("EventKind"))
            .property("timestamp", moment)
            .property("data", data.description(Some("Data of the event; its fields depend on `event`.")));
        ["id", "event", "timestamp", "data"].into_iter().fold(object, ObjectBuilder::required).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for StoredEvent {}

paged! {
    /// Events of the account, in the order in which they were stored.
    EventList {
        /// The events.
        events: StoredEvent,
    }
}

/// Which events of the log are listed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventFilter {
    /// Only events of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<EventKind>,
    /// Only events that refer to this link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_id: Option<String>,
    /// Only events stored at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Only events stored before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
}

impl EventFilter {
    /// All events.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Only events of this kind.
        kind: EventKind,
        /// Only events that refer to this link.
        link_id: impl Into<String>,
        /// Only events stored at this time or later.
        from: Timestamp,
        /// Only events stored before this time.
        to: Timestamp,
    }

    /// Checks the filter: 400 `invalid_event` for an unknown kind, 400 `bad_request` for an empty link ID or a period that
    /// ends before it begins.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(EventKind::Unknown(_)) = &self.kind {
            let kinds = "kind must be click, attribute, identify or conversion";
            return Err(Invalid::field(ErrorCode::InvalidEvent, "kind", kinds));
        }
        if self.link_id.as_deref().is_some_and(|link_id| link_id.trim().is_empty()) {
            return Err(Invalid::field(ErrorCode::BadRequest, "link_id", "link_id is empty"));
        }
        match (self.from, self.to) {
            (Some(from), Some(to)) if to < from => {
                Err(Invalid::field(ErrorCode::BadRequest, "to", "to must not be earlier than from"))
            }
            _ => Ok(()),
        }
    }
}

impl Event {
    /// Whether the event names this link: a click on it, an install that it opened, a binding whose install it opened first, or
    /// a conversion that it touched first or last.
    pub fn names_link(&self, link_id: &str) -> bool {
        use super::EventData::{Attribute, Click, Conversion, Identify, Unknown};
        let [one, other] = match &self.data {
            Click(data) => [Some(&data.link_id), None],
            Attribute(data) => [Some(&data.link_id), None],
            Identify(data) => [data.first_touch_link_id.as_ref(), None],
            Conversion(data) => [data.first_touch_link_id.as_ref(), data.last_touch_link_id.as_ref()],
            Unknown(_) => [None, None],
        };
        [one, other].into_iter().flatten().any(|named| named == link_id)
    }
}
