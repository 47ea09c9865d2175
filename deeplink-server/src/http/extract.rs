//! Bodies and parameters whose refusals are our error object.

use axum::extract::path::ErrorKind;
use axum::extract::{FromRequestParts, Request};
use bytes::{Bytes, BytesMut};
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::metadata::{MAX_DEPTH, depth};
use deeplink_core::time::Timestamp;
use http::request::Parts;
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use super::anonymous::BodyShare;
use crate::error::ApiError;

/// Maximum bytes of a request's body.
pub(crate) const BODY_LIMIT: usize = 64 << 10;
/// Maximum bytes of a bulk request's body.
pub(crate) const BULK_BODY_LIMIT: usize = 1 << 20;

/// Maximum bytes of a parser error, which may repeat a value of the body.
const MAX_TOLD: usize = 500;

/// Maximum bytes of a form that signs in or accepts an invitation: it holds a token and a path.
pub(crate) const SIGN_IN_BODY_LIMIT: usize = 4 << 10;

/// Maximum bytes of an event of the payment processor.
pub(crate) const EVENT_BODY_LIMIT: usize = 256 << 10;

/// Reads a JSON body: 415 before 413 before 400.
pub(crate) async fn json_body(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    if !is_json(request.headers()) {
        return Err(ApiError::Plain(ErrorCode::UnsupportedMediaType, "send Content-Type: application/json"));
    }
    body_within(request, limit).await
}

/// Reads the fields of a form (`application/x-www-form-urlencoded`, as the URL standard reads it): 415 before 413 before
/// 400.
pub(crate) async fn form_body(request: Request, limit: usize) -> Result<Query, ApiError> {
    if media_type(request.headers()).is_none_or(|kind| kind != "application/x-www-form-urlencoded") {
        let message = "send Content-Type: application/x-www-form-urlencoded";
        return Err(ApiError::Plain(ErrorCode::UnsupportedMediaType, message));
    }
    let body = body_within(request, limit).await?;
    Ok(Query(url::form_urlencoded::parse(&body).into_owned().collect()))
}

/// Reads a body of any media type, unchanged. It counts against its caller's budget, if there is one, as it arrives.
pub(crate) async fn body_within(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let (parts, body) = request.into_parts();
    refuse_coded(&parts.headers)?;
    let mut share = BodyShare::of(&parts.extensions);
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes");
        ApiError::Invalid(Invalid::whole(ErrorCode::PayloadTooLarge, message))
    };
    let declared = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > limit) {
        return Err(too_large());
    }
    let mut body = std::pin::pin!(body);
    // A declared length alone must not take memory.
    let room = if share.is_limited() { 0 } else { declared.unwrap_or(0) };
    let mut read = BytesMut::with_capacity(room);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body was truncated"))?;
        if let Ok(data) = frame.into_data() {
            if read.len() + data.len() > limit {
                return Err(too_large());
            }
            share.take(data.len())?;
            read.extend_from_slice(&data);
        }
    }
    Ok(share.hold(read))
}

/// Refuses a body with a content coding such as compression (RFC 9110, section 8.4), and names the coding.
fn refuse_coded(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(coding) = codings.find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) else {
        return Ok(());
    };
    let coding: String = coding.to_str().unwrap_or("unknown").chars().take(64).collect();
    let message = format!("the body has Content-Encoding: {coding}; send it without a content encoding");
    Err(ApiError::Invalid(Invalid::whole(ErrorCode::UnsupportedMediaType, message)))
}

/// The declared media type, in lower case and without parameters; `None` unless it is declared exactly once.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let value = values.next()?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    values.next().is_none().then_some(essence)
}

fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers)
        .is_some_and(|kind| kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")))
}

/// Parses a JSON body into a request type. The error names the field at fault.
pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    if depth(body) > MAX_DEPTH {
        return Err(ApiError::bad_request(format!("the JSON is nested deeper than {MAX_DEPTH} levels")));
    }
    let text = std::str::from_utf8(body).map_err(|_| ApiError::bad_request("the body is not UTF-8"))?;
    // A byte order mark is no part of JSON, and may be passed over (RFC 8259, section 8.1).
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.trim_start().starts_with('{') {
        return Err(ApiError::bad_request("the body must be a JSON object"));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if !inner.is_data() {
            return ApiError::bad_request(format!("malformed JSON: {inner}"));
        }
        let text = inner.to_string();
        // The position in the text is for malformed JSON; here the field's name suffices.
        let text = text.split(" at line ").next().unwrap_or_default();
        // It may contain a value of the body.
        let text = &text[..text.floor_char_boundary(MAX_TOLD)];
        // The name of a missing or repeated field is only in the message.
        let named = text.split_once("field `").and_then(|(_, rest)| rest.split_once('`')).map(|(name, _)| name);
        match named {
            Some(name) => ApiError::bad_field(name, text),
            None if path == "." || path == "?" => ApiError::bad_request(text),
            None => ApiError::bad_field(path.clone(), format!("{path}: {text}")),
        }
    })?;
    json.end().map_err(|error| ApiError::bad_request(format!("malformed JSON: {error}")))?;
    Ok(value)
}

/// Path parameters; an invalid one is answered with 404.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        use axum::extract::rejection::PathRejection;
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(error))
                if matches!(
                    error.kind(),
                    ErrorKind::WrongNumberOfParameters { .. } | ErrorKind::UnsupportedType { .. }
                ) =>
            {
                Err(ApiError::Internal(error.to_string()))
            }
            Err(_) => Err(ApiError::not_found()),
        }
    }
}

/// Query parameters, or a form's fields, as pairs in the order they came. Readers ignore unknown names.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// The query of a request.
    pub(crate) fn of(parts: &Parts) -> Self {
        Self::parse(parts.uri.query().unwrap_or_default())
    }

    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn parse(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Every pair.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The value of a parameter. A repeated one has no single meaning and is refused.
    pub(crate) fn one(&self, name: &'static str) -> Result<Option<&str>, ApiError> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        if values.next().is_some() {
            return Err(ApiError::bad_field(name, format!("{name} is given more than once")));
        }
        if first.is_some_and(|value| deeplink_core::text::find_control(value, false).is_some()) {
            return Err(ApiError::bad_field(name, format!("{name} contains a control character")));
        }
        Ok(first)
    }

    /// Every value of a parameter that may be repeated.
    pub(crate) fn every(&self, name: &'static str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A parameter read by its own parser; the refusal names it and says what would be right.
    pub(crate) fn parsed<T>(
        &self,
        name: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        self.one(name)?
            .map(|text| parse(text).ok_or_else(|| ApiError::bad_field(name, format!("{name} must be {expected}"))))
            .transpose()
    }

    /// A parameter that is a date and time.
    pub(crate) fn moment(&self, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
        self.parsed(name, "an RFC 3339 date and time", |text| text.parse().ok())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self::of(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deeplink_core::link::CreateLink;

    fn refusal(body: &[u8]) -> Option<String> {
        match parse::<CreateLink>(body) {
            Ok(_) => None,
            Err(ApiError::Invalid(invalid)) => Some(invalid.field.map_or("-".into(), std::borrow::Cow::into_owned)),
            Err(other) => Some(other.to_string()),
        }
    }

    #[test]
    fn malformed_bodies_are_refused_and_name_their_field() {
        for (body, field) in [
            (&b""[..], "-"),
            (b"{", "-"),
            (b"[]", "-"),
            (b"null", "-"),
            (b"\"x\"", "-"),
            (b"{} {}", "-"),
            (b"{\"web_url\":\"\xff\"}", "-"),
            (b"{\"web_url\":1}", "web_url"),
            (b"{\"agent_context\":{\"cta\":1}}", "agent_context.cta"),
            (b"{\"web_url\":\"a\",\"web_url\":\"b\"}", "web_url"),
            (b"{\"agent_context\":\"x\"}", "agent_context"),
        ] {
            let refused = refusal(body).expect("a refusal");
            assert!(refused == field || (field == "-" && refused == "web_url"), "{body:?}: {refused}");
        }
        assert!(refusal(format!("{{\"x\":{}1{}}}", "[".repeat(40), "]".repeat(40)).as_bytes()).is_some());
        assert_eq!(refusal(b" {\"unknown\":[1,{}]} "), None);
        assert_eq!(refusal(b"\xef\xbb\xbf{}"), None, "a byte order mark");
    }

    #[test]
    fn json_media_types() {
        for (value, expected) in [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=utf-8"), true),
            (Some("application/merge-patch+json"), true),
            (Some("text/plain"), false),
            (Some("text/json"), false),
            (Some("application/x-www-form-urlencoded"), false),
            (None, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::CONTENT_TYPE, value.parse().expect("a header value"));
            }
            assert_eq!(is_json(&headers), expected, "{value:?}");
        }
    }
}
