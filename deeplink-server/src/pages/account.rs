//! The account's overview, and signing out.

use std::borrow::Cow;

use askama::Template;
use axum::extract::State;
use deeplink_core::billing::Usage;
use deeplink_core::link::LinkFilter;
use futures_util::FutureExt;
use http::header::SET_COOKIE;

use super::PageResult;
use super::chart::Report;
use super::form::Form;
use super::frame::{Frame, REPORTS, Section, answer};
use super::headers::see_other;
use super::person::{Leaving, Person};
use super::plan::Plan;
use super::range::Range;
use crate::api;
use crate::db::tenants;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::state::{App, Shared};

/// A step of getting started.
struct Step {
    is_done: bool,
    title: &'static str,
    text: &'static str,
    /// A path of the account, or a link's URL.
    path: Cow<'static, str>,
}

#[derive(Template)]
#[template(path = "pages/overview.html")]
struct Overview<'a> {
    frame: &'a Frame,
    /// Empty once all steps are done.
    steps: Vec<Step>,
    report: Report,
    plan: Plan,
    /// The service's URL.
    base: &'a str,
}

/// The overview.
pub(super) async fn show(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    let now = app.clock.now();
    let usage = app.report(&person.caller, move |mut db, tenant| {
        async move { tenants::usage(&mut db, &tenant, now).await }.boxed()
    });
    let usage = usage.await?;
    let mut steps = vec![
        Step {
            is_done: usage.keys > 0,
            title: "Create a secret key",
            text: "For the API and the dl command.",
            path: "/account/keys".into(),
        },
        Step {
            is_done: usage.links > 0,
            title: "Create a link",
            text: "One link that opens the right destination on every device.",
            path: "/account/new-link".into(),
        },
        Step {
            is_done: usage.verified_domains > 0,
            title: if usage.domains > 0 { "Verify your domain" } else { "Add your domain" },
            text: "Links on your own domain carry your brand, open your apps, and expire only when you want them to.",
            path: "/account/domains".into(),
        },
    ];
    let frame = Frame::of(&app, &person, Section::OVERVIEW, "Overview").with(&REPORTS).after(&query);
    let base = app.public_url.as_str().trim_end_matches('/');
    let range = Range::read("/account", &query, now, &person.who.zone)?;
    let is_default = range.is_default();
    let report = match Report::of_account(&app, &person.caller, range).await {
        report if usage.links == 0 && is_default && report.is_empty() => Report::NoLinks,
        report => report,
    };
    if steps.iter().all(|step| step.is_done) {
        steps.clear();
    } else if usage.links > 0 && is_default {
        steps.insert(2, try_a_link(&app, &person, !report.is_empty()).await?);
    }
    let status = report.status();
    let used = Usage::new(usage.links, usage.events_this_month, usage.domains, usage.people, usage.webhooks);
    let plan = Plan::of(&app.config.limits_of(&usage.tier), &usage.tier, app.config.enforce_quotas, &used);
    let page = Overview { frame: &frame, steps, report, plan, base };
    Ok(answer(&app, status, &frame, &page))
}

/// The step of opening a link, which leads to the newest until there are clicks.
async fn try_a_link(app: &App, person: &Person, is_done: bool) -> Result<Step, ApiError> {
    let newest = if is_done {
        None
    } else {
        let found = api::link_list::page_of(app, &person.caller, LinkFilter::new(), None, 1).await?;
        found.links.first().map(|link| app.url_of(link, found.primary.as_deref()))
    };
    Ok(Step {
        is_done,
        title: "Open a link",
        text: if is_done { "Its clicks are shown below." } else { "Then reload this page to see the click." },
        path: newest.map_or(Cow::Borrowed("/account/links"), Cow::Owned),
    })
}

/// Ends the session.
pub(super) async fn sign_out(State(app): State<Shared>, Leaving(person): Leaving, _: Form) -> PageResult {
    let cleared = api::sessions::end(&app, &person.who).await?;
    let mut response = see_other("/signin?signed_out=1");
    response.headers_mut().insert(SET_COOKIE, cleared);
    Ok(response)
}
