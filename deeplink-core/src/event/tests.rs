use super::*;
use crate::event::sample::{in_earlier_form, sample};

#[test]
fn every_kind_survives_the_wire() {
    for kind in EventKind::ALL {
        let event = sample(kind, 7).expect("a sample");
        assert_eq!(&event.kind, kind);
        assert_eq!(Event::parse(event.raw.as_bytes()).expect("an event"), event);
        assert_eq!(sample(kind, 7).expect("a sample").raw, event.raw, "the same seed");
        assert_ne!(sample(kind, 8).expect("a sample").raw, event.raw, "another seed");
        assert_eq!(kind.code().and_then(EventKind::from_code).as_ref(), Some(kind));
    }
}

/// Each kind has exactly the documented members, in the documented order; nothing else leaks (C8: no addresses of
/// people).
#[test]
fn c8_members_are_those_of_the_interface() {
    let members = |kind: &EventKind| -> Vec<String> {
        let body: serde_json::Value = serde_json::from_str(&sample(kind, 1).expect("a sample").raw).expect("JSON");
        assert_eq!(body.as_object().expect("an object").keys().collect::<Vec<_>>(), ["event", "timestamp", "data"]);
        body["data"].as_object().expect("data").keys().cloned().collect()
    };
    assert_eq!(members(&EventKind::Click), ["tenant_id", "link_id", "user_agent", "referer", "platform", "timestamp"]);
    assert_eq!(members(&EventKind::Attribute), ["tenant_id", "link_id", "install_id", "app_version", "timestamp"]);
    assert_eq!(
        members(&EventKind::Identify),
        ["tenant_id", "user_id", "install_id", "first_touch_link_id", "first_touch_link_metadata", "timestamp"]
    );
    assert_eq!(
        members(&EventKind::Conversion),
        [
            "event_id",
            "tenant_id",
            "source_id",
            "first_touch_link_id",
            "last_touch_link_id",
            "conversion_type",
            "user_id",
            "metadata",
            "timestamp",
            // Present only with revenue.
            "amount_cents",
            "currency"
        ]
    );
}

#[test]
fn earlier_forms_are_read() {
    let attribution = in_earlier_form(&sample(&EventKind::Attribute, 1).expect("a sample")).expect("a body");
    assert!(attribution.starts_with(r#"{"event":"attribution""#), "{attribution}");
    assert_eq!(Event::parse(attribution.as_bytes()).expect("an event").kind, EventKind::Attribute);
    let conversion = in_earlier_form(&sample(&EventKind::Conversion, 1).expect("a sample")).expect("a body");
    let event = Event::parse(conversion.as_bytes()).expect("an event");
    let EventData::Conversion(data) = &event.data else { panic!("{event:?}") };
    assert!(data.link_id.is_some() && data.first_touch_link_id.is_none());
    assert_eq!((data.amount_cents, data.currency.as_deref()), (Some(1_999), Some("EUR")));
    assert_eq!(event.event_id(), Some(&data.event_id));
}

#[test]
fn unknown_kinds_are_kept_and_nonsense_is_not() {
    let body = br#"{"event":"refund","timestamp":"2026-01-01T00:00:00Z","data":{"n":1},"more":2}"#;
    let event = Event::parse(body).expect("an event");
    assert_eq!(event.kind, EventKind::Unknown("refund".into()));
    assert_eq!(event.data, EventData::Unknown(serde_json::json!({"n": 1})));
    for wrong in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"event":"click"}"#,
        r#"{"event":1,"timestamp":"2026-01-01T00:00:00Z","data":{}}"#,
        r#"{"event":"click","timestamp":"soon","data":{}}"#,
        r#"{"event":"click","timestamp":"2026-01-01T00:00:00Z","data":{}}"#,
        r#"{"event":"refund","timestamp":"2026-01-01T00:00:00Z","data":[1]}"#,
        r#"{"event":"refund","timestamp":"2026-01-01T00:00:00Z","data":null}"#,
    ] {
        assert!(Event::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(Event::parse(b"\xff").is_err());
}

#[test]
fn a_clicks_position_and_its_id_say_the_same() {
    for position in [0, 1, 0xf_ffff, 1 << 20, 1_795_167_000_120 << 20 | 0x4d, (1 << 62) - 1] {
        let id = click_event_id(position);
        assert_eq!(click_position(&id), Some(position), "{id}");
    }
    assert!(click_event_id(5) < click_event_id(6) && click_event_id(0xf_ffff) < click_event_id(1 << 20));
    let other = EventId::new(Timestamp::from_millis(1_795_167_000_120), &mut crate::secret::Random::seeded(3));
    assert_eq!(click_position(&other), None);
}

/// An event of the log is read back to the byte, with members and kinds that this build does not know.
#[test]
fn events_of_the_log_survive_the_wire() {
    let id: EventId = "evt_0123456789abcdef01234567".parse().expect("an id");
    let odd = [
        r#"{"event":"refund","timestamp":"2026-11-20T09:30:00.000Z","data":{"z":1.50,"a":[]}}"#,
        r#"{"event":"click","timestamp":"2026-11-20T09:30:00.000Z","data":{"tenant_id":"tnt_0123456789abcdef01234567","link_id":"a","user_agent":null,"referer":null,"platform":"ios","timestamp":"2026-11-20T09:30:00.000Z","more":{"b":2.0}}}"#,
    ];
    let known = EventKind::ALL.iter().map(|kind| sample(kind, 3).expect("a sample").raw);
    for body in known.chain(odd.map(str::to_owned)) {
        let stored = StoredEvent::new(id.clone(), Event::parse(body.as_bytes()).expect("an event"));
        let json = serde_json::to_string(&stored).expect("JSON");
        assert_eq!(json, body.replacen('{', &format!("{{\"id\":\"{id}\","), 1));
        let list = EventList::new(vec![stored.clone()], None);
        let list = serde_json::to_string(&list).expect("JSON");
        let read: EventList = serde_json::from_str(&list).expect("a list");
        assert_eq!(read.events[0], stored);
        let from_value: StoredEvent =
            serde_json::from_value(serde_json::from_str(&json).expect("JSON")).expect("an event");
        assert_eq!((from_value.id, from_value.event.kind), (stored.id, stored.event.kind));
    }
    for wrong in
        [r#"{"event":"click"}"#, r#"{"id":"evt_1","event":"click","timestamp":"2026-11-20T09:30:00Z","data":{}}"#]
    {
        assert!(serde_json::from_str::<StoredEvent>(wrong).is_err(), "{wrong}");
    }
}

/// A filter is checked where it is made, and names the field at fault.
#[test]
fn filters_of_the_log_are_checked() {
    let at = |text: &str| text.parse::<Timestamp>().expect("a time");
    let (one, other) = (at("2026-11-20T09:30:00Z"), at("2026-11-20T09:30:00.001Z"));
    assert!(EventFilter::new().from(one).to(one).kind(EventKind::Click).check().is_ok());
    let refused = |filter: EventFilter| filter.check().expect_err("a refusal").field;
    assert_eq!(refused(EventFilter::new().from(other).to(one)).as_deref(), Some("to"));
    assert_eq!(refused(EventFilter::new().kind(EventKind::from("sale"))).as_deref(), Some("kind"));
}
