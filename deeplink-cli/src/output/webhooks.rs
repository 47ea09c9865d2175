//! Records of webhooks, their deliveries, and the results of `dl`'s own tools.

use super::noun::{Column, Field, Kind, Noun, column, nouns};

nouns! {
    /// Webhooks.
    WEBHOOKS("webhooks", id: "id", created: "id") {
        fields: "id", "url": Address, "events": Events, "affiliate_id" = "filters.affiliate_id", "retry_for",
            "active": Flag, "status" = "health.status": Status, "failing_since" = "health.failing_since": Moment,
            "delivered_at" = "health.delivered_at": Moment, "dropped" = "health.dropped", "created_at": Moment;
        columns: "ID" = "id", "URL" = "url", "EVENTS" = "events", "ACTIVE" = "active", "STATUS" = "status",
            "LAST DELIVERY" = (Spare "delivered_at"), "CREATED" = (Spare "created_at");
    }

    /// A new webhook, with its secret.
    NEW_WEBHOOK("webhooks", id: "id", created: "secret") {
        fields: "id", "url": Address, "events": Events, "affiliate_id" = "filters.affiliate_id", "retry_for",
            "active": Flag, "created_at": Moment, "secret";
        columns: "ID" = "id", "SECRET" = "secret";
    }

    /// A webhook's new secret.
    ROTATED_SECRET("webhooks", id: "id", created: "secret") {
        fields: "id", "secret";
        columns: "ID" = "id", "SECRET" = "secret";
    }

    /// Deliveries to a webhook.
    DELIVERIES("deliveries", id: "id", created: "id") {
        fields: "id", "webhook_id", "event_id", "event", "status": Status, "request_body", "attempts",
            "last_status" = "attempts.last.status", "last_error" = "attempts.last.error", "next_attempt_at": Moment,
            "created_at": Moment;
        columns: "ID" = "id", "EVENT" = "event", "STATUS" = "status", "ATTEMPTS" = (Items "attempts"),
            "RESPONSE" = (First &["attempts.last.status", "attempts.last.error"], Kind::Text),
            "CREATED" = (Spare "created_at"), "NEXT ATTEMPT" = (Spare "next_attempt_at"),
            "EVENT ID" = (Spare "event_id");
    }

    /// How many deliveries are sent again.
    REPLAYED("replays", id: "count", created: "count") {
        fields: "count": Count, "has_more": Flag;
        columns: "COUNT" = "count", "HAS MORE" = "has_more";
    }

    /// The result of verifying a signature.
    VERIFIED("requests", id: "id", created: "id") {
        fields: "valid": Flag, "event", "id", "timestamp": Moment;
        columns: "VALID" = "valid", "EVENT" = "event", "ID" = "id", "TIME" = "timestamp";
    }

    /// The headers that go with a body.
    SIGNED("headers", id: "webhook-id", created: "webhook-id") {
        fields: "x-service-signature", "webhook-id", "webhook-timestamp", "webhook-signature";
        columns: "ID" = "webhook-id";
    }

    /// Attempts to deliver an event to an endpoint.
    ATTEMPTS("attempts", id: "id", created: "id") {
        fields: "attempt": Count, "id", "status": Count, "duration_ms": Count, "error";
        columns: "ATTEMPT" = "attempt", "ID" = "id", "STATUS" = "status", "MS" = "duration_ms", "ERROR" = "error";
    }

    /// Received requests, and the result of each.
    RECEIPTS("requests", id: "id", created: "id") {
        fields: "at": Moment, "verdict", "event", "id", "status": Count, "duration_ms": Count, "test": Flag, "error";
        columns: "AT" = "at", "VERDICT" = "verdict", "EVENT" = "event", "ID" = "id", "STATUS" = "status",
            "MS" = "duration_ms", "ERROR" = "error";
    }
}
