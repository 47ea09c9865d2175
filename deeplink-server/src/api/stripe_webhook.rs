//! Events that Stripe posts: checks their signature and finds their subscription.
//!
//! The signature is checked over the raw bytes, before they are parsed.

use axum::extract::{Request, State};
use deeplink_core::error::ErrorBody;
use deeplink_core::signature::is_any_mac;
use deeplink_core::time::Timestamp;
use http::{HeaderMap, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;

use crate::error::ApiError;
use crate::http::documented::NeedsProcessor;
use crate::http::extract::{EVENT_BODY_LIMIT, body_within};
use crate::state::Shared;
use crate::work::subscriptions::{self, StripeEvent};

/// How far the time of a signature may differ from now, in seconds.
const TOLERANCE_SECS: u64 = 300;
/// Maximum number of signatures compared per event.
const MAX_SIGNATURES: usize = 16;

/// Receives an event from Stripe.
///
/// Stripe posts events about checkouts, subscriptions and invoices here, signed in `Stripe-Signature`. The
/// subscription data in an event is not stored; the service fetches the subscription instead. Irrelevant events
/// are accepted too. On any response other than 200, Stripe sends the event again.
#[utoipa::path(
    post, path = "/v1/billing/stripe/webhook", operation_id = "stripe_webhook", tag = "billing",
    params(("Stripe-Signature" = Option<String>, Header, description = "`t=` and the time in seconds since 1970, then `,v1=` and the hex HMAC-SHA-256 of the time, a period and the body, keyed with the endpoint's secret")),
    responses(
        (status = 200, description = "Accepted"),
        NeedsProcessor,
        (status = 400, description = "The signature is missing, malformed, incorrect, or more than five minutes off, or the body is not an event", body = ErrorBody),
        (status = 413, description = "The body is larger than 256 KiB", body = ErrorBody),
    )
)]
pub(crate) async fn receive(State(app): State<Shared>, request: Request) -> Result<StatusCode, ApiError> {
    let stripe = app.stripe()?;
    let headers = request.headers().clone();
    let body = body_within(request, EVENT_BODY_LIMIT).await?;
    let now = app.clock.now();
    if !is_signed(&headers, &body, stripe.webhook_secrets(), now) {
        app.metrics.stripe_signature_refused();
        if stripe.may_warn(now) {
            tracing::warn!(
                "event rejected: its signature matches none of the endpoint's secrets, or its timestamp is more than 5 minutes from this server's time"
            );
        }
        return Err(ApiError::bad_field(
            "Stripe-Signature",
            "Stripe-Signature does not match the body and the timestamp",
        ));
    }
    if let Some(event) = event_of(&body)? {
        subscriptions::take(&app, stripe, &event).await?;
    }
    Ok(StatusCode::OK)
}

/// Whether the body was signed with one of the secrets, within the tolerance.
fn is_signed(headers: &HeaderMap, body: &[u8], secrets: &[SecretString], now: Timestamp) -> bool {
    let mut values = headers.get_all("stripe-signature").iter();
    let Some(header) = values.next().and_then(|value| value.to_str().ok()) else { return false };
    let parsed = if values.next().is_none() { parse(header) } else { None };
    let Some((time, signatures)) = parsed else { return false };
    let Ok(seconds) = time.parse::<i64>() else { return false };
    let distance = now.as_millis().div_euclid(1_000).abs_diff(seconds);
    if distance > TOLERANCE_SECS {
        return false;
    }
    let message = [time.as_bytes(), b".", body];
    secrets.iter().any(|secret| is_any_mac(secret.expose_secret().as_bytes(), &message, &signatures))
}

/// The time and the signatures of a header. Signatures of other schemes and lengths are skipped.
fn parse(header: &str) -> Option<(&str, Vec<[u8; 32]>)> {
    let mut time = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.trim().split_once('=')? {
            ("t", value) if time.is_none() => time = Some(value),
            ("t", _) => return None,
            ("v1", value) if signatures.len() < MAX_SIGNATURES => signatures.extend(mac(value)),
            _ => {}
        }
    }
    Some((time.filter(|time| time.bytes().all(|byte| byte.is_ascii_digit()))?, signatures))
}

fn mac(hex: &str) -> Option<[u8; 32]> {
    let mut mac = [0; 32];
    hex::decode_to_slice(hex, &mut mac).is_ok().then_some(mac)
}

#[derive(Deserialize)]
struct WireEvent {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    /// The event's subject, in `object`. Events of unused kinds may have none.
    #[serde(default)]
    data: Value,
}

/// The subscription that an event is about; `None` if the event is irrelevant.
fn event_of(body: &[u8]) -> Result<Option<StripeEvent>, ApiError> {
    let malformed = || ApiError::bad_request("the body is not an event");
    let WireEvent { id, kind, data } = serde_json::from_slice(body).map_err(|_| malformed())?;
    let object = &data["object"];
    let subscription = match kind.as_str() {
        "checkout.session.completed" => name(&object["subscription"]),
        "customer.subscription.created"
        | "customer.subscription.updated"
        | "customer.subscription.deleted"
        | "customer.subscription.paused"
        | "customer.subscription.resumed" => name(object),
        // Since version 2025-03-31 it is in the invoice's `parent`.
        "invoice.paid" | "invoice.payment_failed" => {
            name(&object["subscription"]).or_else(|| name(&object["parent"]["subscription_details"]["subscription"]))
        }
        _ => return Ok(None),
    };
    if !object.is_object() {
        return Err(malformed());
    }
    let Some(subscription) = subscription else { return Ok(None) };
    let customer = name(&object["customer"]);
    if ![Some(&id), Some(&subscription), customer.as_ref()].into_iter().flatten().all(|id| is_id(id)) {
        return Err(malformed());
    }
    let places = [&object["metadata"], &object["parent"]["subscription_details"]["metadata"]];
    // Not from `client_reference_id`: anyone who opens a payment link can set that in its URL.
    let tenant = places.into_iter().find_map(|metadata| metadata["tenant_id"].as_str()).map(str::to_owned);
    Ok(Some(StripeEvent { id, subscription, customer, tenant }))
}

/// The id at this place, or the id of an expanded object.
fn name(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value["id"].as_str()).map(str::to_owned)
}

/// Whether a text can be a Stripe id. Ids become parts of paths.
fn is_id(text: &str) -> bool {
    (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_of_signatures_are_read() {
        let read = |header: &str| parse(header).map(|(time, signatures)| (time.to_owned(), signatures.len()));
        let (one, two) = (&"00".repeat(32), &"fF".repeat(32));
        for (header, expected) in [
            (format!("t=12,v1={one}"), Some(("12", 1))),
            (format!("t=12, v1={one}, v1={two}"), Some(("12", 2))),
            (format!("v1={one},t=12,v0=xyz"), Some(("12", 1))),
            (format!("t=12,v1=zz,v1={one}"), Some(("12", 1))),
            (format!("t=12,v1={one}00"), Some(("12", 0))),
        ] {
            assert_eq!(read(&header), expected.map(|(time, count)| (time.to_owned(), count)), "{header:?}");
        }
        for (header, expected) in [
            ("t=12,v1=00ff", Some(("12", 0))),
            ("t=12", Some(("12", 0))),
            ("t=12,v0=00", Some(("12", 0))),
            ("", None),
            ("v1=00", None),
            ("t=12,v1=0", Some(("12", 0))),
            ("t=12,t=13,v1=00", None),
            ("t=-12,v1=00", None),
            ("t=+12,v1=00", None),
            ("t=12,v1", None),
        ] {
            assert_eq!(read(header), expected.map(|(time, count)| (time.to_owned(), count)), "{header:?}");
        }
        assert_eq!(read(&format!("t=12{}", format!(",v1={one}").repeat(100))), Some(("12".to_owned(), MAX_SIGNATURES)));
    }

    #[test]
    fn events_name_their_subscription_in_every_form() {
        let read = |kind: &str, object: Value| {
            let event = json!({"id": "evt_1", "type": kind, "data": {"object": object}});
            event_of(event.to_string().as_bytes()).expect("an event")
        };
        let subscription = json!({"id": "sub_1", "customer": "cus_1", "metadata": {"tenant_id": "tnt_1"}});
        let session = json!({
            "id": "cs_1", "subscription": "sub_1", "customer": {"id": "cus_1"}, "client_reference_id": "tnt_2",
            "metadata": {"tenant_id": "tnt_1"},
        });
        let link = json!({
            "id": "cs_1", "subscription": "sub_1", "customer": "cus_1", "client_reference_id": "tnt_1", "metadata": {},
        });
        let invoice = json!({"id": "in_1", "customer": "cus_1", "subscription": "sub_1", "metadata": {}});
        let new_invoice = json!({
            "id": "in_1", "customer": "cus_1", "metadata": {},
            "parent": {"subscription_details": {"subscription": "sub_1", "metadata": {"tenant_id": "tnt_1"}}},
        });
        for (kind, object, tenant) in [
            ("customer.subscription.created", &subscription, Some("tnt_1")),
            ("customer.subscription.deleted", &subscription, Some("tnt_1")),
            ("checkout.session.completed", &session, Some("tnt_1")),
            ("checkout.session.completed", &link, None),
            ("invoice.paid", &invoice, None),
            ("invoice.payment_failed", &new_invoice, Some("tnt_1")),
        ] {
            let event = read(kind, object.clone()).expect("a use");
            assert_eq!((event.subscription.as_str(), event.customer.as_deref()), ("sub_1", Some("cus_1")), "{kind}");
            assert_eq!(event.tenant.as_deref(), tenant, "{kind}");
        }
        assert!(read("customer.created", subscription.clone()).is_none());
        assert!(read("invoice.paid", json!({"id": "in_1", "customer": "cus_1"})).is_none());
        assert!(read("checkout.session.completed", json!({"id": "cs_1", "mode": "payment"})).is_none());
        let away = json!({"id": "evt_1", "type": "customer.subscription.updated", "data": {"object": {"id": "../x"}}});
        assert!(event_of(away.to_string().as_bytes()).is_err());
        assert!(event_of(b"{}").is_err() && event_of(b"x").is_err());
        for (kind, is_used) in [("v1.billing.meter.no_meter_found", false), ("invoice.paid", true)] {
            let thin = json!({"id": "evt_1", "object": "v2.core.event", "type": kind, "related_object": null});
            assert_eq!(event_of(thin.to_string().as_bytes()).is_err(), is_used, "{kind}");
            let empty = json!({"id": "evt_1", "type": kind, "data": {}});
            assert_eq!(event_of(empty.to_string().as_bytes()).is_err(), is_used, "{kind}");
        }
    }
}
