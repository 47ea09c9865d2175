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

use crate::destinations::Destinations;
use crate::visitor::{ClickKind, Platform, Visitor};
use query::Query;

/// A link as the decision needs one. All URLs are as stored.
#[derive(Clone, Copy, Debug)]
pub struct LinkView<'a> {
    /// The last segment of the link's address.
    pub link_id: &'a str,
    /// The shareable address.
    pub url: &'a str,
    /// Where it leads.
    pub to: Destinations<Option<&'a str>>,
    /// There is a preview to show.
    pub has_social_preview: bool,
    /// There is an agent context.
    pub has_agent_context: bool,
    /// Neither expired, flagged nor disabled.
    pub is_active: bool,
}

impl LinkView<'_> {
    /// Whether any destination is for one platform only.
    pub const fn has_platform_destination(&self) -> bool {
        self.has_ios() || self.has_android()
    }

    /// Whether it opens the iOS app or leads to the App Store.
    pub const fn has_ios(&self) -> bool {
        self.to.ios_deep_link.is_some() || self.to.ios_store_url.is_some()
    }

    /// Whether it opens the Android app or leads to the Play Store.
    pub const fn has_android(&self) -> bool {
        self.to.android_deep_link.is_some() || self.to.android_store_url.is_some()
    }
}

/// The tenant and the host of a visit, as far as the decision needs them.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostContext<'a> {
    /// The origin of the tenant's verified domain of role `alternate`, such as `https://open.example.com`.
    pub alternate: Option<&'a str>,
    /// The package of the tenant's Android app, if there is exactly one.
    pub only_android_package: Option<&'a str>,
    /// The requested host itself has the role `alternate`.
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

/// How a visit arrived, as far as counting is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// A `GET` whose answer is shown at once.
    Get,
    /// A `GET` announced as a prefetch.
    Prefetch,
    /// A `HEAD`.
    Head,
}

/// Decides where a visit that did not ask for JSON leads. The steps keep the order in which they are specified.
pub fn decide<'a>(link: &LinkView<'a>, host: &HostContext<'a>, visitor: Visitor, query: Option<&str>) -> Outcome<'a> {
    if !link.is_active {
        return Outcome::Notice;
    }
    let query = Query::read(query);
    let landing = || Outcome::Landing(Box::new(LandingPlan::new(link, host, visitor, &query)));
    if visitor.class.is_listed() {
        if link.has_social_preview || link.has_agent_context {
            return landing();
        }
    } else if host.on_alternate {
        return Outcome::Redirect(from_alternate_host(link, visitor.platform, &query));
    } else if query.redirect
        && let Some(to) = direct_target(link, visitor.platform, &query)
    {
        return Outcome::Redirect(to);
    }
    match link.to.web_url {
        Some(web) if !link.has_platform_destination() => Outcome::Redirect(target::pass_on(web, &query)),
        _ => landing(),
    }
}

/// On an alternate host: the system opens an installed app before any request, so this visitor needs the store.
fn from_alternate_host<'a>(link: &LinkView<'a>, platform: Platform, query: &Query<'_>) -> Cow<'a, str> {
    let corrected_ipad = platform == Platform::Macos && query.os_is_ios;
    let store = match platform {
        Platform::Ios => link.to.ios_store_url.map(Cow::Borrowed),
        Platform::Macos if corrected_ipad => link.to.ios_store_url.map(Cow::Borrowed),
        Platform::Android => link.to.android_store_url.map(|store| target::play_referrer(store, link.link_id, query)),
        _ => None,
    };
    store.or_else(|| link.to.web_url.map(|web| target::pass_on(web, query))).unwrap_or(Cow::Borrowed(link.url))
}

/// With `redirect=1`: the target that needs no page. A Mac may be an iPad, so it has none where iOS has one.
fn direct_target<'a>(link: &LinkView<'a>, platform: Platform, query: &Query<'_>) -> Option<Cow<'a, str>> {
    match platform {
        Platform::Ios => link.to.ios_store_url.map(Cow::Borrowed),
        Platform::Android => link.to.android_store_url.map(|store| target::play_referrer(store, link.link_id, query)),
        Platform::Macos if link.has_ios() => None,
        Platform::Macos | Platform::Windows | Platform::Other => link.to.web_url.map(|web| target::pass_on(web, query)),
    }
}

/// Whether a visit is stored as a click, and as which kind. It does not depend on the form of the answer.
pub fn counts(link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor, fetch: Fetch) -> Option<ClickKind> {
    let counted = fetch == Fetch::Get && link.is_active && !host.on_alternate;
    counted.then(|| visitor.class.click_kind())
}
