//! Decodes responses into values: only what is certainly the service's own response.

use bytes::Bytes;
use http::{StatusCode, header};
use serde::de::DeserializeOwned;

use crate::error::{Error, Kind, Result};
use crate::page::ArrayPage;
use crate::send::Reply;

/// A success with a JSON body.
pub(crate) fn json<T: DeserializeOwned>(reply: &Reply) -> Result<T> {
    success(reply)?;
    parse(reply)
}

/// A success with a JSON array that is one page of a list; the `Link` header says where the next one begins.
pub(crate) fn array_page<T: DeserializeOwned>(reply: &Reply) -> Result<ArrayPage<T>> {
    let links = reply.headers.get_all(header::LINK).iter().filter_map(|value| value.to_str().ok());
    Ok(ArrayPage { items: json(reply)?, next_cursor: links.flat_map(references).find_map(cursor_of_next) })
}

/// The references of a `Link` header with their parameters (RFC 8288).
fn references(header: &str) -> impl Iterator<Item = (&str, &str)> {
    header.split('<').skip(1).filter_map(|reference| reference.split_once('>'))
}

/// The cursor of the next page. Only the cursor is used: a request goes to the client's own base URL, with its credential.
fn cursor_of_next((url, parameters): (&str, &str)) -> Option<String> {
    let is_next =
        parameters.split([';', ',']).filter_map(|parameter| parameter.trim().split_once('=')).any(|(name, value)| {
            let mut relations = value.trim_matches('"').split_ascii_whitespace();
            name.eq_ignore_ascii_case("rel") && relations.any(|relation| relation.eq_ignore_ascii_case("next"))
        });
    let (_, query) = url.split_once('?').filter(|_| is_next)?;
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find(|(name, _)| name == "cursor").map(|(_, cursor)| cursor.into_owned())
}

/// A success without a body.
pub(crate) fn nothing(reply: &Reply) -> Result<()> {
    success(reply)
}

/// A success with a text body.
pub(crate) fn text(reply: &Reply) -> Result<String> {
    success(reply)?;
    Ok(String::from_utf8_lossy(&reply.body).into_owned())
}

/// A success with a CSV file as its body.
pub(crate) fn csv(reply: &Reply) -> Result<String> {
    success(reply)?;
    let kind = reply.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.get(..8) {
        Some(kind) if kind.eq_ignore_ascii_case("text/csv") => text(reply),
        _ => Err(foreign(reply, "CSV")),
    }
}

/// A success with an image as its body, or with a page that is one.
pub(crate) fn image(reply: &Reply) -> Result<Bytes> {
    success(reply)?;
    let kind = reply.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.to_ascii_lowercase();
    let is_image = ["image/", "application/pdf", "application/postscript"].iter().any(|start| kind.starts_with(start));
    if is_image && !reply.body.is_empty() { Ok(reply.body.clone()) } else { Err(foreign(reply, "an image")) }
}

/// Where a form leads: the `Location` of a 303.
pub(crate) fn see_other(reply: &Reply) -> Result<String> {
    let location = reply.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    match location {
        Some(location) if reply.status == StatusCode::SEE_OTHER => Ok(location.to_owned()),
        _ if reply.status.is_success() => Err(foreign(reply, "a redirect")),
        _ => Err(reply.refusal()),
    }
}

pub(crate) fn success(reply: &Reply) -> Result<()> {
    if reply.status.is_success() { Ok(()) } else { Err(reply.refusal()) }
}

/// The JSON body of a response.
pub(crate) fn parse<T: DeserializeOwned>(reply: &Reply) -> Result<T> {
    // The fast way first; the path of an error is searched for only if there is one.
    serde_json::from_slice(&reply.body).map_err(|_| {
        if !is_json(reply) {
            return foreign(reply, "JSON");
        }
        let mut json = serde_json::Deserializer::from_slice(&reply.body);
        let (message, why) = match serde_path_to_error::deserialize::<_, T>(&mut json) {
            Err(why) => {
                let path = why.path().to_string();
                // Truncated text has no path.
                let at = if matches!(path.as_str(), "?" | ".") { String::new() } else { format!(" at `{path}`") };
                (format!("the response cannot be read{at}"), why.into_inner().to_string())
            }
            Ok(_) => ("the response cannot be read".to_owned(), "there is text after the JSON value".to_owned()),
        };
        // The request itself succeeded: a write has taken effect although its response is lost.
        Error::from_source(Kind::Decode, message, why)
            .with_status(reply.status, reply.request_id.clone())
            .with_body(&reply.body)
            .after(reply.attempts, false, reply.is_write)
    })
}

fn is_json(reply: &Reply) -> bool {
    let Some(kind) = reply.headers.get(header::CONTENT_TYPE) else {
        return matches!(reply.body.trim_ascii_start().first(), Some(b'{' | b'['));
    };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// A success that is a foreign page, such as a captive portal's, and not what was `wanted`.
fn foreign(reply: &Reply, wanted: &str) -> Error {
    let mut error = Error::reply(reply.status, &reply.headers, reply.body.clone(), None);
    if reply.status == StatusCode::OK {
        error = error.say(format!("the response is not from the service: it is not {wanted}"));
    }
    error.after(reply.attempts, false, reply.is_write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_told_by_a_link_header() {
        let next = |header| references(header).find_map(cursor_of_next);
        for (header, cursor) in [
            ("<https://go.example.com/v1/domains?limit=2&cursor=abc-_>; rel=\"next\"", Some("abc-_")),
            ("</v1/domains?cursor=abc>; rel=next", Some("abc")),
            ("<?a=b,c>; rel=prev, <?cursor=a%20b>; title=x; REL=\"last Next\"", Some("a b")),
            ("<https://go.example.com/v1/domains?cursor=abc>; rel=\"prev\"", None),
            ("<https://go.example.com/v1/domains?limit=2>; rel=\"next\"", None),
            ("<https://go.example.com/v1/domains>; rel=\"next\"", None),
            ("?cursor=abc; rel=next", None),
            ("<?cursor=abc", None),
            ("", None),
        ] {
            assert_eq!(next(header).as_deref(), cursor, "{header}");
        }
    }
}
