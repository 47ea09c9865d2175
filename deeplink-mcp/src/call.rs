//! The API request of a call: arguments named in the path go there, the others into the query of a read, or the body.

use bytes::Bytes;
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::routes::Route;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::JsonObject;
use serde_json::Value;
use url::form_urlencoded::Serializer;

const JSON: &str = "application/json";
/// What is escaped in a path segment: everything but unreserved characters (RFC 3986, section 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The request of an operation with these arguments. Unknown ones are an error, because a model may have made them up.
pub(crate) fn request(route: Route, schema: &JsonObject, mut arguments: JsonObject) -> Result<Request<Bytes>, Invalid> {
    let known = schema.get("properties").and_then(Value::as_object);
    if let Some(name) = arguments.keys().find(|name| known.is_none_or(|known| !known.contains_key(*name))) {
        let names: Vec<_> = known.into_iter().flat_map(|known| known.keys().map(String::as_str)).collect();
        let known = if names.is_empty() {
            "this tool has no arguments".to_owned()
        } else {
            format!("known: {}", names.join(", "))
        };
        return Err(wrong(name, format!("unknown argument {name}; {known}")));
    }
    let default = |name: &str| known?.get(name)?.get("default").cloned();
    let mut path = path(route.path, |name| arguments.shift_remove(name).or_else(|| default(name)))?;
    let mut request = Request::builder().method(route.method).header(ACCEPT, JSON);
    let mut body = Bytes::new();
    if matches!(route.method, "POST" | "PUT") {
        request = request.header(CONTENT_TYPE, JSON);
        body = Value::Object(arguments).to_string().into();
    } else if let Some(query) = query(arguments)? {
        path = format!("{path}?{query}");
    }
    request.uri(path).body(body).map_err(|_| Invalid::whole(ErrorCode::BadRequest, "the arguments are too long"))
}

/// A path with a value for each of its parameters.
fn path(template: &str, mut value: impl FnMut(&str) -> Option<Value>) -> Result<String, Invalid> {
    let (mut path, mut rest) = (String::new(), template);
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    {
        let text = match value(name) {
            Some(Value::String(text)) if !matches!(&*text, "" | "." | "..") => text,
            None => return Err(wrong(name, format!("{name} is required"))),
            Some(_) => return Err(wrong(name, format!("{name} must be a non-empty string"))),
        };
        path.push_str(before);
        path.extend(utf8_percent_encode(&text, ESCAPED));
        rest = after;
    }
    Ok(path + rest)
}

/// A query with these parameters; `None` without any.
fn query(arguments: JsonObject) -> Result<Option<String>, Invalid> {
    let mut query = Serializer::new(String::new());
    let mut is_empty = true;
    for (name, value) in arguments {
        let values = match value {
            Value::Null => continue,
            Value::Array(values) => values.iter().map(|value| text(&name, value)).collect::<Result<Vec<_>, _>>()?,
            value => vec![text(&name, &value)?],
        };
        is_empty &= values.is_empty();
        if name == "link_ids" {
            // The one list that the API reads from one parameter.
            query.append_pair(&name, &values.join(","));
        } else {
            query.extend_pairs(values.iter().map(|value| (&name, value)));
        }
    }
    Ok((!is_empty).then(|| query.finish()))
}

fn text(name: &str, value: &Value) -> Result<String, Invalid> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(wrong(name, format!("{name} must be a string, a number, a boolean, or an array of these")))
        }
    }
}

fn wrong(name: &str, message: String) -> Invalid {
    Invalid::field(ErrorCode::BadRequest, name.to_owned(), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;
    use serde_json::json;

    fn called(tool: &str, arguments: &Value) -> Result<String, String> {
        let (route, tool) = tools::named(tool).expect("a tool");
        let arguments = arguments.as_object().expect("arguments").clone();
        let request = request(route, &tool.input_schema, arguments).map_err(|error| {
            assert_eq!(error.code, ErrorCode::BadRequest);
            format!("{}: {}", error.field.unwrap_or_default(), error.message)
        })?;
        let body = String::from_utf8_lossy(request.body());
        assert_eq!(request.headers().contains_key(CONTENT_TYPE), !body.is_empty());
        Ok(format!("{} {} {body}", request.method(), request.uri()).trim_end().to_owned())
    }

    #[test]
    fn arguments_are_in_the_path_the_query_or_the_body() {
        for (tool, arguments, expected) in [
            ("create_link", json!({}), "POST /v1/links {}"),
            (
                "create_link",
                json!({"web_url": "https://example.com/", "tags": ["a", "b"]}),
                r#"POST /v1/links {"web_url":"https://example.com/","tags":["a","b"]}"#,
            ),
            ("update_link", json!({"name": null, "link_id": "a"}), r#"PUT /v1/links/a {"name":null}"#),
            ("delete_link", json!({"link_id": "a"}), "DELETE /v1/links/a"),
            ("get_link", json!({"link_id": "a/../b?c#d é"}), "GET /v1/links/a%2F..%2Fb%3Fc%23d%20%C3%A9"),
            ("list_links", json!({}), "GET /v1/links"),
            (
                "list_links",
                json!({"q": "a b&c", "tag": ["x", "y z"], "limit": 5, "enabled": true, "cursor": null}),
                "GET /v1/links?q=a+b%26c&tag=x&tag=y+z&limit=5&enabled=true",
            ),
            ("resolve_link", json!({"link_id": "a"}), "GET /r/a"),
            ("link_qr", json!({"link_id": "a"}), "GET /v1/links/a/qr.png"),
            (
                "link_qr",
                json!({"link_id": "a", "format": "svg", "fgColor": "#123"}),
                "GET /v1/links/a/qr.svg?fgColor=%23123",
            ),
            (
                "report",
                json!({"link_ids": ["a", "b"], "group_by": "day"}),
                "GET /v1/analytics/stats?link_ids=a%2Cb&group_by=day",
            ),
            ("report", json!({}), "GET /v1/analytics/stats"),
            ("list_tags", json!({}), "GET /v1/tags"),
        ] {
            assert_eq!(called(tool, &arguments).as_deref(), Ok(expected), "{tool} {arguments}");
        }
    }

    #[test]
    fn arguments_that_fit_nowhere_are_named() {
        for (tool, arguments, expected) in [
            ("get_link", json!({}), "link_id: link_id is required"),
            ("get_link", json!({"link_id": 7}), "link_id: link_id must be a non-empty string"),
            ("get_link", json!({"link_id": ""}), "link_id: link_id must be a non-empty string"),
            ("get_link", json!({"link_id": ".."}), "link_id: link_id must be a non-empty string"),
            ("get_link", json!({"link_id": "a", "id": "b"}), "id: unknown argument id; known: link_id"),
            ("list_tags", json!({"q": "a"}), "q: unknown argument q; this tool has no arguments"),
            ("list_links", json!({"q": {"a": 1}}), "q: q must be a string, a number, a boolean, or an array of these"),
        ] {
            assert_eq!(called(tool, &arguments).expect_err("an error"), expected, "{tool} {arguments}");
        }
    }
}
