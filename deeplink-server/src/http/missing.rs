//! What a 404 says: the kind of thing that was not found, and its ID as asked for. It depends on the path alone, so that
//! another account's thing and a missing one are answered alike.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::response::Response;
use deeplink_core::error::ErrorCode;
use deeplink_core::link::is_link_id;
use deeplink_core::tag::Tag;
use http::request::Parts;

use crate::error::{NOT_FOUND, Record};

/// Maximum length in bytes of an ID that is repeated. Ours are shorter, and our keys are longer.
const MAX_ID: usize = 40;
/// Maximum length of a host name in DNS.
const MAX_HOST: usize = 253;

/// The kinds of things: how the path of one begins, what it is called, and what it belongs to. Of two that fit, the first
/// applies.
const KINDS: [(&str, &str, &str); 12] = [
    ("/v1/affiliates/{affiliate_id}/credentials/{key_id}", "credential", " for this affiliate"),
    ("/v1/affiliates/{affiliate_id}", "affiliate", ""),
    ("/v1/apps/{app_id}", "app", ""),
    ("/v1/auth/publishable-keys/{key_id}", "publishable key", ""),
    ("/v1/auth/secret-keys/{key_id}", "secret key", ""),
    ("/v1/auth/users/{user_id}", "user", ""),
    ("/v1/domains/{domain}", "domain", ""),
    ("/v1/links/{link_id}", "link", ""),
    ("/v1/sources/{id}", "source", ""),
    ("/v1/tags/{tag}", "tag", ""),
    ("/v1/webhooks/{webhook_id}/deliveries/{delivery_id}", "delivery", " for this webhook"),
    ("/v1/webhooks/{webhook_id}", "webhook", ""),
];

/// The thing that a request is about.
pub(crate) struct Asked {
    kind: &'static str,
    of: &'static str,
    /// `None` if it is no text.
    id: Option<String>,
}

impl Asked {
    /// What the path of this route names; `None` if it names nothing.
    pub(crate) async fn of(template: &str, parts: &mut Parts) -> Option<Self> {
        let (start, kind, of) = KINDS.into_iter().find(|(start, ..)| template.starts_with(start))?;
        let (_, name) = start.rsplit_once('{')?;
        let given = RawPathParams::from_request_parts(parts, &()).await.ok();
        let id = given.and_then(|given| {
            let found = given.iter().find(|(key, _)| *key == name.trim_end_matches('}'));
            found.map(|(_, id)| id.to_owned())
        });
        Some(Self { kind, of, id })
    }

    /// Puts it into a 404 that does not say what is missing.
    pub(crate) fn name_in(&self, response: &mut Response) {
        let record = response.extensions_mut().get_mut::<Record>().map(Record::body_mut);
        if let Some(body) = record.filter(|body| body.code == ErrorCode::NotFound && body.error == NOT_FOUND) {
            body.error = self.message();
        }
    }

    fn message(&self) -> String {
        let Self { kind, of, id } = self;
        match id.as_deref().filter(|id| is_repeated(kind, id)) {
            Some(id) if *kind == "tag" => format!("no tag \"{}\"", id.trim()),
            Some(id) => format!("no {kind} {id}{of}"),
            None => format!("no such {kind}{of}"),
        }
    }
}

/// Whether an ID could be one of this kind, so that a message may repeat it: a 404 repeats no other text, nor a key that was
/// sent for its ID.
fn is_repeated(kind: &str, id: &str) -> bool {
    let is_of = |others: &[u8]| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte));
    match kind {
        "link" => id.len() <= MAX_ID && is_link_id(id),
        "tag" => Tag::parse(id).is_ok(),
        "domain" => id.len() <= MAX_HOST && is_of(b"-."),
        _ => id.len() <= MAX_ID && is_of(b"-_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, id: Option<&str>) -> String {
        let known = KINDS.into_iter().find(|(_, known, _)| *known == kind).expect("a kind");
        Asked { kind: known.1, of: known.2, id: id.map(str::to_owned) }.message()
    }

    #[test]
    fn a_message_names_what_could_be_an_id() {
        let (key, long) = (format!("dl_live_{}", "0".repeat(48)), "a".repeat(300));
        for (kind, id, expected) in [
            ("link", "nope", "no link nope"),
            ("link", "a/b", "no such link"),
            ("link", &*"a".repeat(41), "no such link"),
            ("app", "app_0123456789abcdef01234567", "no app app_0123456789abcdef01234567"),
            ("secret key", "x", "no secret key x"),
            ("secret key", &*key, "no such secret key"),
            ("webhook", "<b>", "no such webhook"),
            ("user", "a@example.com", "no such user"),
            ("source", "é", "no such source"),
            ("domain", "nope.localhost", "no domain nope.localhost"),
            ("domain", "a b", "no such domain"),
            ("domain", &*long, "no such domain"),
            ("tag", "Sommer 26", "no tag \"Sommer 26\""),
            ("tag", "a\u{7}", "no such tag"),
            ("tag", &*long, "no such tag"),
            ("delivery", "dlv_1", "no delivery dlv_1 for this webhook"),
            ("credential", "a b", "no such credential for this affiliate"),
        ] {
            assert_eq!(message(kind, Some(id)), expected);
        }
        assert_eq!(message("affiliate", None), "no such affiliate");
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
