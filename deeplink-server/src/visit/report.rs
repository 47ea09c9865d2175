//! A click reported by an app or page that opened the link itself: counted and answered like a visit.

use std::net::IpAddr;

use deeplink_core::link::LinkStatus;
use deeplink_core::visitor::{ClickKind, Visitor};
use http::header::{self, HeaderMap, HeaderValue};

use super::json;
use crate::cache::CachedLink;
use crate::clicks::Click;
use crate::state::App;

/// The click to count, and the response: the link as JSON and the platform. `None` when the link is not active.
pub(crate) fn clicked(app: &App, peer: IpAddr, headers: &HeaderMap, link: &CachedLink) -> Option<(Click, String)> {
    let now = app.clock.now();
    let status = link.status_at(now);
    if status != LinkStatus::Active {
        return None;
    }
    let texts = app.clicks.texts();
    let agent = texts.agent(headers.get(header::USER_AGENT).map(HeaderValue::as_bytes));
    let hint = headers.get("sec-ch-ua-platform").and_then(|value| value.to_str().ok());
    let Visitor { platform, user_agent, .. } = Visitor::new(agent.traits(), hint);
    let referer = texts.referer(headers.get(header::REFERER).map(HeaderValue::as_bytes));
    let click = Click {
        link: link.position,
        at: now.as_millis(),
        // A person used the app, whatever its HTTP library calls itself.
        kind: ClickKind::Human.code(),
        platform: platform.code(),
        agent_code: user_agent.code(),
        country: app.country_of(peer, headers).code(),
        agent: agent.text().map(|text| texts.charge(link.branding(), now, text)),
        referer: referer.map(|text| texts.charge(link.branding(), now, text)),
    };
    let mut body = json::render(link, &status);
    // Drops the closing brace of the object.
    body.pop();
    body.push_str(",\"platform\":\"");
    body.push_str(platform.as_str());
    body.push_str("\"}");
    Some((click, body))
}
