//! The JSON form of a visit, written straight from the packed link: it is as frequent as the redirect.

use deeplink_core::link::{LinkStatus, ServiceMeta};

use crate::cache::CachedLink;

/// The link as a program sees it. For a link that is not active, only its id and status are set.
pub(super) fn render(link: &CachedLink, status: &LinkStatus) -> String {
    let active = *status == LinkStatus::Active;
    let view = link.view(active);
    let mut out = String::with_capacity(768);
    out.push('{');
    text(&mut out, "link_id", Some(view.link_id));
    for (name, value) in view.to.each() {
        out.push(',');
        text(&mut out, name, value.filter(|_| active));
    }
    for (name, json) in [
        ("metadata", link.metadata()),
        ("agent_context", link.agent_context()),
        ("social_preview", link.social_preview()),
    ] {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":");
        // These are stored as checked JSON.
        out.push_str(json.filter(|_| active).unwrap_or("null"));
    }
    out.push_str(",\"_service_meta\":{");
    text(&mut out, "source", Some(ServiceMeta::SOURCE));
    out.push(',');
    text(&mut out, "status", Some(status.as_str()));
    out.push(',');
    text(&mut out, "tenant_domain", link.branding().domain.as_deref());
    out.push_str(if link.branding().domain.is_some() {
        ",\"tenant_verified\":true}}"
    } else {
        ",\"tenant_verified\":false}}"
    });
    out
}

fn text(out: &mut String, name: &str, value: Option<&str>) {
    out.push('"');
    out.push_str(name);
    out.push_str("\":");
    match value {
        None => out.push_str("null"),
        Some(value) if value.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') => {
            out.push('"');
            out.push_str(value);
            out.push('"');
        }
        // Writing a string as JSON cannot fail.
        Some(value) => out.push_str(&serde_json::to_string(value).unwrap_or_else(|_| "null".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::links::Link;
    use deeplink_core::link::{CreateLink, ResolvedLink};
    use deeplink_core::time::Timestamp;

    fn known(json: &str) -> CachedLink {
        let request: CreateLink = serde_json::from_str(json).expect("a create request");
        let tenant = "tnt_0123456789abcdef01234567".parse().expect("an id");
        let content = request.check().expect("a valid link");
        let link = Link::new(tenant, "abc".into(), content, Timestamp::from_millis(0));
        let cache = crate::cache::LinkCache::new(1 << 20, true);
        CachedLink::pack(
            &link,
            "http://localhost/r/abc",
            std::sync::Arc::default(),
            cache.under(link.tenant.as_str()),
            0,
        )
    }

    #[test]
    fn what_is_written_by_hand_reads_back_as_the_wire_type() {
        let link = known(
            r#"{"web_url":"https://example.com/?a=1","ios_deep_link":"myapp:say\"hi\\","metadata":{"_service_meta":{"source":"x"},"n":1e400},
                "agent_context":{"action":"read","cta":"Go \"now\""},"social_preview":{"title":"T"}}"#,
        );
        let json = render(&link, &LinkStatus::Active);
        let read: ResolvedLink = serde_json::from_str(&json).expect("a resolved link");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), json);
        assert_eq!(read.ios_deep_link.as_deref(), Some(r#"myapp:say"hi\"#));
        assert_eq!(read.service_meta.source, "tenant_asserted");
    }

    #[test]
    fn l14_of_a_link_that_is_not_active_only_the_status_is_told() {
        let link = known(r#"{"web_url":"https://example.com/","metadata":{"a":1}}"#);
        let read: ResolvedLink = serde_json::from_str(&render(&link, &LinkStatus::Flagged)).expect("a resolved link");
        assert_eq!((read.web_url, read.metadata, read.service_meta.status), (None, None, LinkStatus::Flagged));
    }
}
