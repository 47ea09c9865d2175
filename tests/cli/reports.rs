//! The service's answers to reports: clicks, installs, users, conversions, sources and funnels.

use deeplink_client::EventKind;
use deeplink_client::mock::fixtures;
use serde_json::{Value, json};

use deeplink_testing::double::{Answer, Double, Request};

/// Id of [`source`].
pub(crate) const SOURCE: &str = "src_0123456789abcdef01234567";
/// Token in the URL of [`source`].
pub(crate) const SECRET: &str = "5ec4e71de5c0de285ec4e71de5c0de285ec4e71de5c0de285ec4e71de5c0de28";
/// Id of a conversion.
pub(crate) const EVENT: &str = "evt_0123456789abcdef01234567";

/// A source as lists and details show it, with its URL on this service.
pub(crate) fn source(base: &str) -> Value {
    json!({
        "id": SOURCE, "name": "Shop", "source_type": "custom", "webhook_url": format!("{base}/in/{SECRET}"),
        "created_at": "2026-11-20T09:30:00.000Z",
    })
}

/// The result of a conversion, with all but one of the counts 0.
pub(crate) fn converted(what: &str) -> Answer {
    let count = |name: &str| i64::from(name == what);
    let event = (what != "failed").then_some(EVENT);
    Answer::json(
        200,
        &json!({
            "accepted": count("accepted"), "deduped": count("deduped"), "unattributed": count("unattributed"),
            "failed": count("failed"), "event_id": event,
        }),
    )
}

fn counts() -> Value {
    json!({
        "clicks": 120, "new_users": {"installed": 31, "identified": 12},
        "returning_users": {"reinstalled": 2, "new_device": 1, "engaged": 9},
        "conversions": {"purchase": 2, "signup": 1}, "revenue": [{"currency": "EUR", "amount_cents": 8400}],
    })
}

/// A report on these links, grouped as requested.
pub(crate) fn report(ids: &[&str], group_by: Option<&str>) -> Value {
    let mut report = json!({
        "from": "2026-10-21T09:30:00.000Z", "to": "2026-11-20T09:30:00.000Z", "link_ids": ids, "credit": "last_touch",
        "funnel": counts(),
    });
    let group = |key: &str| {
        let mut group = counts();
        group["key"] = key.into();
        group
    };
    let groups = match group_by {
        None => return report,
        Some("day") => json!([{
            "key": "2026-11-19", "clicks": 0, "new_users": {"installed": 0, "identified": 0},
            "returning_users": {"reinstalled": 0, "new_device": 0, "engaged": 0}, "conversions": {}, "revenue": [],
        }, group("2026-11-20")]),
        Some("link") if ids == [""] => json!([group("spring-42"), {"key": "other", "clicks": 20}]),
        Some("link") => ids.iter().map(|id| group(id)).collect(),
        Some(_) => json!([{"key": "example.com", "clicks": 100}, {"key": "", "clicks": 20}]),
    };
    report["group_by"] = group_by.into();
    report["groups"] = groups;
    report
}

/// The report by day as CSV.
pub(crate) const CSV: &str = "key,clicks,installed,identified,reinstalled,new_device,engaged,conversions,\
                              conversion.purchase,conversion.signup\r\n2026-11-20,120,31,12,2,1,9,3,2,1\r\n";

/// All results of a link.
pub(crate) fn link_stats() -> Value {
    json!({
        "link_id": "spring-42", "click_count": 120, "install_count": 31, "identify_count": 12, "convert_count": 3,
        "conversion_rate": 0.025, "conversions": [
            {"conversion_type": "purchase", "count": 2, "currency": "EUR", "sum_cents": 8400},
            {"conversion_type": "signup", "count": 1, "currency": null, "sum_cents": null},
        ],
    })
}

/// Answers requests about reports; `None` for any other request.
pub(crate) fn of_reports(request: &Request) -> Option<Answer> {
    let base = format!("http://{}", request.header("host").unwrap_or_default());
    let done = || Answer::new(200, r#"{"success":true}"#);
    Some(match request.line().as_str() {
        "POST /v1/lifecycle/click" | "POST /v1/attribution/click" => {
            Answer::json(200, &serde_json::to_value(fixtures::tracked_click("spring-42")).expect("JSON"))
        }
        "POST /v1/lifecycle/attribute"
        | "POST /v1/attribution/report"
        | "PUT /v1/lifecycle/identify"
        | "PUT /v1/attribution/link" => done(),
        "POST /v1/lifecycle/convert" => converted("accepted"),
        "GET /v1/account" | "PATCH /v1/account" | "DELETE /v1/account/deletion" => {
            Answer::json(200, &serde_json::to_value(fixtures::account()).expect("JSON"))
        }
        "GET /v1/account/export" => Answer::json(200, &serde_json::to_value(fixtures::account_export()).expect("JSON")),
        "POST /v1/account/deletion" => {
            Answer::json(200, &serde_json::to_value(fixtures::deleted_account()).expect("JSON"))
        }
        "GET /v1/audit" => {
            Answer::json(200, &json!({"entries": [fixtures::audit_entry("you@example.com")], "next_cursor": null}))
        }
        "GET /v1/analytics/events" => {
            let events: Vec<_> = EventKind::ALL.iter().map(fixtures::stored_event).collect();
            Answer::json(200, &json!({"events": events, "next_cursor": null}))
        }
        "GET /v1/sources" => Answer::json(200, &json!({"sources": [source(&base)]})),
        "POST /v1/sources" => Answer::json(201, &source(&base)),
        "GET /v1/links/spring-42/stats" => Answer::json(200, &link_stats()),
        "GET /v1/analytics/stats" if request.query("format") == Some("csv") => {
            Answer::new(200, CSV).header("content-type", "text/csv; charset=utf-8")
        }
        "GET /v1/analytics/stats" => {
            let ids: Vec<&str> = request.query("link_ids").unwrap_or_default().split("%2C").collect();
            Answer::json(200, &report(&ids, request.query("group_by")))
        }
        line if line == format!("GET /v1/sources/{SOURCE}") => Answer::json(200, &source(&base)),
        line if line == format!("POST /in/{SECRET}") => converted("accepted"),
        line if line.starts_with("DELETE /v1/sources/") => Answer::new(204, ""),
        _ => return None,
    })
}

/// Such a service.
pub(crate) fn service() -> Double {
    Double::new(|request| {
        of_reports(request).unwrap_or_else(|| Answer::error(404, "not_found", "there is no such thing"))
    })
}
