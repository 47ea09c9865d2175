//! The response to a visit, and why. Decided and carried out like a real visit, but no click is recorded.

use std::sync::Arc;

use deeplink_core::explanation::{AnswerForm, ExplainQuery, ExplainedOutcome, Explanation};
use deeplink_core::link::LinkStatus;
use deeplink_core::resolve::{self, Decision, Fetch, LandingPlan, Outcome, Step, TIMER_MILLIS};
use deeplink_core::visitor::{AgentTraits, Form, Visitor, wants_json};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::lookup::load_link;
use super::page::host_of;
use super::{carry_out, host_context, json, json_response, platform_hint, refused};
use crate::cache::CachedLink;
use crate::db::Conn;
use crate::db::hosts::{self, Host};
use crate::db::links::Link;
use crate::error::ApiError;
use crate::http::host::normalized;
use crate::state::App;

/// A link on one of its hosts, as visitors get it there.
pub(crate) struct Address {
    link_id: String,
    url: String,
    /// Why the link is not available there.
    missing: Option<Missing>,
    link: Option<Arc<CachedLink>>,
    on_alternate: bool,
    status: LinkStatus,
    /// The operator's reason for taking the link down, if it is said.
    pub(crate) takedown: Option<String>,
}

/// Why a link is not available on a host.
enum Missing {
    /// On the service's own host, its ID belongs to another link or to none.
    OnService,
    /// The host is not a domain of the account.
    OnHost(String),
}

impl Address {
    /// The link on a given host, or on its own. The host must be a verified domain of the link's account or the
    /// service's own host.
    pub(crate) async fn of(
        app: &App,
        db: &mut Conn<'_>,
        link: &Link,
        primary: Option<&str>,
        host: Option<&str>,
    ) -> Result<Self, ApiError> {
        let own = app.url_of(link, primary);
        let name = match host {
            Some(host) => normalized(host.as_bytes()).map_err(|_| foreign())?.into_owned(),
            None => host_of(&own).to_owned(),
        };
        let mut address = Self {
            link_id: link.link_id.clone(),
            url: own,
            missing: None,
            link: None,
            on_alternate: false,
            status: link.status_at(app.clock.now()),
            takedown: None,
        };
        let now = app.clock.monotonic_millis();
        if app.is_service_host(&name) {
            address.url = app.link_url(&link.link_id, None);
            let there = load_link(app, db, None, &link.link_id, now).await?;
            address.link = there.filter(|there| there.position == link.position);
            address.missing = address.link.is_none().then_some(Missing::OnService);
            return Ok(address);
        }
        match hosts::find(db, &name).await?.filter(|found| found.tenant == link.tenant) {
            Some(Host { tenant, name, alternate, .. }) => {
                address.url = app.link_url(&link.link_id, Some(&name));
                address.on_alternate = alternate;
                address.link = load_link(app, db, Some(&tenant), &link.link_id, now).await?;
                // It was deleted in the meantime.
                if address.link.is_none() {
                    return Err(ApiError::not_found());
                }
            }
            None if host.is_some() => return Err(foreign()),
            None => address.missing = Some(Missing::OnHost(name)),
        }
        Ok(address)
    }

    /// The response to a visitor, and why.
    pub(crate) async fn explain(&self, app: &App, asked: &ExplainQuery) -> Result<Explanation, ApiError> {
        let headers = headers_of(asked)?;
        let visitor = Visitor::new(AgentTraits::of(asked.agent()), platform_hint(&headers));
        let form = wants_json(headers.get_all(header::ACCEPT));
        let Some(link) = &self.link else {
            let response = refused(app, &headers, ApiError::not_found(), form);
            return Ok(self.explanation(visitor, form, (response.status(), response.headers())));
        };
        let status = link.status_at(app.clock.now());
        // The suspension of an account shows as that of each link, unless a link was flagged.
        let is_suspended = status == LinkStatus::Disabled && link.branding().is_suspended;
        let (view, around) = (link.view(status == LinkStatus::Active), host_context(link, self.on_alternate));
        let counted = resolve::counts(&view, &around, visitor, Fetch::Get);
        if form == Form::Json {
            let response = json_response(json::render(link, &status));
            return Ok(Explanation {
                outcome: ExplainedOutcome::Json,
                reason: self.with_takedown(for_json(&status), is_suspended),
                step: 2,
                status,
                counted,
                ..self.explanation(visitor, form, (response.status(), response.headers()))
            });
        }
        let decision = resolve::decide(&view, &around, visitor, asked.redirect.then_some("redirect=1"));
        let response = carry_out(app, link, &status, &decision.outcome, &headers).await;
        let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let reason = match decision.step {
            Step::Status => self.with_takedown(for_status(&status, is_suspended, location.is_some()), is_suspended),
            _ => decision.reason(&view, &around, visitor),
        };
        let explanation = Explanation {
            outcome: outcome_of(&decision, location.is_some()),
            reason,
            target: location.map(str::to_owned),
            step: decision.step.number(),
            row: decision.row(&view, &around, visitor).map(|row| row.as_str().to_owned()),
            status,
            counted,
            ..self.explanation(visitor, form, (response.status(), response.headers()))
        };
        Ok(match &decision.outcome {
            Outcome::Landing(plan) => with_page(explanation, plan),
            _ => explanation,
        })
    }

    /// The reason, with the operator's for taking the link down. A suspension has another reason.
    fn with_takedown(&self, why: &str, is_suspended: bool) -> String {
        match &self.takedown {
            Some(reason) if !is_suspended => {
                format!("{why} The operator's reason: \"{}\".", reason.trim_end_matches('.'))
            }
            _ => why.to_owned(),
        }
    }

    /// The explanation for a link that is not found; the others replace some of its fields.
    fn explanation(&self, visitor: Visitor, form: Form, (status, headers): (StatusCode, &HeaderMap)) -> Explanation {
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let shown = headers.iter().filter(|(name, _)| *name != header::CONTENT_SECURITY_POLICY);
        Explanation {
            link_id: self.link_id.clone(),
            url: self.url.clone(),
            outcome: ExplainedOutcome::NotFound,
            reason: self.missing.as_ref().map_or_else(String::new, Missing::reason),
            target: None,
            fallback: None,
            timer_ms: None,
            ipad_target: None,
            step: 1,
            row: None,
            status: self.status.clone(),
            form: if form == Form::Json { AnswerForm::Json } else { AnswerForm::Html },
            platform: visitor.platform,
            visitor: visitor.class,
            in_app: visitor.in_app,
            http_status: status.as_u16(),
            headers: shown.map(text).collect(),
            counted: None,
        }
    }
}

impl Missing {
    fn reason(&self) -> String {
        match self {
            Self::OnService => {
                "The link is available only on the account's domains, not on the service's own host.".to_owned()
            }
            Self::OnHost(host) => {
                format!("{host} is not a verified domain of this account, so the link is not available there.")
            }
        }
    }
}

fn foreign() -> ApiError {
    ApiError::bad_field("host", "host must be a verified domain of this account")
}

/// The headers of the visit.
fn headers_of(asked: &ExplainQuery) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    let platform = HeaderName::from_static("sec-ch-ua-platform");
    for (name, field, text) in
        [(header::ACCEPT, "accept", Some(asked.accepted())), (platform, "os", asked.os.as_deref())]
    {
        let Some(text) = text else { continue };
        let value = HeaderValue::from_bytes(text.as_bytes());
        let refused = |_| ApiError::bad_field(field, format!("{field} is not a valid header value"));
        headers.insert(name, value.map_err(refused)?);
    }
    Ok(headers)
}

fn outcome_of(decision: &Decision<'_>, is_redirect: bool) -> ExplainedOutcome {
    match &decision.outcome {
        Outcome::Landing(_) => ExplainedOutcome::Landing,
        Outcome::Notice if !is_redirect => ExplainedOutcome::Notice,
        Outcome::Notice | Outcome::Redirect(_) => ExplainedOutcome::Redirect,
    }
}

/// Adds the targets of the page's main button.
fn with_page(explanation: Explanation, plan: &LandingPlan<'_>) -> Explanation {
    let text = |url: Option<&str>| url.map(str::to_owned);
    Explanation {
        target: text(plan.open()),
        fallback: text(plan.open_fallback().or(plan.intent_fallback())),
        timer_ms: plan.open_fallback().map(|_| TIMER_MILLIS),
        ipad_target: text(plan.ipad_open()),
        ..explanation
    }
}

fn for_json(status: &LinkStatus) -> &'static str {
    if *status == LinkStatus::Active {
        "The client requests JSON, so it gets the link's data."
    } else {
        "The client requests JSON, but gets only the ID and the status, because the link is not active."
    }
}

fn for_status(status: &LinkStatus, is_suspended: bool, is_redirect: bool) -> &'static str {
    match status {
        LinkStatus::Expired if is_redirect => {
            "The link has expired, so everyone is redirected to the URL set for expired links."
        }
        LinkStatus::Expired => "The link has expired, so everyone gets a notice.",
        LinkStatus::Flagged => {
            "The link was flagged as unsafe, so everyone gets a warning, without a link to the destination."
        }
        _ if is_suspended => {
            "The operator of this service suspended the account, so everyone gets a notice that the link is not available."
        }
        _ => "The link is disabled, so everyone gets a notice that it is not available.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_waits_as_long_as_is_said() {
        let script = include_str!("../../templates/landing.js");
        assert!(script.contains(&format!("location.href = fallback; }}, {TIMER_MILLIS});")));
    }
}
