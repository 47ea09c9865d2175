//! Links, their lists and their QR codes.

use deeplink_client::mock::fixtures;
use deeplink_core::qr::QrFormat;

use super::{Answer, Double, Request};

/// A link as lists and details show it. Its members are in alphabetical order, so that they are in every build.
pub fn link(id: &str) -> serde_json::Value {
    serde_json::json!({
        "affiliate_id": null, "agent_context": {"action": "purchase", "cta": "Buy now", "description": null},
        "aliases": [],
        "android_deep_link": null, "android_store_url": null, "created_at": "2026-11-20T09:30:00.000Z",
        "enabled": true, "expired_url": null, "expires_at": null, "imported_clicks": null,
        "ios_deep_link": null, "ios_store_url": null,
        "link_id": id, "metadata": {"season": "spring"}, "name": null, "owner_expires_at": null,
        "qr": null, "social_preview": null, "status": "active", "tags": [],
        "updated_at": "2026-11-20T09:30:00.000Z", "url": format!("https://go.example.com/{id}"),
        "web_url": format!("https://example.com/p/{id}"),
    })
}

/// The history of [`link`]`("spring-42")`: one version.
pub fn history() -> Answer {
    Answer::json(200, &serde_json::json!({"versions": [fixtures::link_version()], "next_cursor": null}))
}

/// The explanation of that link to a browser on Windows.
pub fn explanation() -> Answer {
    Answer::json(200, &serde_json::to_value(fixtures::explanation("spring-42")).expect("JSON"))
}

/// The QR code of `https://go.example.com/spring-42`, which is the address of [`link`]`("spring-42")`.
pub fn qr_code(format: QrFormat) -> Answer {
    Answer::new(200, fixtures::qr_code(format).to_vec()).header("content-type", format.media_type())
}

/// The answer to a change or deletion of many links, all of which exist but these; `None` for any other request.
pub fn many_links(request: &Request, missing: &[&str]) -> Option<Answer> {
    if request.path() != "/v1/links/bulk" || !["PATCH", "DELETE"].contains(&request.method.as_str()) {
        return None;
    }
    let body = request.json();
    let ids: Vec<&str> = body["link_ids"].as_array()?.iter().filter_map(serde_json::Value::as_str).collect();
    let row = |(index, id): (usize, &&str)| serde_json::json!({"index": index, "code": "not_found", "message": "no link with this ID", "custom_id": id});
    let errors: Vec<_> = ids.iter().enumerate().filter(|(_, id)| missing.contains(id)).map(row).collect();
    Some(if !errors.is_empty() {
        let error = format!("{} row is invalid; nothing was stored", errors.len());
        Answer::json(400, &serde_json::json!({"error": error, "code": "invalid_batch", "errors": errors}))
    } else if request.method == "DELETE" {
        Answer::json(200, &serde_json::json!({"deleted": ids.len()}))
    } else {
        Answer::json(200, &serde_json::json!({"links": ids.into_iter().map(link).collect::<Vec<_>>()}))
    })
}

/// A service with these links in its list, in pages.
pub fn with_links(count: usize) -> Double {
    Double::new(move |request| {
        let id = |at: usize| format!("link-{at:04}");
        if let Some(answer) = many_links(request, &[]) {
            return answer;
        }
        match request.line().as_str() {
            "GET /v1/links" => {
                let from: usize = request
                    .query("cursor")
                    .map_or(0, |cursor| cursor.trim_start_matches("at-").parse().expect("a cursor"));
                let limit: usize = request.query("limit").map_or(50, |limit| limit.parse().expect("a limit"));
                let to = (from + limit).min(count);
                let next = (to < count).then(|| format!("at-{to}"));
                let links: Vec<_> = (from..to).map(|at| link(&id(at))).collect();
                Answer::json(200, &serde_json::json!({"links": links, "next_cursor": next}))
            }
            line => match line.strip_prefix("GET /v1/links/") {
                Some(found) if (0..count).any(|at| id(at) == found) => Answer::json(200, &link(found)),
                _ if line.starts_with("DELETE ") => Answer::new(204, ""),
                _ => Answer::error(404, "not_found", "there is no such link"),
            },
        }
    })
}
