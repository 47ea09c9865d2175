//! Where a visit leads: the decision table, as a pure function.
//!
//! The caller has found the link and handled cases without a decision (unknown links, JSON). [`decide`] returns the
//! redirect, the plan of a landing page, or the notice, and the step that led there; [`counts`] tells whether the visit
//! is counted, and as which kind. The rows of the table are in `row`, the buttons of the page in `plan`, rewriting of
//! URLs in `target`, the query string in `query`, and the decision in words in `reason`.
//!
//! A redirect to the stored web address without added parameters allocates nothing and keeps it byte for byte.

mod plan;
mod query;
mod reason;
mod row;
mod target;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use plan::{LandingPlan, Target};
pub use row::Row;
pub(crate) use target::{Cut, name_of};
pub use target::{package_of, store_id};

use crate::destinations::Destinations;
use crate::visitor::{ClickKind, Platform, Visitor};
use query::Query;

/// How long a landing page waits for an app to open before it goes to the fallback, in milliseconds.
pub const TIMER_MILLIS: u32 = 1_500;

/// A link as the decision needs it. All URLs are as stored.
#[derive(Clone, Copy, Debug)]
pub struct LinkView<'a> {
    /// The last segment of the link's address.
    pub link_id: &'a str,
    /// The shareable address.
    pub url: &'a str,
    /// Its destinations.
    pub to: Destinations<Option<&'a str>>,
    /// Whether it has a preview.
    pub has_social_preview: bool,
    /// Whether it has an agent context.
    pub has_agent_context: bool,
    /// Whether it is neither expired, flagged nor disabled.
    pub is_active: bool,
}

impl LinkView<'_> {
    /// Whether any destination is for one platform only.
    pub const fn has_platform_destination(&self) -> bool {
        self.has_ios() || self.has_android()
    }

    /// Whether its landing page has more content than its destinations, for bots to read.
    pub const fn has_texts(&self) -> bool {
        self.has_social_preview || self.has_agent_context
    }

    /// Whether it opens the iOS app or leads to the App Store.
    pub const fn has_ios(&self) -> bool {
        self.to.ios_deep_link.is_some() || self.to.ios_store_url.is_some()
    }

    /// Whether it opens the Android app or leads to Google Play.
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
    /// Whether the requested host itself has the role `alternate`.
    pub on_alternate: bool,
}

/// How a visit is answered.
#[derive(Clone, Debug)]
pub enum Outcome<'a> {
    /// 302 to this address.
    Redirect(Cow<'a, str>),
    /// The landing page.
    Landing(Box<LandingPlan<'a>>),
    /// A notice that the link is not active.
    Notice,
}

/// The step of [`decide`] that determined the response. The numbers are those of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The link is not active.
    Status = 3,
    /// A known bot, which is not redirected as people are.
    Bot = 4,
    /// The requested host is the alternate one.
    AlternateHost = 5,
    /// The visit asked for a redirect instead of a page.
    Direct = 6,
    /// The link has no destination for one platform only.
    NoApps = 7,
    /// A landing page.
    Page = 8,
}

impl Step {
    /// Its number.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// How a visit is answered, and why.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// The step that determined it.
    pub step: Step,
    /// The target of a redirect or of the landing page's primary button; `None`: nowhere, or back to the link.
    pub to: Option<Target>,
    /// The answer.
    pub outcome: Outcome<'a>,
}

/// How the link was requested, as far as counting is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// A `GET` whose response is shown at once.
    Get,
    /// A `GET` announced as a prefetch.
    Prefetch,
    /// A `HEAD`.
    Head,
}

/// Decides where a visit that did not ask for JSON leads. The steps are in the documented order.
pub fn decide<'a>(link: &LinkView<'a>, host: &HostContext<'a>, visitor: Visitor, query: Option<&str>) -> Decision<'a> {
    if !link.is_active {
        return Decision { step: Step::Status, to: None, outcome: Outcome::Notice };
    }
    let query = Query::read(query);
    let is_bot = visitor.class.is_listed();
    if !is_bot && host.on_alternate {
        let (to, url) = from_alternate_host(link, visitor.platform, &query);
        return Decision { step: Step::AlternateHost, to, outcome: Outcome::Redirect(url) };
    }
    if !is_bot
        && query.redirect
        && let Some((to, url)) = direct_target(link, visitor.platform, &query)
    {
        return Decision { step: Step::Direct, to: Some(to), outcome: Outcome::Redirect(url) };
    }
    let row = Row::of(link, host, visitor);
    let step = match row {
        _ if is_bot => Step::Bot,
        Row::D14 | Row::D15 => Step::NoApps,
        _ => Step::Page,
    };
    match link.to.web_url {
        Some(web) if row == Row::D14 && !(is_bot && link.has_texts()) => {
            let url = target::pass_on(web, &query);
            Decision { step, to: Some(Target::Web), outcome: Outcome::Redirect(url) }
        }
        _ => {
            let plan = LandingPlan::new(row, link, host, visitor, &query);
            Decision { step, to: plan.open_target(), outcome: Outcome::Landing(Box::new(plan)) }
        }
    }
}

/// On an alternate host: the system opens an installed app before any request, so this visitor needs the store.
fn from_alternate_host<'a>(
    link: &LinkView<'a>,
    platform: Platform,
    query: &Query<'_>,
) -> (Option<Target>, Cow<'a, str>) {
    let corrected_ipad = platform == Platform::Macos && query.os_is_ios;
    let store = match platform {
        Platform::Macos if corrected_ipad => app_store(link),
        Platform::Ios => app_store(link),
        Platform::Android => play_store(link, query),
        _ => None,
    };
    match store.or_else(|| web_page(link, query)) {
        Some((to, url)) => (Some(to), url),
        None => (None, Cow::Borrowed(link.url)),
    }
}

/// With `redirect=1`: the target that needs no page. A Mac may be an iPad, so it has none if iOS has a target.
fn direct_target<'a>(link: &LinkView<'a>, platform: Platform, query: &Query<'_>) -> Option<(Target, Cow<'a, str>)> {
    match platform {
        Platform::Ios => app_store(link),
        Platform::Android => play_store(link, query),
        Platform::Macos if link.has_ios() => None,
        Platform::Macos | Platform::Windows | Platform::Other => web_page(link, query),
    }
}

fn app_store<'a>(link: &LinkView<'a>) -> Option<(Target, Cow<'a, str>)> {
    link.to.ios_store_url.map(|store| (Target::AppStore, Cow::Borrowed(store)))
}

fn play_store<'a>(link: &LinkView<'a>, query: &Query<'_>) -> Option<(Target, Cow<'a, str>)> {
    link.to.android_store_url.map(|store| (Target::PlayStore, target::play_referrer(store, link.link_id, query)))
}

fn web_page<'a>(link: &LinkView<'a>, query: &Query<'_>) -> Option<(Target, Cow<'a, str>)> {
    link.to.web_url.map(|web| (Target::Web, target::pass_on(web, query)))
}

/// Whether a visit is stored as a click, and as which kind, whatever the form of the response.
pub fn counts(link: &LinkView<'_>, host: &HostContext<'_>, visitor: Visitor, fetch: Fetch) -> Option<ClickKind> {
    let counted = fetch == Fetch::Get && link.is_active && !host.on_alternate;
    counted.then(|| visitor.class.click_kind())
}
