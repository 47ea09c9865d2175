//! What a 404 says: the kind of thing that was not found, and its ID as asked for. It depends on the path alone, so that
//! another account's thing and a missing one are answered alike.

use axum::response::Response;
use deeplink_core::error::ErrorCode;
use deeplink_core::link::is_link_id;
use deeplink_core::tag::Tag;
use percent_encoding::percent_decode_str;

use crate::error::{NOT_FOUND, Record};

/// Maximum length in bytes of an ID that is repeated. Ours are shorter, and our keys are longer.
const MAX_ID: usize = 40;
/// Maximum length of a host name in DNS.
const MAX_HOST: usize = 253;

/// The kinds of things: how the path of one begins, what it is called, and what it belongs to. Of two that fit, the first
/// applies.
const KINDS: [(&str, &str, &str); 13] = [
    ("/v1/affiliates/{affiliate_id}/credentials/{key_id}", "credential", " for this affiliate"),
    ("/v1/affiliates/{affiliate_id}", "affiliate", ""),
    ("/v1/apps/{app_id}", "app", ""),
    ("/v1/auth/publishable-keys/{key_id}", "publishable key", ""),
    ("/v1/auth/secret-keys/{key_id}", "secret key", ""),
    ("/v1/auth/users/{user_id}", "team member", ""),
    ("/v1/domains/{domain}", "domain", ""),
    ("/v1/links/{link_id}", "link", ""),
    ("/v1/qr-logos/{name}", "logo", ""),
    ("/v1/sources/{id}", "source", ""),
    ("/v1/tags/{tag}", "tag", ""),
    ("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}", "delivery", " for this webhook"),
    ("/v1/webhooks/{webhook_id}", "webhook", ""),
];

/// Names the thing at a path of this route in a 404 that does not say what is missing.
pub(crate) fn name(response: &mut Response, template: &str, path: &str) {
    let record = response.extensions_mut().get_mut::<Record>().map(Record::body_mut);
    if let Some(body) = record.filter(|body| body.code == ErrorCode::NotFound && body.error == NOT_FOUND)
        && let Some(message) = message_of(template, path)
    {
        body.error = message;
    }
}

/// `None` if the route names nothing.
fn message_of(template: &str, path: &str) -> Option<String> {
    let (start, kind, of) = KINDS.into_iter().find(|(start, ..)| template.starts_with(start))?;
    // The ID is the last segment of the start.
    let id = path.split('/').nth(start.split('/').count() - 1).and_then(|id| percent_decode_str(id).decode_utf8().ok());
    Some(match id.and_then(|id| shown(kind, &id)) {
        // A domain is called by its name, and a tag by its text, which is quoted.
        Some(id) if matches!(kind, "domain" | "tag") => format!("no {kind} {id}"),
        Some(name) if kind == "logo" => format!("no logo named {name}"),
        Some(id) => format!("no {kind} with ID {id}{of}"),
        None => format!("no such {kind}{of}"),
    })
}

/// An ID as a message repeats it; `None` if it cannot be one of this kind: a 404 repeats no other text, nor a key that was
/// sent for its ID.
fn shown(kind: &str, id: &str) -> Option<String> {
    let is_of = |others: &[u8]| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte));
    let is_one = match kind {
        "tag" => return Tag::parse(id).ok().map(|tag| format!("\"{}\"", tag.as_str())),
        "link" => id.len() <= MAX_ID && is_link_id(id),
        "domain" => id.len() <= MAX_HOST && is_of(b"-."),
        _ => id.len() <= MAX_ID && is_of(b"-_"),
    };
    (is_one && !id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_what_could_be_an_id() {
        let (key, long) = (format!("dl_live_{}", "0".repeat(48)), "a".repeat(300));
        let message = |kind: &str, id: &str| {
            let (start, ..) = KINDS.into_iter().find(|(_, known, _)| *known == kind).expect("a kind");
            let (before, _) = start.rsplit_once('{').expect("an ID");
            message_of(start, &format!("{before}{id}"))
        };
        for (kind, id, expected) in [
            ("link", "nope", "no link with ID nope"),
            ("link", "", "no such link"),
            ("affiliate", "", "no such affiliate"),
            ("link", "a%2Fb", "no such link"),
            ("link", "%ff", "no such link"),
            ("link", &*"a".repeat(41), "no such link"),
            ("app", "app_0123456789abcdef01234567", "no app with ID app_0123456789abcdef01234567"),
            ("secret key", "x", "no secret key with ID x"),
            ("secret key", &*key, "no such secret key"),
            ("webhook", "<b>", "no such webhook"),
            ("team member", "a@example.com", "no such team member"),
            ("source", "é", "no such source"),
            ("domain", "nope.localhost", "no domain nope.localhost"),
            ("domain", "a b", "no such domain"),
            ("domain", &*long, "no such domain"),
            ("tag", "Sommer%2026", "no tag \"Sommer 26\""),
            ("tag", "%20caf%C3%A9", "no tag \"café\""),
            ("tag", "a\u{7}", "no such tag"),
            ("tag", &*long, "no such tag"),
            ("logo", "acme", "no logo named acme"),
            ("delivery", "dlv_1", "no delivery with ID dlv_1 for this webhook"),
            ("credential", "a b", "no such credential for this affiliate"),
        ] {
            assert_eq!(message(kind, id).as_deref(), Some(expected), "{kind} {id}");
        }
        let delivery = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver";
        let found = message_of(delivery, "/v1/webhooks/wh_1/deliveries/dlv_1/redeliver");
        assert_eq!(found.as_deref(), Some("no delivery with ID dlv_1 for this webhook"));
        assert_eq!(message_of("/v1/me", "/v1/me"), None);
    }

    /// A path below another begins like it, so the longer one comes first.
    #[test]
    fn every_path_with_an_id_has_a_kind() {
        for route in deeplink_core::routes::ALL.iter().filter(|route| route.path.starts_with("/v1/")) {
            let is_named = KINDS.iter().any(|(start, ..)| route.path.starts_with(start));
            let is_provider = route.path.contains("{provider}");
            assert_eq!(is_named || is_provider, route.path.contains('{'), "{}", route.path);
        }
        for (nth, (start, ..)) in KINDS.iter().enumerate() {
            assert!(KINDS[..nth].iter().all(|(before, ..)| !start.starts_with(before)), "{start} is never found");
        }
    }
}
