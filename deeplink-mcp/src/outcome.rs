//! The result of a call: the response of the API as text and as structured content, or an image.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use deeplink_core::error::ErrorBody;
use http::header::{CONTENT_TYPE, HeaderMap, LINK};
use http::{Response, StatusCode};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

/// The result for a response. What the API refuses is the error of a tool, with the API's code and message.
pub(crate) fn of(response: Response<Bytes>) -> CallToolResult {
    let (parts, body) = response.into_parts();
    if !parts.status.is_success() {
        return match serde_json::from_slice(&body) {
            Ok(error @ Value::Object(_)) => CallToolResult::structured_error(error),
            _ => unreadable(parts.status),
        };
    }
    match media_type(&parts.headers) {
        "image/png" => CallToolResult::success(vec![ContentBlock::image(STANDARD.encode(&body), "image/png")]),
        "image/svg+xml" => CallToolResult::success(vec![ContentBlock::text(String::from_utf8_lossy(&body))]),
        // The only operation without a response body.
        _ if body.is_empty() => CallToolResult::structured(json!({"deleted": true})),
        _ => match serde_json::from_slice(&body) {
            // Structured content is an object. The next page of a bare array is in a header.
            Ok(Value::Array(items)) => {
                CallToolResult::structured(json!({"items": items, "next_cursor": next_cursor(&parts.headers)}))
            }
            Ok(value) => CallToolResult::structured(value),
            Err(_) => unreadable(parts.status),
        },
    }
}

/// The result for arguments that make no request.
pub(crate) fn refused(error: &ErrorBody) -> CallToolResult {
    CallToolResult::structured_error(json!(error))
}

fn unreadable(status: StatusCode) -> CallToolResult {
    let message = format!("unexpected response from the service (HTTP {})", status.as_u16());
    CallToolResult::error(vec![ContentBlock::text(message)])
}

fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// The cursor in `Link: <URL>; rel="next"` (RFC 8288).
fn next_cursor(headers: &HeaderMap) -> Option<String> {
    let (_, query) = headers.get(LINK)?.to_str().ok()?.split_once('<')?.1.split_once('>')?.0.split_once('?')?;
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find_map(|(name, value)| (name == "cursor").then(|| value.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(status: u16, media_type: &str, link: Option<&str>, body: &str) -> Value {
        let mut response = Response::builder().status(status).header(CONTENT_TYPE, media_type);
        if let Some(link) = link {
            response = response.header(LINK, link);
        }
        let result = of(response.body(Bytes::copy_from_slice(body.as_bytes())).expect("a response"));
        let mut seen = json!(result);
        seen.as_object_mut().expect("an object").remove("resultType");
        seen
    }

    #[test]
    fn responses_are_texts_with_structure_or_images() {
        let json = "application/json; charset=utf-8";
        let next = "<https://dl.example.com/v1/domains?limit=1&cursor=abc-_%3D>; rel=\"next\"";
        let of_text = |text: &str| json!([{"type": "text", "text": text}]);
        for (response, structured, content) in [
            (seen(200, json, None, r#"{"b": 1, "a": [ ]}"#), json!({"b": 1, "a": []}), of_text(r#"{"b":1,"a":[]}"#)),
            (
                seen(200, json, Some(next), "[1]"),
                json!({"items": [1], "next_cursor": "abc-_="}),
                of_text(r#"{"items":[1],"next_cursor":"abc-_="}"#),
            ),
            (
                seen(200, json, None, "[]"),
                json!({"items": [], "next_cursor": null}),
                of_text(r#"{"items":[],"next_cursor":null}"#),
            ),
            (seen(204, "", None, ""), json!({"deleted": true}), of_text(r#"{"deleted":true}"#)),
            (
                seen(200, "image/png", None, "abc"),
                Value::Null,
                json!([{"type": "image", "data": "YWJj", "mimeType": "image/png"}]),
            ),
            (seen(200, "image/svg+xml", None, "<svg/>"), Value::Null, of_text("<svg/>")),
        ] {
            assert_eq!(response["isError"], false, "{response}");
            assert_eq!((&response["structuredContent"], &response["content"]), (&structured, &content));
        }
    }

    #[test]
    fn refusals_are_errors_of_the_tool() {
        let refused = seen(404, "application/json", None, r#"{"error":"no link with ID a","code":"not_found"}"#);
        assert_eq!(refused["isError"], true);
        assert_eq!(refused["structuredContent"], json!({"error": "no link with ID a", "code": "not_found"}));
        for (status, kind, body) in
            [(502, "text/html", "<p>"), (200, "text/html", "<p>"), (500, "application/json", "7")]
        {
            let unreadable = seen(status, kind, None, body);
            assert_eq!((&unreadable["isError"], &unreadable["structuredContent"]), (&json!(true), &Value::Null));
        }
    }
}
