//! Why a signature does not match: tries the common mistakes of receivers in turn. The finding is only reported; it
//! never makes a request valid.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::signature::{SERVICE_SIGNATURE, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, is_mac};
use http::HeaderMap;

use super::request::Request;
use super::secrets::Given;

/// Bytes to try, and what is wrong if they match.
type Tries<'a> = Vec<(Cow<'a, [u8]>, Option<&'static str>)>;

/// What went wrong, if it can be determined.
pub(super) fn diagnose(given: &Given, request: &Request) -> Option<String> {
    let signature = header(&request.headers, SERVICE_SIGNATURE);
    if signature.is_some_and(|signature| signature.starts_with("v1,")) {
        let what = "this is the value of webhook-signature: use --headers or --raw, which include webhook-id and \
             webhook-timestamp";
        return Some(what.to_owned());
    }
    let service = signature.and_then(|signature| of_body(given, request, signature));
    service.or_else(|| of_standard(given, request))
}

/// `X-Service-Signature`.
fn of_body(given: &Given, request: &Request, signature: &str) -> Option<String> {
    let (mac, form) = decoded(signature)?;
    for secret in given.lines() {
        for (key, with_key) in keys(secret) {
            for (body, with_body) in bodies(&request.body) {
                if is_mac(&key, &[&body], &mac) {
                    return said([form.as_slice(), &[with_key, with_body]].concat());
                }
            }
        }
    }
    None
}

/// `webhook-signature`.
fn of_standard(given: &Given, request: &Request) -> Option<String> {
    let part = |name| header(&request.headers, name);
    let (id, timestamp) = (part(WEBHOOK_ID)?, part(WEBHOOK_TIMESTAMP)?);
    for one in part(WEBHOOK_SIGNATURE)?.split(' ') {
        let bare = one.strip_prefix("v1,").unwrap_or(one);
        let no_version = (bare == one).then_some("webhook-signature is missing its version prefix \"v1,\"");
        let Some(mac) = STANDARD.decode(bare).ok().filter(|mac| mac.len() == 32) else { continue };
        for secret in given.lines() {
            let space = (secret.trim() != secret).then_some(SPACE);
            let key = STANDARD.decode(secret.trim().trim_start_matches("whsec_")).unwrap_or_default();
            let whole = Some(
                "webhook-signature was computed with the text of the secret; base64-decode the part \
                after \"whsec_\" and use that",
            );
            for (key, with_key) in [(key.as_slice(), None), (secret.trim().as_bytes(), whole)] {
                for (body, with_body) in bodies(&request.body) {
                    if is_mac(key, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", &body], &mac) {
                        return said(vec![no_version, space, with_key, with_body]);
                    }
                }
            }
        }
    }
    None
}

const SPACE: &str = "there is whitespace around the secret";

/// The 32 bytes of a hex signature in any notation, and what is wrong with the notation.
fn decoded(signature: &str) -> Option<(Vec<u8>, Vec<Option<&'static str>>)> {
    let mut wrong = Vec::new();
    let bare = signature.strip_prefix("sha256=").unwrap_or(signature);
    wrong.push((bare != signature).then_some("the signature has an extra \"sha256=\" prefix"));
    let mac = match hex(bare) {
        Some(mac) => {
            let is_upper = bare.bytes().any(|b| b.is_ascii_uppercase());
            wrong.push(is_upper.then_some("the signature is in uppercase hex, not lowercase"));
            mac
        }
        None => {
            wrong.push(Some("the signature is in base64, not in lowercase hex"));
            STANDARD.decode(bare).ok()?
        }
    };
    (mac.len() == 32).then_some((mac, wrong))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Keys that the hex signature may have been made with by mistake.
fn keys(secret: &str) -> Tries<'_> {
    let bare = secret.trim();
    let was_given = (bare != secret).then_some(SPACE);
    let encoded = bare.strip_prefix("whsec_").unwrap_or(bare);
    let with = |before: &str, after: &str| Cow::Owned(format!("{before}{bare}{after}").into_bytes());
    let mut tries: Tries<'_> = vec![
        (Cow::Borrowed(bare.as_bytes()), was_given),
        (with("", "\n"), Some(SPACE)),
        (with("", "\r\n"), Some(SPACE)),
        (with("", " "), Some(SPACE)),
        (with(" ", ""), Some(SPACE)),
        (
            Cow::Borrowed(encoded.as_bytes()),
            Some("X-Service-Signature was computed without the \"whsec_\" prefix of the secret"),
        ),
    ];
    if let Ok(key) = STANDARD.decode(encoded) {
        let what = "X-Service-Signature was computed with the decoded secret; use the secret's text";
        tries.push((Cow::Owned(key), Some(what)));
    }
    tries
}

/// How the body may have been changed.
fn bodies(body: &[u8]) -> Tries<'_> {
    let mut tries: Tries<'_> = vec![(Cow::Borrowed(body), None)];
    let shorter = body.strip_suffix(b"\n").map(|body| body.strip_suffix(b"\r").unwrap_or(body));
    if let Some(shorter) = shorter {
        tries.push((Cow::Borrowed(shorter), Some("the body has an extra newline at the end")));
    }
    let lost = "the body is missing the newline at the end";
    tries.push((Cow::Owned([body, b"\n"].concat()), Some(lost)));
    if let Ok(json) = serde_json::from_slice::<serde_json::Value>(body) {
        let written = "the body was parsed and serialized again, so its bytes differ";
        tries.push((Cow::Owned(json.to_string().into_bytes()), Some(written)));
    }
    tries
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// If nothing is wrong, there is no finding.
fn said(wrong: Vec<Option<&'static str>>) -> Option<String> {
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}
