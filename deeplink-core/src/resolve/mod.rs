//! Where a visit leads: the decision table, as a pure function.
//!
//! The caller has found the link and has answered what needs no decision (unknown links, JSON). [`decide`] gives the
//! redirect, the plan of a landing page, or the notice; [`counts`] says whether and as what the visit is counted.
//! Rewriting of URLs is in `target`, the buttons of the page in `plan`, the query string in `query`.
//!
//! A visit that is sent to the stored web address without parameters allocates nothing, and gets it byte for byte.

mod plan;
mod query;
mod target;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use plan::{LandingPlan, Target};
pub use target::{package_of, store_id};

use crate::visitor::{ClickKind, Platform, Visitor};
use query::Query;

/// A link as the decision needs one. All URLs are as stored.
#[derive(Clone, Copy, Debug)]
pub struct LinkView<'a> {
    /// The last segment of the link's address.
    pub link_id: &'a str,
    /// The shareable address.
    pub url: &'a str,
    /// Opens the iOS app.
    pub ios_deep_link: Option<&'a str>,
    /// The app in the App Store.
    pub ios_store_url: Option<&'a str>,
    /// Opens the Android app.
    pub android_deep_link: Option<&'a str>,
    /// The app in the Play Store.
    pub android_store_url: Option<&'a str>,
    /// The page for everybody else.
    pub web_url: Option<&'a str>,
    /// There is a preview to show.
    pub has_social_preview: bool,
    /// There is something to tell an agent.
    pub has_agent_context: bool,
    /// Neither expired, flagged nor disabled.
    pub is_active: bool,
}

impl LinkView<'_> {
    /// Whether any destination belongs to a platform rather than to everybody.
    pub const fn has_platform_destination(&self) -> bool {
        self.has_ios() || self.android_deep_link.is_some() || self.android_store_url.is_some()
    }

    const fn has_ios(&self) -> bool {
        self.ios_deep_link.is_some() || self.ios_store_url.is_some()
    }
}

/// What the decision needs to know about the tenant and the host that was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The tenant's verified domain of role `alternate`.
    pub alternate: Option<&'a str>,
    /// The package of the tenant's Android app, if there is exactly one.
    pub only_android_package: Option<&'a str>,
    /// The host that was asked is itself of role `alternate`.
    pub on_alternate: bool,
}

/// How a visit is answered.
#[derive(Clone, Debug)]
pub enum Outcome<'a> {
    /// 302 to this address.
    Redirect(Cow<'a, str>),
    /// The landing page.
    Landing(Box<LandingPlan<'a>>),
    /// The link is not active: a notice says so.
    Notice,
}

/// How a visit arrived, as far as counting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// A `GET` by somebody who wants the answer now.
    Get,
    /// A `GET` announced as a prefetch.
    Prefetch,
    /// A `HEAD`.
    Head,
}

/// Decides where a visit that did not ask for JSON leads. The steps keep the order in which they are specified.
pub fn decide<'a>(
    link: &LinkView<'a>,
    around: &Surroundings<'a>,
    visitor: Visitor,
    query: Option<&str>,
) -> Outcome<'a> {
    if !link.is_active {
        return Outcome::Notice;
    }
    let query = Query::read(query);
    let landing = || Outcome::Landing(Box::new(LandingPlan::new(link, around, visitor, &query)));
    if visitor.class.is_listed() {
        if link.has_social_preview || link.has_agent_context {
            return landing();
        }
    } else if around.on_alternate {
        return Outcome::Redirect(trampoline(link, visitor.platform, &query));
    } else if query.redirect
        && let Some(to) = straight(link, visitor.platform, &query)
    {
        return Outcome::Redirect(to);
    }
    match link.web_url {
        Some(web) if !link.has_platform_destination() => Outcome::Redirect(target::pass_on(web, &query)),
        _ => landing(),
    }
}

/// On an alternate host: whoever has the app was taken there before any request, so everybody here needs the store.
fn trampoline<'a>(link: &LinkView<'a>, platform: Platform, query: &Query<'_>) -> Cow<'a, str> {
    let corrected_ipad = platform == Platform::Macos && query.os_is_ios;
    let store = match platform {
        Platform::Ios => link.ios_store_url.map(Cow::Borrowed),
        Platform::Macos if corrected_ipad => link.ios_store_url.map(Cow::Borrowed),
        Platform::Android => link.android_store_url.map(|store| target::play_referrer(store, link.link_id, query)),
        _ => None,
    };
    store.or_else(|| link.web_url.map(|web| target::pass_on(web, query))).unwrap_or(Cow::Borrowed(link.url))
}

/// With `redirect=1`: the target that needs no page. A Mac may be an iPad, so it has none where iOS has one.
fn straight<'a>(link: &LinkView<'a>, platform: Platform, query: &Query<'_>) -> Option<Cow<'a, str>> {
    match platform {
        Platform::Ios => link.ios_store_url.map(Cow::Borrowed),
        Platform::Android => link.android_store_url.map(|store| target::play_referrer(store, link.link_id, query)),
        Platform::Macos if link.has_ios() => None,
        Platform::Macos | Platform::Windows | Platform::Other => link.web_url.map(|web| target::pass_on(web, query)),
    }
}

/// Whether a visit is stored as a click, and as which kind. It does not depend on the form of the answer.
pub fn counts(link: &LinkView<'_>, around: &Surroundings<'_>, visitor: Visitor, fetch: Fetch) -> Option<ClickKind> {
    let counted = fetch == Fetch::Get && link.is_active && !around.on_alternate;
    counted.then(|| visitor.class.click_kind())
}
