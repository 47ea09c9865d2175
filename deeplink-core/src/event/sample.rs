//! Made-up events for trying receivers: the same seed gives the same bytes.

use super::{AttributeData, ClickData, ConversionData, Event, EventData, EventKind, IdentifyData};
use crate::id::{EventId, SourceId, TenantId};
use crate::metadata::Metadata;
use crate::secret::Random;
use crate::time::Timestamp;

/// Timestamp of samples: fixed, so that only the seed changes them.
const MOMENT: i64 = 1_767_225_600_000;

/// An event of this kind; `None` for a kind this build does not know.
pub fn sample(kind: &EventKind, seed: u64) -> Option<Event> {
    sample_at(kind, Timestamp::from_millis(MOMENT), &mut Random::seeded(seed))
}

/// An event of this kind at this time.
pub fn sample_at(kind: &EventKind, timestamp: Timestamp, random: &mut Random) -> Option<Event> {
    let tenant_id = TenantId::new(timestamp, random);
    sample_of(kind, tenant_id, timestamp, random)
}

/// An event of this kind at this time in this account.
pub fn sample_of(kind: &EventKind, tenant_id: TenantId, timestamp: Timestamp, random: &mut Random) -> Option<Event> {
    let link_id: String = (0..8).map(|_| random.pick(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")).collect();
    let user = |random: &mut Random| format!("user-{}", random.below(10_000));
    let install = |random: &mut Random| format!("install-{}", hex::encode(random.bytes::<4>()));
    let metadata = || Some(Metadata::from_stored(r#"{"campaign":"spring"}"#));
    Event::of(match kind {
        EventKind::Click => EventData::Click(ClickData {
            tenant_id,
            link_id,
            user_agent: Some("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X)".into()),
            referer: Some("https://example.com/".into()),
            platform: "ios".into(),
            timestamp,
        }),
        EventKind::Attribute => EventData::Attribute(AttributeData {
            tenant_id,
            link_id,
            install_id: install(random),
            app_version: "1.0.0".into(),
            timestamp,
            user_id: None,
        }),
        EventKind::Identify => EventData::Identify(IdentifyData {
            tenant_id,
            user_id: user(random),
            install_id: install(random),
            first_touch_link_id: Some(link_id),
            first_touch_link_metadata: metadata(),
            timestamp,
        }),
        EventKind::Conversion => EventData::Conversion(Box::new(ConversionData {
            event_id: EventId::new(timestamp, random),
            tenant_id,
            source_id: Some(SourceId::new(timestamp, random)),
            first_touch_link_id: Some(link_id.clone()),
            last_touch_link_id: Some(link_id),
            conversion_type: "purchase".into(),
            user_id: user(random),
            metadata: metadata(),
            timestamp,
            link_id: None,
            amount_cents: Some(1_999),
            currency: Some("EUR".into()),
        })),
        EventKind::Unknown(_) => return None,
    })
}

/// The body of an event as earlier versions of the interface wrote it: `attribution`, and a conversion with one link and
/// its revenue. An `identify` has no earlier form and stays as it is.
pub fn in_earlier_form(event: &Event) -> Option<String> {
    let mut body: serde_json::Value = serde_json::from_str(&event.raw).ok()?;
    match &event.data {
        EventData::Attribute(_) => body["event"] = "attribution".into(),
        EventData::Conversion(conversion) => {
            let data = body["data"].as_object_mut()?;
            data.remove("first_touch_link_id");
            data.remove("last_touch_link_id");
            data.insert("link_id".into(), conversion.last_touch_link_id.clone().into());
            data.entry("amount_cents").or_insert_with(|| 1_999.into());
            data.entry("currency").or_insert_with(|| "EUR".into());
        }
        _ => {}
    }
    serde_json::to_string(&body).ok()
}
