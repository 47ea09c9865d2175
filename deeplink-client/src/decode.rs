//! Replies into values: only what is certainly the service's own reply is decoded.

use bytes::Bytes;
use http::{StatusCode, header};
use serde::de::DeserializeOwned;

use crate::error::{Error, Kind, Result};
use crate::send::Reply;

/// A success with a JSON body.
pub(crate) fn json<T: DeserializeOwned>(reply: &Reply) -> Result<T> {
    success(reply)?;
    parse(reply)
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

/// A success with a picture as its body.
pub(crate) fn image(reply: &Reply) -> Result<Bytes> {
    success(reply)?;
    let kind = reply.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.get(..6) {
        Some(kind) if kind.eq_ignore_ascii_case("image/") && !reply.body.is_empty() => Ok(reply.body.clone()),
        _ => Err(foreign(reply, "an image")),
    }
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

/// The JSON body of a reply.
pub(crate) fn parse<T: DeserializeOwned>(reply: &Reply) -> Result<T> {
    // The fast way first; the path of a fault is looked for only when there is one.
    serde_json::from_slice(&reply.body).map_err(|_| {
        if !is_json(reply) {
            return foreign(reply, "JSON");
        }
        let mut json = serde_json::Deserializer::from_slice(&reply.body);
        let (message, why) = match serde_path_to_error::deserialize::<_, T>(&mut json) {
            Err(why) => {
                let path = why.path().to_string();
                // Text that ends too early has no path.
                let at = if matches!(path.as_str(), "?" | ".") { String::new() } else { format!(" at `{path}`") };
                (format!("the reply cannot be read{at}"), why.into_inner().to_string())
            }
            Ok(_) => ("the reply cannot be read".to_owned(), "text follows the JSON value".to_owned()),
        };
        // The request itself was a success: a write has taken effect although its reply is lost.
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
        error = error.say(format!("the reply does not come from the service: it is not {wanted}"));
    }
    error.after(reply.attempts, false, reply.is_write)
}
