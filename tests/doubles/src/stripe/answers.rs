//! Stripe's answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Fault, Inner, PRICES, SECRET_KEY, Seen, Session, VERSION};

/// A subscription in one of the two forms.
pub(super) fn shaped(wire: &Value, is_old: bool) -> Value {
    let mut wire = wire.clone();
    if !is_old {
        let end = wire.as_object_mut().expect("an object").remove("current_period_end").unwrap_or_default();
        for item in wire["items"]["data"].as_array_mut().expect("items") {
            item["current_period_end"] = end.clone();
        }
    }
    wire
}

fn error(status: u16, kind: &str, code: Option<&str>, message: &str, param: Option<&str>) -> (u16, Value) {
    let mut error = json!({"type": kind, "message": message});
    for (name, value) in [("code", code), ("param", param)].into_iter().filter(|(_, value)| value.is_some()) {
        error[name] = value.into();
    }
    (status, json!({"error": error}))
}

fn missing(what: &str, param: &str, status: u16) -> (u16, Value) {
    error(status, "invalid_request_error", Some("resource_missing"), &format!("No such {what}"), Some(param))
}

fn answer((status, body): (u16, Value)) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, [("request-id", "req_of_tests")], axum::Json(body)).into_response()
}

/// Whether Stripe would accept the headers.
fn refusal(method: &Method, headers: &HeaderMap) -> Option<(u16, Value)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text("authorization") != format!("Bearer {SECRET_KEY}") {
        return Some(error(401, "invalid_request_error", None, "Invalid API Key provided: rk_****", None));
    }
    let is_form = text(header::CONTENT_TYPE.as_str()) == "application/x-www-form-urlencoded";
    if text("stripe-version") != VERSION || *method == Method::POST && !is_form {
        return Some(error(400, "invalid_request_error", None, "Unrecognized request", None));
    }
    None
}

/// Closes the connection without an answer.
fn cut() -> ! {
    std::panic::resume_unwind(Box::new("cut"))
}

/// How a call fails before anything is done.
async fn fail(fault: Option<Fault>) -> Option<Response> {
    Some(match fault? {
        Fault::Status(status) => answer(error(status, "api_error", None, "it failed", None)),
        Fault::Hangs => std::future::pending().await,
        Fault::Cut => cut(),
        Fault::Text => "<html>".into_response(),
        Fault::CutAfterwards | Fault::Kept(_) => return None,
    })
}

/// Attached to an answer; notifies when that has been taken for sending.
struct Leaving(Arc<Notify>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn note(inner: &Mutex<Inner>, seen: Seen) -> Option<Fault> {
    let inner = &mut *inner.lock().expect("a lock");
    inner.seen.push(seen);
    inner.next_faults.pop_front().or(inner.fault)
}

pub(super) async fn read(
    State(inner): State<Arc<Mutex<Inner>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let seen = Seen { line: format!("GET /v1/subscriptions/{id}"), form: BTreeMap::new(), key: None };
    let fault = note(&inner, seen);
    if let Some(refused) = refusal(&Method::GET, &headers) {
        return answer(refused);
    }
    if let Some(failed) = fail(fault).await {
        return failed;
    }
    let (found, held) = {
        let inner = &mut *inner.lock().expect("a lock");
        (inner.subscriptions.get(&id).map(|wire| shaped(wire, inner.is_old)), inner.held.pop_front())
    };
    if let Some(held) = &held {
        held.reached.notify_one();
        held.open.notified().await;
    }
    let mut answer = answer(found.map_or_else(|| missing("subscription", "id", 404), |wire| (200, wire)));
    if let Some(held) = held {
        answer.extensions_mut().insert(Arc::new(Leaving(held.answered)));
    }
    answer
}

/// A price, which is paid each month.
pub(super) async fn price(
    State(inner): State<Arc<Mutex<Inner>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let seen = Seen { line: format!("GET /v1/prices/{id}"), form: BTreeMap::new(), key: None };
    let fault = note(&inner, seen);
    if let Some(refused) = refusal(&Method::GET, &headers) {
        return answer(refused);
    }
    if let Some(failed) = fail(fault).await {
        return failed;
    }
    let Some(nth) = PRICES.iter().position(|known| *known == id) else { return answer(missing("price", "price", 404)) };
    let amount = [1_900, 4_950, 129_900][nth];
    let recurring = json!({"interval": "month", "interval_count": 1, "usage_type": "licensed"});
    answer((
        200,
        json!({
            "id": id, "object": "price", "active": true, "billing_scheme": "per_unit", "currency": "eur",
            "unit_amount": amount, "type": "recurring", "recurring": recurring,
        }),
    ))
}

pub(super) async fn call(State(inner): State<Arc<Mutex<Inner>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
    let form: BTreeMap<_, _> = url::form_urlencoded::parse(&body).into_owned().collect();
    let key = parts.headers.get("idempotency-key").map(|key| key.to_str().expect("ASCII").to_owned());
    let path = parts.uri.path().to_owned();
    let fault = note(&inner, Seen { line: format!("POST {path}"), form: form.clone(), key: key.clone() });
    if let Some(refused) = refusal(&Method::POST, &parts.headers) {
        return answer(refused);
    }
    if let Some(failed) = fail(fault).await {
        return failed;
    }
    let key = key.expect("each POST has an idempotency key");
    let done = keyed(&mut inner.lock().expect("a lock"), &key, &path, &form, fault);
    if fault == Some(Fault::CutAfterwards) {
        cut();
    }
    done
}

/// Does it once per key.
fn keyed(inner: &mut Inner, key: &str, path: &str, form: &BTreeMap<String, String>, fault: Option<Fault>) -> Response {
    let asked = format!("{path} {form:?}");
    if let Some((before, status, said)) = inner.kept.get(key) {
        if *before != asked {
            let message = "Keys for idempotent requests can only be used with the same parameters";
            return answer(error(400, "idempotency_error", None, message, None));
        }
        return ([("idempotent-replayed", "true")], answer((*status, said.clone()))).into_response();
    }
    let (status, said) = match (fault, path) {
        (Some(Fault::Kept(status)), _) => error(status, "api_error", None, "it failed", None),
        (_, "/v1/checkout/sessions") => checkout(inner, form),
        (_, "/v1/billing_portal/sessions") => portal(inner, form),
        _ => update(inner, path.rsplit('/').next().expect("an id"), form),
    };
    inner.kept.insert(key.to_owned(), (asked, status, said.clone()));
    answer((status, said))
}

fn checkout(inner: &mut Inner, form: &BTreeMap<String, String>) -> (u16, Value) {
    for (name, only) in [
        ("mode", Some("subscription")),
        ("line_items[0][price]", None),
        ("line_items[0][quantity]", Some("1")),
        ("success_url", None),
        ("cancel_url", None),
    ] {
        let given = form.get(name).map(String::as_str);
        if given.is_none() || only.is_some() && given != only {
            return error(
                400,
                "invalid_request_error",
                Some("parameter_missing"),
                "Missing required param",
                Some(name),
            );
        }
    }
    if !PRICES.contains(&form["line_items[0][price]"].as_str()) {
        return missing("price", "line_items[0][price]", 400);
    }
    if ["customer", "customer_email"].iter().all(|name| form.contains_key(*name)) {
        return error(
            400,
            "invalid_request_error",
            None,
            "You may only specify one of these parameters",
            Some("customer"),
        );
    }
    if form.get("customer").is_some_and(|customer| !inner.customers.contains(customer)) {
        return missing("customer", "customer", 400);
    }
    let number = inner.number();
    let (id, url) =
        (format!("cs_test_{number}"), format!("https://checkout.stripe.test/c/pay/cs_test_{number}_fragment"));
    inner.sessions.push(Session { id: id.clone(), url: url.clone(), form: form.clone(), is_paid: false });
    (200, json!({"id": id, "object": "checkout.session", "url": url}))
}

fn portal(inner: &mut Inner, form: &BTreeMap<String, String>) -> (u16, Value) {
    match form.get("customer") {
        Some(customer) if inner.customers.contains(customer) && form.contains_key("return_url") => {
            let url = format!("https://billing.stripe.test/p/session/secret_{}", inner.number());
            (200, json!({"id": "bps_1", "object": "billing_portal.session", "url": url}))
        }
        _ => missing("customer", "customer", 400),
    }
}

fn update(inner: &mut Inner, id: &str, form: &BTreeMap<String, String>) -> (u16, Value) {
    let is_old = inner.is_old;
    let Some(wire) = inner.subscriptions.get_mut(id) else { return missing("subscription", "id", 404) };
    if wire["status"] == "canceled" {
        return error(400, "invalid_request_error", None, "A canceled subscription can only update its metadata", None);
    }
    if form.get("cancel_at_period_end").is_none_or(|value| value != "true") {
        return error(400, "invalid_request_error", Some("parameter_unknown"), "Received unknown parameter", None);
    }
    wire["cancel_at_period_end"] = true.into();
    (200, shaped(wire, is_old))
}
