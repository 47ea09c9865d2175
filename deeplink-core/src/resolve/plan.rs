//! The landing page's buttons: which there are, and where each leads.

use std::borrow::Cow;

use super::query::Query;
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
    /// The Play Store.
    PlayStore,
    /// The web address.
    Web,
}

/// The primary button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tap {
    to: Target,
    /// Where the timer leads when nothing has opened.
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
    /// Ask the visitor to open the page in a real browser.
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
    pub(super) fn new(link: &LinkView<'a>, host: &HostContext<'a>, visitor: Visitor, query: &Query<'_>) -> Self {
        let maybe_ipad = visitor.platform == Platform::Macos && link.has_ios();
        let is_native = match visitor.platform {
            Platform::Ios => link.has_ios(),
            Platform::Android => link.has_android(),
            Platform::Macos => maybe_ipad,
            Platform::Windows | Platform::Other => false,
        };
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
                .filter(|_| is_native)
                .map(|origin| alternate(origin, link.link_id, query, maybe_ipad)),
            intent: None,
            open: None,
            ipad: None,
        };
        plan.open = match visitor.platform {
            Platform::Ios => plan.on_ios(),
            Platform::Android => {
                plan.intent = plan.build_intent(visitor.firefox);
                plan.on_android()
            }
            Platform::Macos | Platform::Windows | Platform::Other => plan.on_web(),
        };
        plan.ipad = if maybe_ipad { plan.on_ios() } else { None };
        plan
    }

    /// Rows D1 to D5.
    fn on_ios(&self) -> Option<Tap> {
        let elsewhere = self.first([Target::AppStore, Target::Web]);
        if self.alternate.is_some() {
            return Some(Tap::on(Target::Alternate));
        }
        match self.link.to.ios_deep_link {
            Some(_) if self.in_app => Some(Tap::on(elsewhere.unwrap_or(Target::IosApp))),
            Some(app) if is_web(app) => Some(Tap::on(Target::IosApp)),
            Some(_) => Some(Tap { to: Target::IosApp, fallback: elsewhere }),
            None => elsewhere.map(Tap::on),
        }
    }

    /// Rows D6 to D10.
    fn on_android(&self) -> Option<Tap> {
        let elsewhere = self.first([Target::PlayStore, Target::Web]);
        let intent = self.intent.as_ref().map(|_| Tap {
            to: Target::Intent,
            // Browsers use the fallback inside the intent; in-app browsers often use none.
            fallback: elsewhere.filter(|_| self.in_app),
        });
        if self.alternate.is_some() {
            return intent.filter(|_| self.in_app).or(Some(Tap::on(Target::Alternate)));
        }
        intent.or_else(|| match self.link.to.android_deep_link {
            Some(_) if self.in_app => Some(Tap::on(elsewhere.unwrap_or(Target::AndroidApp))),
            Some(app) if is_web(app) => Some(Tap::on(Target::AndroidApp)),
            Some(_) => Some(Tap { to: Target::AndroidApp, fallback: elsewhere }),
            None => elsewhere.map(Tap::on),
        })
    }

    /// Rows D11 to D15.
    fn on_web(&self) -> Option<Tap> {
        self.first([Target::Web]).map(Tap::on)
    }

    fn build_intent(&self, firefox: bool) -> Option<String> {
        let (app, package) = (self.link.to.android_deep_link?, self.package.as_deref()?);
        let fallback = self.first([Target::PlayStore, Target::Web]).and_then(|target| self.address(target));
        if firefox { None } else { intent(app, package, fallback) }
    }

    /// The first of these that exists.
    fn first<const N: usize>(&self, targets: [Target; N]) -> Option<Target> {
        targets.into_iter().find(|&target| self.address(target).is_some())
    }

    /// Where a target leads, if the link or the tenant has it.
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

    /// Where a tap on the primary button ends when nothing has opened.
    pub fn open_fallback(&self) -> Option<&str> {
        self.address(self.open?.fallback?)
    }

    /// The own platform's store, beside the primary button.
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

    /// The web address, beside the primary button.
    pub fn web(&self) -> Option<&str> {
        self.beside_open(Target::Web)
    }

    /// The own platform's deep link, for in-app browsers whose primary button leads elsewhere.
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

    /// The Play Store, for those on another platform.
    pub fn android_store(&self) -> Option<&str> {
        self.address(Target::PlayStore).filter(|_| self.offers_stores())
    }

    /// What the primary button leads to once a Mac has turned out to be an iPad; only in row D11.
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

    /// Whether a tap also copies the link, for the app to find after its installation: on iOS, where a store address
    /// can carry nothing. On a Mac this holds only once it is corrected.
    pub fn copies_link(&self) -> bool {
        self.link.to.ios_store_url.is_some() && (self.platform == Platform::Ios || self.ipad.is_some())
    }
}
