//! The landing page's buttons, and where each leads.

use std::borrow::Cow;

use super::query::Query;
use super::row::{NoIntent, Row};
use super::target::{alternate, intent, is_web, package_of, pass_on, play_referrer};
use super::{HostContext, LinkView};
use crate::visitor::{Platform, Visitor};

/// Something a button can lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The link on the tenant's alternate host, which opens the app or leads to the store.
    Alternate,
    /// The iOS deep link.
    IosApp,
    /// The Android deep link.
    AndroidApp,
    /// The Android deep link as an intent, which names its app and its fallback.
    Intent,
    /// The App Store.
    AppStore,
    /// Google Play.
    PlayStore,
    /// The web address.
    Web,
}

/// The primary button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tap {
    to: Target,
    /// Where the timer leads if no app has opened.
    fallback: Option<Target>,
}

impl Tap {
    fn on(to: Target) -> Self {
        Self { to, fallback: None }
    }
}

/// What a landing page offers to this visitor.
#[derive(Clone, Debug)]
pub struct LandingPlan<'a> {
    /// The link; the page's metadata shows its stored destinations.
    pub link: LinkView<'a>,
    /// The visitor's platform.
    pub platform: Platform,
    /// The Android package, if known.
    pub package: Option<Cow<'a, str>>,
    /// Whether to ask the visitor to open the page in a real browser.
    pub hint: bool,
    in_app: bool,
    web: Option<Cow<'a, str>>,
    play_store: Option<Cow<'a, str>>,
    alternate: Option<String>,
    intent: Option<String>,
    open: Option<Tap>,
    ipad: Option<Tap>,
}

impl<'a> LandingPlan<'a> {
    /// The page for a visit that falls under `row`.
    pub(super) fn new(
        row: Row,
        link: &LinkView<'a>,
        host: &HostContext<'a>,
        visitor: Visitor,
        query: &Query<'_>,
    ) -> Self {
        let maybe_ipad = row == Row::D11;
        let mut plan = Self {
            link: *link,
            platform: visitor.platform,
            package: package_of(link.to.android_store_url, host.only_android_package),
            hint: visitor.wechat,
            in_app: visitor.in_app,
            web: link.to.web_url.map(|web| pass_on(web, query)),
            play_store: link.to.android_store_url.map(|store| play_referrer(store, link.link_id, query)),
            alternate: host
                .alternate
                .filter(|_| maybe_ipad || matches!(row, Row::D1 | Row::D6))
                .map(|origin| alternate(origin, link.link_id, query, maybe_ipad)),
            intent: None,
            open: None,
            ipad: None,
        };
        plan.intent = plan.build_intent(row, host, visitor);
        plan.open = plan.tap(row);
        plan.ipad = if maybe_ipad { plan.tap(Row::on_ios(link, host)) } else { None };
        plan
    }

    /// The decision table: what the primary button leads to.
    fn tap(&self, row: Row) -> Option<Tap> {
        let to_app_store = [Target::AppStore, Target::Web];
        let to_play_store = [Target::PlayStore, Target::Web];
        match row {
            Row::D1 => Some(Tap::on(Target::Alternate)),
            // An in-app browser seldom opens apps.
            Row::D2 | Row::D3 if self.in_app => Some(Tap::on(self.first(to_app_store).unwrap_or(Target::IosApp))),
            Row::D2 => Some(Tap { to: Target::IosApp, fallback: self.first(to_app_store) }),
            Row::D3 => Some(Tap::on(Target::IosApp)),
            Row::D4 => Some(Tap::on(Target::AppStore)),
            Row::D6 if !self.in_app || self.intent.is_none() => Some(Tap::on(Target::Alternate)),
            // Browsers use the fallback in the intent; in-app browsers often ignore it.
            Row::D6 | Row::D7 => {
                let fallback = self.first(to_play_store).filter(|_| self.in_app);
                Some(Tap { to: Target::Intent, fallback })
            }
            Row::D8 if self.in_app => Some(Tap::on(self.first(to_play_store).unwrap_or(Target::AndroidApp))),
            Row::D8 if self.link.to.android_deep_link.is_some_and(is_web) => Some(Tap::on(Target::AndroidApp)),
            Row::D8 => Some(Tap { to: Target::AndroidApp, fallback: self.first(to_play_store) }),
            Row::D9 => Some(Tap::on(Target::PlayStore)),
            Row::D5 | Row::D10 | Row::D11 | Row::D12 | Row::D13 | Row::D14 | Row::D15 => {
                self.first([Target::Web]).map(Tap::on)
            }
        }
    }

    /// The intent of an Android phone. Row D7 has one, and row D6 may.
    fn build_intent(&self, row: Row, host: &HostContext<'_>, visitor: Visitor) -> Option<String> {
        let (app, package) = (self.link.to.android_deep_link?, self.package.as_deref()?);
        let is_buildable = row == Row::D7 || row == Row::D6 && NoIntent::of(app, &self.link, host, visitor).is_none();
        if !is_buildable {
            return None;
        }
        intent(app, package, self.first([Target::PlayStore, Target::Web]).and_then(|target| self.address(target)))
    }

    /// The first of these that exists.
    fn first<const N: usize>(&self, targets: [Target; N]) -> Option<Target> {
        targets.into_iter().find(|&target| self.address(target).is_some())
    }

    /// The URL of a target, if the link or the tenant has it.
    fn address(&self, target: Target) -> Option<&str> {
        match target {
            Target::Alternate => self.alternate.as_deref(),
            Target::IosApp => self.link.to.ios_deep_link,
            Target::AndroidApp => self.link.to.android_deep_link,
            Target::Intent => self.intent.as_deref(),
            Target::AppStore => self.link.to.ios_store_url,
            Target::PlayStore => self.play_store.as_deref(),
            Target::Web => self.web.as_deref(),
        }
    }

    /// The address of `target`, unless the primary button already leads there.
    fn beside_open(&self, target: Target) -> Option<&str> {
        self.address(target).filter(|_| self.open_target() != Some(target))
    }

    /// Stores are shown on computers, and where there is no primary button.
    fn offers_stores(&self) -> bool {
        self.open.is_none() || !matches!(self.platform, Platform::Ios | Platform::Android)
    }

    /// What the primary button leads to.
    pub fn open_target(&self) -> Option<Target> {
        self.open.map(|tap| tap.to)
    }

    /// The primary button.
    pub fn open(&self) -> Option<&str> {
        self.address(self.open?.to)
    }

    /// Where a tap on the primary button leads if no app opens within [`TIMER_MILLIS`](super::TIMER_MILLIS).
    pub fn open_fallback(&self) -> Option<&str> {
        self.address(self.open?.fallback?)
    }

    /// What [`Self::open_fallback`] is.
    pub fn fallback_target(&self) -> Option<Target> {
        self.open?.fallback
    }

    /// Where the browser itself goes if the primary button is an intent and its app is not installed.
    pub fn intent_fallback(&self) -> Option<&str> {
        self.address(self.intent_fallback_target()?)
    }

    /// What [`Self::intent_fallback`] is.
    pub fn intent_fallback_target(&self) -> Option<Target> {
        if self.open_target() == Some(Target::Intent) { self.first([Target::PlayStore, Target::Web]) } else { None }
    }

    /// The store of the visitor's platform, next to the primary button.
    pub fn store(&self) -> Option<&str> {
        self.beside_open(self.own_store()?)
    }

    /// Which store [`Self::store`] is.
    pub fn own_store(&self) -> Option<Target> {
        match self.platform {
            Platform::Ios => Some(Target::AppStore),
            Platform::Android => Some(Target::PlayStore),
            Platform::Macos | Platform::Windows | Platform::Other => None,
        }
    }

    /// The web address, next to the primary button.
    pub fn web(&self) -> Option<&str> {
        self.beside_open(Target::Web)
    }

    /// The deep link of the visitor's platform, for in-app browsers whose primary button leads elsewhere.
    pub fn deep(&self) -> Option<&str> {
        let own = match self.platform {
            Platform::Ios => Target::IosApp,
            Platform::Android => Target::AndroidApp,
            Platform::Macos | Platform::Windows | Platform::Other => return None,
        };
        let opens_app = matches!(self.open_target(), Some(Target::Intent | Target::Alternate));
        self.beside_open(own).filter(|_| self.in_app && !opens_app)
    }

    /// The App Store, for those on another platform.
    pub fn ios_store(&self) -> Option<&str> {
        self.address(Target::AppStore).filter(|_| self.offers_stores())
    }

    /// Google Play, for those on another platform.
    pub fn android_store(&self) -> Option<&str> {
        self.address(Target::PlayStore).filter(|_| self.offers_stores())
    }

    /// What the primary button leads to if a Mac turns out to be an iPad; only in row D11.
    pub fn ipad_target(&self) -> Option<Target> {
        self.ipad.map(|tap| tap.to)
    }

    /// Whether the visitor may want to continue on a phone: the page then shows the link as a QR code.
    pub fn shows_qr(&self) -> bool {
        matches!(self.platform, Platform::Macos | Platform::Windows | Platform::Other)
    }

    /// The primary button of a corrected iPad.
    pub fn ipad_open(&self) -> Option<&str> {
        self.address(self.ipad?.to)
    }

    /// The timer of a corrected iPad's primary button.
    pub fn ipad_fallback(&self) -> Option<&str> {
        self.address(self.ipad?.fallback?)
    }

    /// Whether a tap also copies the link, for the app to find once installed: on iOS, where a store address cannot
    /// carry data. A Mac copies it only if it turns out to be an iPad.
    pub fn copies_link(&self) -> bool {
        self.link.to.ios_store_url.is_some() && (self.platform == Platform::Ios || self.ipad.is_some())
    }
}
