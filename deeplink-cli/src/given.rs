//! Names and ids from the command line, checked by the service's own rules: a violation is exit 3, and nothing is sent.

use std::fmt::Display;
use std::str::FromStr;

use deeplink_client::receiver::Target;
use deeplink_core::domain::DomainName;
use deeplink_core::error::Invalid;
use deeplink_core::id::{AffiliateId, AppId, DeliveryId, PublishableKeyId, SecretKeyId, SourceId, UserId, WebhookId};
use deeplink_core::link::is_link_id;
use deeplink_core::tag::{MAX_TAGS, Tag};
use deeplink_core::url::{Refused, app_store, play_store, web};
use deeplink_core::user::Email;
use serde::Serialize;
use url::Url;

use crate::base_url::BaseUrl;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;

/// The name of a domain, as the service stores it.
pub(crate) fn domain(text: &str) -> Outcome<DomainName> {
    Ok(text.parse::<DomainName>()?)
}

/// The value of `--host`: a name that could be a custom domain.
pub(crate) fn host(text: &str) -> Outcome<DomainName> {
    text.parse::<DomainName>().map_err(|invalid| {
        let failure = Failure::from(invalid);
        Failure { message: format!("--host: {}", failure.message), ..failure }.field("host").into()
    })
}

/// The failure of a request that breaks a rule. If a URL in it has no scheme, the URL with one is the hint.
pub(crate) fn invalid(invalid: Invalid, request: &impl Serialize) -> Stop {
    let failure = Failure::from(invalid);
    let meant = failure.field.as_deref().and_then(|field| {
        let is_url =
            field.split('.').any(|name| name == "url" || name.ends_with("_url")) || field.ends_with("_deep_link");
        let body = serde_json::to_value(request).ok().filter(|_| is_url)?;
        with_scheme(field, body.pointer(&format!("/{}", field.replace('.', "/")))?.as_str()?)
    });
    match meant {
        Some(url) => failure.hint(format!("did you mean {url}?")).into(),
        None => failure.into(),
    }
}

/// The https URL that was given without its scheme, if the field with this name may hold it.
pub(crate) fn with_scheme(field: &str, text: &str) -> Option<String> {
    let url = format!("https://{}", text.trim());
    let read = Url::parse(&url).ok().filter(|_| !text.contains("://"))?;
    let host = read.host_str()?;
    let rule: fn(&str) -> Result<String, Refused> = match field {
        "ios_store_url" => app_store,
        "android_store_url" => play_store,
        _ => web,
    };
    (host.contains('.') && !host.starts_with('.') && rule(&url).is_ok()).then_some(url)
}

/// The URL of a receiver of events.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    text.parse::<Target>().map_err(|why| {
        // On this machine http is allowed, and usual.
        let local = Some(format!("http://{text}")).filter(|url| !text.contains("://") && url.parse::<Target>().is_ok());
        match local.or_else(|| with_scheme("url", text)) {
            Some(url) => format!("{why}; did you mean {url}?"),
            None => why.to_string(),
        }
    })
}

/// The id of a link that may exist.
pub(crate) fn link_id(text: &str) -> Outcome {
    if is_link_id(text) {
        return Ok(());
    }
    let what = format!("\"{}\" is not a link ID; IDs have 3 to 64 letters, digits or '-'", escape::one_line(text));
    let failure = Failure::invalid(what).code("invalid_id").field("link_id");
    Err(match meant(text) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
    .into())
}

/// A link that was given by its ID or its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkAt {
    pub(crate) id: String,
    /// The host of the URL, unless it is that of the service at the base URL.
    pub(crate) host: Option<String>,
}

/// The ID of a link that may exist, or the URL of one, `https://HOST/ID` or `https://HOST/r/ID`.
pub(crate) fn link(text: &str, base: &BaseUrl) -> Outcome<LinkAt> {
    if !text.contains("://") {
        link_id(text)?;
        return Ok(LinkAt { id: text.to_owned(), host: None });
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| Failure::invalid("the link is not a valid URL").code("invalid_id").field("link_id"))?;
    let path = url.path().trim_end_matches('/');
    let id = path.strip_prefix("/r/").or_else(|| path.strip_prefix('/')).unwrap_or_default();
    link_id(id)?;
    let host = url.host_str().filter(|_| url.origin().ascii_serialization() != base.origin());
    Ok(LinkAt { id: id.to_owned(), host: host.map(str::to_owned) })
}

/// The name of an uploaded logo.
pub(crate) fn logo_name(text: &str) -> Outcome {
    Ok(deeplink_core::qr_logo::check_logo_name(text)?)
}

/// A tag that links may have.
pub(crate) fn tag(text: &str) -> Outcome<Tag> {
    Tag::parse(text).map_err(|message| invalid_tag(format!("tag: {message}")))
}

/// Tags that a link may have.
pub(crate) fn tags(texts: &[String]) -> Outcome<Vec<Tag>> {
    if texts.len() > MAX_TAGS {
        return Err(invalid_tag(format!("tags: must contain at most {MAX_TAGS} tags")));
    }
    texts.iter().map(|text| tag(text)).collect()
}

fn invalid_tag(what: String) -> Stop {
    Failure::invalid(what).code("invalid_tag").field("tag").into()
}

/// A hint for something else given instead of a link's id.
fn meant(text: &str) -> Option<String> {
    if let Some((_, rest)) = text.split_once("://") {
        let (_, path) = rest.split(['?', '#']).next()?.trim_end_matches('/').rsplit_once('/')?;
        return is_link_id(path).then(|| format!("the ID is the last part of a link's URL: use {path}"));
    }
    let is_list = text.contains([',', '\t', ';', '{', '[']) || ["id", "link_id", "custom_id"].contains(&text);
    is_list.then(|| "dl links list --all -o id prints only IDs, one per line".to_owned())
}

/// The id of an app that may exist.
pub(crate) fn app_id(text: &str) -> Outcome {
    id::<AppId>(text, "app_id", "dl apps list shows the IDs of this account's apps")
}

/// The id of a person in the team.
pub(crate) fn user_id(text: &str) -> Outcome {
    id::<UserId>(text, "user_id", "dl team list shows the IDs of the team members")
}

/// The id of a secret key.
pub(crate) fn key_id(text: &str) -> Outcome {
    id::<SecretKeyId>(text, "key_id", "dl keys list shows the key IDs; the key itself is never passed as an argument")
}

/// The id of a publishable key.
pub(crate) fn publishable_key_id(text: &str) -> Outcome {
    id::<PublishableKeyId>(text, "key_id", "dl pk list shows the key IDs")
}

/// The id of an affiliate.
pub(crate) fn affiliate_id(text: &str) -> Outcome {
    id::<AffiliateId>(text, "affiliate_id", "dl affiliates list shows the IDs of the affiliates")
}

/// The id of an affiliate's credential.
pub(crate) fn credential_id(text: &str) -> Outcome {
    id::<SecretKeyId>(text, "key_id", "dl affiliates creds list shows the IDs of the credentials")
}

/// The id of a source.
pub(crate) fn source_id(text: &str) -> Outcome {
    id::<SourceId>(
        text,
        "id",
        "dl sources list shows the IDs; URLs cannot be passed as arguments: use dl sources send - to read one from \
         stdin",
    )
}

/// The id of a webhook.
pub(crate) fn webhook_id(text: &str) -> Outcome {
    id::<WebhookId>(text, "webhook_id", "dl webhooks list shows the IDs of the webhooks")
}

/// The id of a delivery.
pub(crate) fn delivery_id(text: &str) -> Outcome {
    id::<DeliveryId>(text, "delivery_id", "dl webhooks deliveries shows the IDs of the deliveries")
}

/// An address of a person.
pub(crate) fn email(text: &str) -> Outcome<Email> {
    Ok(text.parse::<Email>()?)
}

fn id<T: FromStr<Err: Display>>(text: &str, field: &'static str, hint: &'static str) -> Outcome {
    let Err(why) = text.parse::<T>() else { return Ok(()) };
    let what = format!("\"{}\" is {why}", escape::one_line(text));
    Err(Failure::invalid(what).code("invalid_id").field(field).hint(hint).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_given_by_its_id_or_its_url() {
        let base: BaseUrl = "https://dl.example.com".parse().expect("a URL");
        for (text, id, host) in [
            ("spring-42", "spring-42", None),
            ("https://dl.example.com/r/spring-42", "spring-42", None),
            ("https://go.example.com/spring-42/?utm_source=a#b", "spring-42", Some("go.example.com")),
            ("http://dl.example.com/r/spring-42", "spring-42", Some("dl.example.com")),
        ] {
            let found = link(text, &base).unwrap_or_else(|stop| panic!("{text}: {stop:?}"));
            assert_eq!((&*found.id, found.host.as_deref()), (id, host), "{text}");
        }
        for text in ["https://go.example.com/l/2024/spring", "https://go.example.com/", "ftp://a.example/spring", "a b"]
        {
            assert!(link(text, &base).is_err(), "{text}");
        }
    }
}
