//! What `dl` knows about webhooks, what was sent to them, and what its own tools find.

use super::noun::{Column, Field, Kind, Noun, inner, of, plain};

const fn inner_of(name: &'static str, path: &'static str, kind: Kind) -> Field {
    Field { name, path, kind, csv: true }
}

/// Webhooks.
pub(crate) static WEBHOOKS: Noun = Noun {
    id: "id",
    created: "id",
    list: "webhooks",
    fields: &[
        plain("id"),
        of("url", Kind::Address),
        of("events", Kind::Events),
        inner("affiliate_id", "filters.affiliate_id"),
        of("active", Kind::Flag),
        inner_of("status", "health.status", Kind::Status),
        inner_of("failing_since", "health.failing_since", Kind::Moment),
        inner_of("delivered_at", "health.delivered_at", Kind::Moment),
        inner("dropped", "health.dropped"),
        of("created_at", Kind::Moment),
    ],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("URL", "url"),
        Column::Field("EVENTS", "events"),
        Column::Field("ACTIVE", "active"),
        Column::Field("STATUS", "status"),
        Column::Spare("LAST DELIVERY", "delivered_at"),
        Column::Spare("CREATED", "created_at"),
    ],
};

/// A new webhook, with its secret.
pub(crate) static NEW_WEBHOOK: Noun = Noun {
    id: "id",
    created: "secret",
    list: "webhooks",
    fields: &[
        plain("id"),
        of("url", Kind::Address),
        of("events", Kind::Events),
        inner("affiliate_id", "filters.affiliate_id"),
        of("active", Kind::Flag),
        of("created_at", Kind::Moment),
        plain("secret"),
    ],
    columns: &[Column::Field("ID", "id"), Column::Field("SECRET", "secret")],
};

/// A webhook's new secret.
pub(crate) static ROTATED_SECRET: Noun = Noun {
    id: "id",
    created: "secret",
    list: "webhooks",
    fields: &[plain("id"), plain("secret")],
    columns: &[Column::Field("ID", "id"), Column::Field("SECRET", "secret")],
};

/// What was sent to a webhook.
pub(crate) static DELIVERIES: Noun = Noun {
    id: "id",
    created: "id",
    list: "deliveries",
    fields: &[
        plain("id"),
        plain("webhook_id"),
        plain("event_id"),
        plain("event"),
        of("status", Kind::Status),
        plain("request_body"),
        plain("attempts"),
        inner("last_status", "attempts.last.status"),
        inner("last_error", "attempts.last.error"),
        of("next_attempt_at", Kind::Moment),
        of("created_at", Kind::Moment),
    ],
    columns: &[
        Column::Field("ID", "id"),
        Column::Field("EVENT", "event"),
        Column::Field("STATUS", "status"),
        Column::Items("TRIES", "attempts"),
        Column::First("ANSWER", &["attempts.last.status", "attempts.last.error"], Kind::Said),
        Column::Spare("CREATED", "created_at"),
        Column::Spare("NEXT ATTEMPT", "next_attempt_at"),
        Column::Spare("EVENT ID", "event_id"),
    ],
};

/// What a signature was found to be.
pub(crate) static VERIFIED: Noun = Noun {
    id: "id",
    created: "id",
    list: "requests",
    fields: &[of("valid", Kind::Flag), plain("event"), plain("id"), of("timestamp", Kind::Moment)],
    columns: &[
        Column::Field("VALID", "valid"),
        Column::Field("EVENT", "event"),
        Column::Field("ID", "id"),
        Column::Field("HAPPENED", "timestamp"),
    ],
};

/// The headers that go with a body.
pub(crate) static SIGNED: Noun = Noun {
    id: "webhook-id",
    created: "webhook-id",
    list: "headers",
    fields: &[
        plain("x-service-signature"),
        plain("webhook-id"),
        plain("webhook-timestamp"),
        plain("webhook-signature"),
    ],
    columns: &[Column::Field("ID", "webhook-id")],
};

/// Attempts of an event at a receiver.
pub(crate) static ATTEMPTS: Noun = Noun {
    id: "id",
    created: "id",
    list: "attempts",
    fields: &[
        of("attempt", Kind::Count),
        plain("id"),
        of("status", Kind::Count),
        of("duration_ms", Kind::Count),
        plain("error"),
    ],
    columns: &[
        Column::Field("ATTEMPT", "attempt"),
        Column::Field("ID", "id"),
        Column::Field("STATUS", "status"),
        Column::Field("MS", "duration_ms"),
        Column::Field("ERROR", "error"),
    ],
};

/// Requests that came, and what became of each.
pub(crate) static RECEIPTS: Noun = Noun {
    id: "id",
    created: "id",
    list: "requests",
    fields: &[
        of("at", Kind::Moment),
        plain("verdict"),
        plain("event"),
        plain("id"),
        of("status", Kind::Count),
        of("duration_ms", Kind::Count),
        of("test", Kind::Flag),
        plain("error"),
    ],
    columns: &[
        Column::Field("AT", "at"),
        Column::Field("VERDICT", "verdict"),
        Column::Field("EVENT", "event"),
        Column::Field("ID", "id"),
        Column::Field("STATUS", "status"),
        Column::Field("MS", "duration_ms"),
        Column::Field("ERROR", "error"),
    ],
};
