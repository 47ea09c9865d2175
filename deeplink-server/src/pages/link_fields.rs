//! The fields of a link in its form: from a link to the form, and back.

use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{Action, AgentContext, CreateLink, LinkDetail, SocialPreview, UpdateLink};
use deeplink_core::patch::Patch;
use deeplink_core::qr::QrOptions;
use deeplink_core::text::find_control;
use deeplink_core::time::Timestamp;
use deeplink_core::url::MAX_LEN;
use deeplink_core::utm::{UTM_NAMES, utm_value, with_utm, without_utm};
use deeplink_core::zone::Zone;

use super::form::Form;
use super::{qr_look, tags};

/// The link that a form describes.
pub(super) fn link_in(form: &Form, zone: &Zone) -> Result<CreateLink, Invalid> {
    let mut link = CreateLink::new();
    link.custom_id = form.filled("custom_id");
    for (name, url) in link.destinations_mut().each() {
        *url = form.filled(name);
    }
    link.web_url = destination_in(form, None)?;
    link.social_preview = preview_in(form, SocialPreview::default());
    link.agent_context = context_in(form, AgentContext::default());
    link.name = form.filled("name");
    link.enabled = form.filled("enabled").map(|word| word == "true");
    link.expires_at = form.filled("expires_at").map(|text| moment_in(text, zone));
    link.expired_url = form.filled("expired_url");
    link.tags = tags::in_form(form, "tags");
    link.aliases = tags::in_form(form, "aliases");
    link.imported_clicks = form.filled("imported_clicks").map(|text| count_in(&text));
    link.qr = Some(qr_look::look_in(form)).filter(|look| *look != QrOptions::new());
    Ok(link)
}

/// A count as a form sends it, such as `1,204`. Anything else becomes one that is refused.
fn count_in(text: &str) -> i64 {
    text.replace([',', ' '], "").parse().unwrap_or(-1)
}

/// The destination with its UTM parameters, which are fields of their own. Of a stored one, what the form lacks stays as it
/// is.
fn destination_in(form: &Form, stored: Option<&str>) -> Result<Option<String>, Invalid> {
    let sent = form.has("web_url");
    let url = if sent { form.filled("web_url") } else { stored.map(str::to_owned) };
    let mut changes = Vec::new();
    for name in UTM_NAMES.into_iter().filter(|name| form.has(name)) {
        let value = form.value(name);
        if find_control(value, false).is_some() {
            let message = format!("{name}: must not contain control characters");
            return Err(Invalid::field(ErrorCode::InvalidUrl, name, message));
        }
        // The form shows the destination without them: one in it was written there by hand.
        if !sent || !value.is_empty() {
            changes.push((name, Some(value).filter(|value| !value.is_empty())));
        }
    }
    let Some(url) = url else {
        let was = |name: &str| stored.and_then(|url| utm_value(url, name)).unwrap_or_default();
        if changes.iter().any(|(name, value)| value.is_some_and(|value| value != was(name))) {
            let message = "web_url: enter the destination that the UTM parameters are added to";
            return Err(Invalid::field(ErrorCode::InvalidUrl, "web_url", message));
        }
        // It was cleared, and they go with it.
        return Ok(None);
    };
    let whole = with_utm(&url, &changes);
    let longest = changes.iter().filter_map(|(name, value)| Some((value.as_ref()?.len(), *name))).max();
    match longest {
        Some((_, name)) if whole.len() > MAX_LEN && url.len() <= MAX_LEN => {
            let message = format!("{name}: with its UTM parameters, the destination must be at most {MAX_LEN} bytes");
            Err(Invalid::field(ErrorCode::InvalidUrl, name, message))
        }
        _ => Ok(Some(whole)),
    }
}

/// The value of a field; a field missing from the form keeps its current value.
fn value_or(form: &Form, name: &str, now: Option<String>) -> Option<String> {
    if form.has(name) { form.filled(name) } else { now }
}

fn preview_in(form: &Form, now: SocialPreview) -> Option<SocialPreview> {
    let preview = SocialPreview {
        title: value_or(form, "social_preview.title", now.title),
        description: value_or(form, "social_preview.description", now.description),
        image_url: value_or(form, "social_preview.image_url", now.image_url),
    };
    (preview != SocialPreview::default()).then_some(preview)
}

fn context_in(form: &Form, now: AgentContext) -> Option<AgentContext> {
    let action = value_or(form, "agent_context.action", now.action.map(|action| action.as_str().to_owned()));
    let context = AgentContext {
        action: action.map(|word| Action::from(word.as_str())),
        cta: value_or(form, "agent_context.cta", now.cta),
        description: value_or(form, "agent_context.description", now.description),
    };
    (context != AgentContext::default()).then_some(context)
}

/// A moment as a form sends it, to the minute and without an offset, as RFC 3339. Anything else is left to be refused.
fn moment_in(text: String, zone: &Zone) -> String {
    let moment = if text.len() == MINUTE { zone.moment(&text) } else { None };
    moment.map_or(text, |at| at.to_string())
}

/// Length of `2026-11-20T09:30`.
const MINUTE: usize = 16;

/// The form of a link as it is. UTM parameters of the destination are in fields of their own.
pub(super) fn form_of(link: &LinkDetail, zone: &Zone) -> Form {
    let preview = link.social_preview.clone().unwrap_or_default();
    let context = link.agent_context.clone().unwrap_or_default();
    let web_url = link.web_url.as_deref();
    let mut form = Form::with([
        ("web_url", web_url.map(without_utm).as_deref()),
        ("ios_deep_link", link.ios_deep_link.as_deref()),
        ("ios_store_url", link.ios_store_url.as_deref()),
        ("android_deep_link", link.android_deep_link.as_deref()),
        ("android_store_url", link.android_store_url.as_deref()),
        ("social_preview.title", preview.title.as_deref()),
        ("social_preview.description", preview.description.as_deref()),
        ("social_preview.image_url", preview.image_url.as_deref()),
        ("agent_context.action", context.action.as_ref().map(Action::as_str)),
        ("agent_context.cta", context.cta.as_deref()),
        ("agent_context.description", context.description.as_deref()),
        ("name", link.name.as_deref()),
        ("enabled", Some(if link.enabled { "true" } else { "false" })),
        ("expires_at", link.owner_expires_at.map(|at| minute_of(at, zone)).as_deref()),
        ("expired_url", link.expired_url.as_deref()),
        ("tags", Some(&tags::text_of(&link.tags))),
        ("aliases", Some(&tags::text_of(&link.aliases))),
        ("imported_clicks", link.imported_clicks.map(|count| count.to_string()).as_deref()),
    ]);
    for name in UTM_NAMES {
        form.set(name, &web_url.and_then(|url| utm_value(url, name)).unwrap_or_default());
    }
    form
}

/// A moment as a form shows it.
fn minute_of(moment: Timestamp, zone: &Zone) -> String {
    zone.as_utc(moment).to_string().chars().take(MINUTE).collect()
}

/// What a form changes about a link: an empty field clears the value, an absent one keeps it.
pub(super) fn update_in(form: &Form, now: &LinkDetail, zone: &Zone) -> Result<UpdateLink, Invalid> {
    let shown = form_of(now, zone);
    let differs = |name: &str| form.has(name) && form.filled(name) != shown.filled(name);
    let has = |part: &str| form.names().any(|name| name.starts_with(part) && differs(name));
    let patch = |name: &str| match form.filled(name).filter(|_| differs(name)) {
        Some(value) => Patch::Set(value),
        None if differs(name) => Patch::Clear,
        None => Patch::Keep,
    };
    let mut update = UpdateLink::new();
    for (name, url) in update.destinations_mut().each() {
        *url = patch(name);
    }
    if differs("web_url") || UTM_NAMES.into_iter().any(differs) {
        update.web_url = destination_in(form, now.web_url.as_deref())?.map_or(Patch::Clear, Patch::Set);
    }
    if has("social_preview.") {
        let preview = preview_in(form, now.social_preview.clone().unwrap_or_default());
        update.social_preview = preview.map_or(Patch::Clear, Patch::Set);
    }
    if has("agent_context.") {
        let context = context_in(form, now.agent_context.clone().unwrap_or_default());
        update.agent_context = context.map_or(Patch::Clear, Patch::Set);
    }
    (update.name, update.expired_url) = (patch("name"), patch("expired_url"));
    update.tags = tags::change_in(form, "tags", &now.tags);
    update.aliases = tags::change_in(form, "aliases", &now.aliases);
    update.imported_clicks = patch("imported_clicks").map(|text| count_in(&text));
    // The form shows minutes: one that was not changed keeps its seconds.
    update.expires_at = patch("expires_at").map(|text| moment_in(text, zone));
    if let Patch::Set(word) = patch("enabled") {
        update.enabled = Patch::Set(word == "true");
    }
    Ok(update)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(fields: &[(&'static str, &'static str)]) -> Form {
        Form::with(fields.iter().map(|(name, value)| (*name, Some(*value))))
    }

    #[test]
    fn utm_parameters_are_merged_into_the_destination() {
        const STORED: &str = "https://example.com/p?a=1&utm_source=poster&utm_id=7#top";
        for (stored, fields, expected) in [
            (None, &[("web_url", "https://example.com")][..], Ok(Some("https://example.com"))),
            (
                None,
                &[("web_url", "https://example.com/p?a=%20b#top"), ("utm_source", "news letter"), ("utm_term", "a&b")],
                Ok(Some("https://example.com/p?a=%20b&utm_source=news+letter&utm_term=a%26b#top")),
            ),
            // What was pasted stays, unless its field says something else.
            (
                None,
                &[
                    ("web_url", "https://example.com/?utm_source=a&utm_medium=b"),
                    ("utm_source", ""),
                    ("utm_medium", "c"),
                ],
                Ok(Some("https://example.com/?utm_source=a&utm_medium=c")),
            ),
            (None, &[("web_url", ""), ("utm_source", "a")], Err("web_url")),
            (None, &[("web_url", "https://example.com"), ("utm_medium", "a\u{7}b")], Err("utm_medium")),
            (
                Some(STORED),
                &[("web_url", "https://example.com/p?a=1&utm_id=7#top"), ("utm_source", "")],
                Ok(Some("https://example.com/p?a=1&utm_id=7#top")),
            ),
            (
                Some(STORED),
                &[("web_url", "https://example.com/new"), ("utm_source", "poster"), ("utm_content", "b")],
                Ok(Some("https://example.com/new?utm_source=poster&utm_content=b")),
            ),
            (Some(STORED), &[("utm_source", "")], Ok(Some("https://example.com/p?a=1&utm_id=7#top"))),
            (Some(STORED), &[("web_url", ""), ("utm_source", "poster")], Ok(None)),
            (Some(STORED), &[("web_url", ""), ("utm_source", "flyer")], Err("web_url")),
        ] {
            let found = destination_in(&sent(fields), stored).map_err(|invalid| invalid.field.expect("a field"));
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(|field| &**field), expected, "{fields:?}");
        }
        let long = "x".repeat(2_000);
        let mut form = sent(&[("web_url", "https://example.com"), ("utm_source", "a")]);
        form.set("utm_campaign", &long);
        assert!(destination_in(&form, None).is_ok());
        form.set("utm_source", &long[..100]);
        let refused = destination_in(&form, None).expect_err("too long");
        assert_eq!(refused.field.as_deref(), Some("utm_campaign"));
    }
}
